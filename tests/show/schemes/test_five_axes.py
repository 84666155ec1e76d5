"""Each axis' bytes are those of its printed formula, and of a layout that has this axis alone."""

import re

import pytest

from mathlib.compute import params
from mathlib.layout import Layout
from mathlib.show.schemes import five_axes
from mathlib.show.schemes.five_axes import DENSE, DRAWN, SEQUENCES, SPARSE, TOKENS, N
from mathlib.specs import find_model
from mathlib.traffic.by_axis import by_axis

AXES = {axis.name: axis for axis in five_axes.axes()}
ALONE = {  # a layout with this axis alone, the part of its traffic, the stage
    "Data": (Layout(data=N, micro_batches=SEQUENCES // N), "data", 0),
    "Tensor": (Layout(tensor=N, micro_batches=SEQUENCES), "tensor", 0),
    "Pipeline": (Layout(pipeline=N, micro_batches=SEQUENCES), "pipeline", 1),
    "Context": (Layout(context=N, micro_batches=SEQUENCES), "context", 0),
    "Expert": (Layout(data=N, expert=N, micro_batches=SEQUENCES // N), "expert", 0),
}


def printed(formula: str, model_name: str) -> float:
    """What the formula on the poster gives, worked out from its letters."""
    model = find_model(model_name)
    values = {"e": 2, "P": params.count(model).total, "N": N, "D": SEQUENCES * TOKENS}
    values |= {"h": model.width, "L": model.layers, "k": model.kv_heads, "d": model.head_dim}
    values["E"] = model.experts.active if model.experts else 0
    code = formula.replace("E*", "E").replace("N²", "(N*N)").replace("−", "-")
    code = re.sub(r"(?<=[\w)]) (?=[\w(])", "*", code).replace("3N", "3*N")
    return eval(code, {}, values)  # noqa: S307


@pytest.mark.parametrize("name", AXES)
def test_the_printed_formula_gives_the_printed_bytes(name):
    model = SPARSE if name == "Expert" else DENSE
    assert AXES[name].sent == pytest.approx(printed(AXES[name].formula, model), rel=1e-12)


@pytest.mark.parametrize("name", AXES)
def test_a_layout_with_this_axis_alone_sends_as_much(name):
    layout, part, stage = ALONE[name]
    model = SPARSE if name == "Expert" else DENSE
    found = by_axis(model, layout=layout, tokens=TOKENS, stage=stage).amount(part)
    words = 0.02 if name == "Tensor" else 1e-12  # which also reduces the embedding and the head
    assert AXES[name].sent == pytest.approx(found, rel=words)


def test_each_drawing_cuts_what_its_words_say():
    cut = {name: (ranks(axis.batch), ranks(axis.layer)) for name, axis in AXES.items()}
    every = set(range(DRAWN))
    assert cut["Data"] == cut["Context"] == (every, {None})
    assert cut["Tensor"] == cut["Pipeline"] == ({None}, every)
    assert cut["Expert"] == (every, every | {None})
    assert [len(set(row)) for row in AXES["Data"].batch] == [1] * DRAWN
    assert [len(set(row)) for row in AXES["Context"].batch] == [DRAWN] * DRAWN
    assert [len(set(row)) for row in AXES["Pipeline"].layer] == [1] * DRAWN
    assert [len(set(row)) for row in AXES["Tensor"].layer] == [DRAWN] * DRAWN


def ranks(cells):
    return {rank for row in cells for rank in row}


def test_only_tensor_parallelism_outlasts_the_arithmetic_on_a_network():
    slow = five_axes.links()["network"]
    assert [a.name for a in AXES.values() if a.sent / slow > a.arithmetic] == ["Tensor"]
    assert all(a.sent / five_axes.links()["NVLink"] < a.arithmetic for a in AXES.values())
