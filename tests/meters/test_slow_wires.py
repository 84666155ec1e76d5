"""Slow wires take the time they are told to, whoever holds them."""

import sys

import pytest
import torch
import torch.distributed as dist

from mathlib import launch
from mathlib.checks import InputError
from mathlib.meters import clock, slow_wires
from mathlib.parallel import collectives as own
from mathlib.traffic import comm

KEPT_BY = [
    "program",
    pytest.param("kernel", marks=pytest.mark.skipif(sys.platform != "linux", reason="Linux only")),
]
LINK, PAYLOAD = 5e6, 480_000


def all_reduce_seconds(
    slowed: list[int],
    payload: int,
    latency: float,
    by: str,
    enough: float,
    action=own.ring_all_reduce,
) -> float:
    x = torch.ones(payload // 4)
    here = LINK if dist.get_rank() in slowed else float("inf")
    with slow_wires.wires(latency=latency, bandwidth=here, by=by) as kept:
        assert kept == by
        return clock.slowest_rank_seconds(action, x, repeat=10, enough=enough)


@pytest.mark.parametrize("by", KEPT_BY)
def test_one_slow_link_makes_a_slow_ring(by):
    predicted = comm.time("all-reduce", payload=PAYLOAD, ranks=3, bandwidth=LINK).total
    for slowed in ([1], [2], [0, 1, 2]):
        (measured, *others) = launch.run(
            all_reduce_seconds, 3, slowed, PAYLOAD, 0.0, by, 1.1 * predicted
        )
        assert others == [measured] * 2, "all ranks are told the time of the slowest"
        assert measured == pytest.approx(predicted, rel=0.1), slowed
    assert launch.run(all_reduce_seconds, 3, [], PAYLOAD, 0.0, by, predicted / 2)[0] < predicted / 2


@pytest.mark.parametrize("by", KEPT_BY)
def test_latency_is_paid_for_each_round(by):
    predicted = comm.time("all-reduce", payload=12, ranks=3, bandwidth=1e9, latency=0.03).total
    measured = launch.run(all_reduce_seconds, 3, [], 12, 0.03, by, 1.1 * predicted)[0]
    assert measured == pytest.approx(predicted, rel=0.1)


def test_a_tree_is_as_deep_as_its_formula_says():
    """On the way down the largest subtree comes first, or the last leaf would wait for nine
    messages, not six.
    """
    predicted = comm.time(
        "all-reduce", payload=4, ranks=8, bandwidth=1e9, latency=0.03, algorithm="tree"
    ).total
    measured = launch.run(
        all_reduce_seconds, 8, [], 4, 0.03, "program", 1.1 * predicted, own.tree_all_reduce
    )[0]
    assert predicted == pytest.approx(6 * 0.03, rel=1e-3) and measured == pytest.approx(
        predicted, rel=0.1
    )


def before_and_after() -> tuple[float, float]:
    x = torch.ones(PAYLOAD // 4)
    with slow_wires.wires(bandwidth=LINK):
        held = clock.slowest_rank_seconds(own.ring_all_reduce, x, repeat=1)
    return held, clock.slowest_rank_seconds(own.ring_all_reduce, x, repeat=2)


def test_wires_are_free_again_after_the_block():
    held, free = launch.run(before_and_after, 3)[0]
    assert free < held / 2


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"latency": -1}, "latency = -1"),
        ({"bandwidth": 0}, "bandwidth = 0"),
        ({"by": "magic"}, "by = 'magic'"),
    ],
)
def test_bad_input_names_the_argument(wrong, named):
    with pytest.raises(InputError, match=named), slow_wires.wires(**wrong):
        pass
