"""The life of a step has the moments' bytes; a parameter has as many squares as bytes."""

import pytest
from charts import SPACE, drawn, said

from mathlib.memory import one_device, precision
from mathlib.show import says
from mathlib.show.schemes import memory
from mathlib.specs import Layout, find_model


def test_every_moment_has_all_its_bytes():
    layout = Layout(micro_batch=2)
    told = said(drawn(memory.life_of_a_step("gpt2-xl", layout=layout)))
    alive = one_device.moments("gpt2-xl", layout)
    for moment in ("loss", "update"):
        assert f"{moment}: {says.size(alive[moment].total)}" in told
    peak = max(parts.total for parts in alive.values())
    assert f"the most, {says.size(peak)}" in repr(memory.life_of_a_step("gpt2-xl", layout=layout))


def test_roles_add_up():
    for parts in one_device.moments("llama2-7b", Layout(data=8, zero=2)).values():
        assert sum(memory._by_role(parts).values()) == pytest.approx(parts.total)


def test_logits_too_few_to_be_seen_are_temporary():
    model = find_model("gpt2")
    told = [memory.life_of_a_step(m)._repr_html_() for m in (model, model.but(vocab=57))]
    assert ">logits<" in told[0] and ">logits<" not in told[1]


def test_a_gated_layer_keeps_its_list_in_whole_squares_and_parts_of_one():
    told = said(drawn(memory.saved_by_a_layer(find_model("llama3-8b"))))
    assert "keys: 0.25 h" in told and "gate, activated: 3.5 h" in told and "softmax" not in told
    assert "20.5 squares." in repr(memory.saved_by_a_layer(find_model("llama3-8b")))


@pytest.mark.parametrize("recipe", ["adam-fp32", "mixed-adam", "sgd"])
def test_a_square_is_a_byte(recipe):
    chart = drawn(memory.bytes_of_a_parameter(recipe))
    squares = [r for r in chart.iter(f"{SPACE}rect") if r.find(f"{SPACE}title") is not None]
    assert len(squares) == precision.bytes_per_parameter(recipe).total


def test_the_caption_counts_them():
    assert "18 with Mixed precision Adam, fp32 gradients" in repr(memory.bytes_of_a_parameter())
