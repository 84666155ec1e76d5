"""A layout's GPUs as its mesh has them."""

import pytest
from charts import boxes, drawn
from charts import said as told

from mathlib.checks import InputError
from mathlib.layout import Layout
from mathlib.show.schemes import planning


def test_every_gpu_stands_in_the_picture() -> None:
    picture = drawn(planning.cards(Layout(data=16, tensor=2, pipeline=2)))
    hints = boxes(picture)
    for gpu in (0, 1, 2, 63):
        at = f"GPU {gpu}: replica {gpu % 32 // 2}, stage {gpu // 32}, shard {gpu % 2}"
        assert at in hints
    assert len([hint for hint in hints if hint.startswith("GPU")]) == 64
    assert "16 replicas of the model, each in 2 stages on 2 GPUs" in told(picture)


def test_the_questions_stand_in_order() -> None:
    text = told(drawn(planning.order()))
    places = [text.index(word) for word, _ in planning.QUESTIONS]
    assert places == sorted(places)


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(InputError, match="context = 1"):
        planning.cards(Layout(data=4, context=2))
    with pytest.raises(InputError, match="world = 12"):
        planning.cards(Layout(data=12))
