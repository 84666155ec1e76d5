"""Right layouts raise no alarm; a layout that leaves any exchange out does."""

from random import Random

import pytest

from mathlib.checks import InputError
from mathlib.layout import Layout
from mathlib.prover import case as cases
from mathlib.prover.faults import Without
from mathlib.prover.program import Program
from mathlib.prover.prove import prove

RIGHT, MOST = 200, 12


def drawn(random):
    """A layout over any axes, and what it trains; refused, where its degrees do not go together."""
    degrees = [random.choice((1, 1, 2, 2, 2, 3, 4)) for _ in range(4)]
    layout, schedule = (
        dict(zip(("data", "tensor", "pipeline", "context"), degrees, strict=True)),
        "",
    )
    if layout["pipeline"] > 1:
        schedule = random.choice(list(cases.FLUSHED))
    if schedule in ("interleaved", "breadth-first"):
        layout["chunks"] = random.choice((2, 3))
    lay = Layout(
        **layout,
        zero=random.randrange(4),
        shard=random.randrange(3),
        sequence_parallel=random.random() < 0.5,
        micro_batches=random.choice((1, 1, 1, 2, 4)),
        micro_batch=random.choice((1, 1, 1, 1, 2)),
        expert=random.choice((1, 1, 2, 3, 4)),
        expert_tensor=random.choice((0, 0, 1, 2)),
        recompute=random.choice(("none", "none", "none", "full")),
    )
    if not 1 < lay.world <= MOST:
        raise InputError("too many ranks for a test")
    order, tied = random.choice(cases.ORDERS), random.random() < 0.5
    return cases.case(lay, schedule=schedule, order=order, tied=tied, seed=random.randrange(99))


def layouts(number):
    random, found = Random(7), []
    while len(found) < number:
        try:
            found.append(drawn(random))
        except InputError:
            continue
    return found


FIVE = Layout(
    data=2, tensor=2, context=2, pipeline=2, expert=4, expert_tensor=1, zero=2, micro_batches=2,
    sequence_parallel=True,
)  # fmt: skip


def test_right_layouts_raise_no_alarm():
    every = [*layouts(RIGHT), cases.case(FIVE)]
    used = {name: {getattr(one.layout, name) for one in every} for name in ("zero", "context")}
    assert used == {"zero": {0, 1, 2, 3}, "context": {1, 2, 3, 4}}
    assert {one.schedule.name for one in every} >= set(cases.FLUSHED)
    for one in every:
        found = prove(one)
        assert found.equal, (one.layout, one.schedule.name, str(found.first), found.stuck)
        assert found.tensors > 30 * found.ranks / one.schedule.stages and found.chance < 1e-20


class Listening(Program):
    """A right program that tells of its sums."""

    heard: set

    def exchange(self, kind, axis, payload, what):
        if kind in ("all-reduce", "reduce-scatter") and len(self.group(axis)) > 1:
            self.heard.add((kind, axis, what))
        return (yield from super().exchange(kind, axis, payload, what))


@pytest.mark.parametrize(
    "layout",
    [
        Layout(data=2, tensor=2, context=2, expert=2, zero=1, shard=2),
        Layout(tensor=2, pipeline=2, data=2, expert=2, micro_batches=2, sequence_parallel=True),
    ],
)
def test_no_sum_is_superfluous(layout):
    one, heard = cases.case(layout), set()
    assert prove(one, type("Heard", (Listening,), {"heard": heard})).equal
    assert len(heard) > 30
    for kind, axis, what in sorted(heard):
        left_out = type("LeftOut", (Without,), {"kind": kind, "axis": axis, "ending": what})
        assert not prove(one, left_out).equal, what


def test_the_first_difference_is_named_by_tensor_rank_and_place():
    class Late(Program):
        """Rank 1 adds one number in the last layer."""

        def watch(self, tape, x, name, micro_batch):
            if (self.rank, name, micro_batch) == (1, "layers.1", 1):
                x.rows[2][3] += 1
            return super().watch(tape, x, name, micro_batch)

    found = prove(cases.case(Layout(data=2, micro_batches=2)), Late)
    assert str(found.first) == "layers.1 in micro-batch 1 (rank 1, row 2, column 3)"
    assert not found.equal and len(found.differences) > 20
