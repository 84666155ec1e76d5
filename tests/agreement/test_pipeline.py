"""A schedule, simulated; and the same action lists, executed by processes that send messages.

p stages · m micro_batches · v chunks a stage
"""

import pipelines
import pytest
from patience import PATIENCE

from mathlib import launch
from mathlib.schedule import orders
from mathlib.schedule.simulate import simulate
from mathlib.schedule.times import Times
from mathlib.traffic import volumes

P, M = 4, 8
MODEL = pipelines.shape(layers=8)
FLUSHED = [name for name in orders.ORDERS if name not in ("pipedream", "2bw")]
SLOW = Times(
    forward=2.0, backward=6.0, weight=2.5, slow={1: 1.5}, message=0.25, size=8, bandwidth=64
)
NUMBER = 8  # bytes
MESSAGE = 1 * pipelines.CONTEXT * MODEL.width * NUMBER


def schedule(order, m=M):
    return orders.make(order, stages=P, micro_batches=m)


@pytest.fixture(scope="module")
def found():
    """What every rank counted, by order and by whether the clock was that of SLOW."""
    names = [(order, times) for order in FLUSHED for times in (Times(), SLOW)]
    cases = [(MODEL, schedule(order), {"clock": times}) for order, times in names]
    ranks = launch.run(pipelines.all_measured, P, cases, timeout=PATIENCE)
    keys = [(order, times is SLOW) for order, times in names]
    return dict(zip(keys, zip(*ranks, strict=True), strict=True))


@pytest.fixture(scope="module")
def unstamped():
    """The same without times in the messages; and each stage's bytes for one micro-batch."""
    names = [("gpipe", 1), ("gpipe", M), ("1f1b", M), ("interleaved", M)]
    cases = [(MODEL, schedule(order, m), {}) for order, m in names]
    ranks = launch.run(pipelines.all_measured, P, cases, timeout=PATIENCE)
    return dict(zip(names, zip(*ranks, strict=True), strict=True))


@pytest.mark.parametrize("order", FLUSHED)
@pytest.mark.parametrize("slow", [False, True])
def test_every_action_begins_and_ends_when_the_simulation_says(found, order, slow):
    line = simulate(schedule(order), SLOW if slow else Times())
    for s, rank in enumerate(found[order, slow]):
        wanted = list(zip(line.begins[s], line.ends[s], strict=True))
        assert rank["clock"] == wanted  # times are sums of eighths: no rounding


@pytest.mark.parametrize(("order", "total"), [("gpipe", 33), ("1f1b", 33), ("interleaved", 28.5)])
def test_the_clocks_of_a_real_run_show_the_published_totals(found, order, total):
    """p = 4, m = 8, forward 1 and backward 2: (m + p - 1) 3 and m 3 + (p - 1) 3 / v."""
    assert max(rank["clock"][-1][1] for rank in found[order, False]) == total


@pytest.mark.parametrize("order", FLUSHED)
def test_a_stage_has_as_many_micro_batches_under_way_as_the_schedule_says(found, order):
    line = simulate(schedule(order))
    for s, rank in enumerate(found[order, False]):
        chunks = line.schedule.model_chunks / P
        assert rank["under way"] == line.peak(s, after_input=0) * chunks


@pytest.mark.parametrize("order", FLUSHED)
def test_messages_are_those_of_the_schedule(found, order):
    line = simulate(schedule(order))
    for s, rank in enumerate(found[order, False]):
        sent = {to: count for (source, to), count in line.messages.items() if source == s}
        assert rank["messages"] == sum(sent.values())
        assert rank["to"] == {to: count * (MESSAGE + NUMBER) for to, count in sent.items()}


@pytest.mark.parametrize(("order", "chunks"), [("gpipe", 1), ("1f1b", 1), ("interleaved", 2)])
def test_bytes_are_the_formulas_for_program_and_system(unstamped, order, chunks):
    for s, rank in enumerate(unstamped[order, M]):
        wanted = volumes.pipeline_parallel(
            MODEL,
            pipeline=P,
            stage=s,
            chunks=chunks,
            micro_batches=M,
            tokens=pipelines.CONTEXT,
            bytes_per_element=NUMBER,
        )
        assert rank["bytes"] == wanted.total
        assert rank["on the wire"] == rank["predicted on the wire"]


def test_activations_alive_are_the_schedules_count(unstamped):
    """GPipe keeps m of them, 1F1B p - s, and one input more that is received while the backward
    before it still runs.
    """
    for s in range(P):
        one = unstamped["gpipe", 1][s]["held"]
        assert unstamped["gpipe", M][s]["held"] == M * one
        assert unstamped["1f1b", M][s]["held"] == (P - s) * one + (MESSAGE if s else 0)
