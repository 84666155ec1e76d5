"""The life of a step has the moments' bytes; a parameter has as many squares as bytes."""

import pytest
from charts import SPACE, drawn, said

from mathlib.memory import moments, precision
from mathlib.show import says
from mathlib.show.schemes import memory
from mathlib.specs import Layout


def test_every_moment_has_all_its_bytes():
    layout = Layout(micro_batch=2)
    told = said(drawn(memory.life_of_a_step("gpt2-xl", layout=layout)))
    alive = moments.moments("gpt2-xl", layout)
    for moment in ("loss", "update"):
        assert f"{moment}: {says.size(alive[moment].total)}" in told
    peak = max(parts.total for parts in alive.values())
    assert f"the most, {says.size(peak)}" in repr(memory.life_of_a_step("gpt2-xl", layout=layout))


def test_roles_add_up():
    for parts in moments.moments("llama2-7b", Layout(data=8, zero=2)).values():
        assert sum(memory._by_role(parts).values()) == pytest.approx(parts.total)


@pytest.mark.parametrize("recipe", ["adam-fp32", "mixed-adam", "sgd"])
def test_a_square_is_a_byte(recipe):
    chart = drawn(memory.bytes_of_a_parameter(recipe))
    squares = [r for r in chart.iter(f"{SPACE}rect") if r.find(f"{SPACE}title") is not None]
    assert len(squares) == precision.bytes_per_parameter(recipe).total


def test_the_caption_counts_them():
    assert "18 with Mixed precision Adam, fp32 gradients" in repr(memory.bytes_of_a_parameter())
