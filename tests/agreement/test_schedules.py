"""Orders beyond 1F1B: formula, simulation, and what real processes did.

p stages · m micro_batches · v chunks a stage
"""

import pipelines
import pytest
from patience import PATIENCE

from mathlib import launch
from mathlib.schedule import bubble, orders
from mathlib.schedule.times import Times

P, M, V, LATENCY = 4, 8, 2, 0.25
MODEL = pipelines.shape(layers=8, tied=False)
CHUNKS = {"interleaved": V, "zb-h1": 1, "zb-h2": 1, "zb-v": 1, "dualpipe": 1}


def schedule(order, **options):
    return orders.make(order, stages=P, micro_batches=M, **options)


@pytest.fixture(scope="module")
def found():
    """What every rank counted, by order, and of one that waits for messages."""
    cases = [(MODEL, schedule(order), {"clock": Times()}) for order in CHUNKS]
    slow = Times(message=LATENCY)
    cases += [(MODEL, schedule("interleaved"), {"clock": slow})]
    ranks = launch.run(pipelines.all_measured, P, cases, timeout=PATIENCE)
    return dict(zip([*CHUNKS, "slow"], zip(*ranks, strict=True), strict=True))


def end(ranks):
    return max(rank["clock"][-1][1] for rank in ranks)


@pytest.mark.parametrize("order", CHUNKS)
def test_the_idle_time_of_a_run_is_the_formulas(found, order):
    """Between 9 units of 1F1B and 1 of DualPipe."""
    wanted = bubble.idle(order=order, stages=P, micro_batches=M, chunks=CHUNKS[order])
    assert end(found[order]) == 3 * M + wanted


def test_interleaving_hides_all_messages_but_those_of_the_two_ways(found):
    """2 (p v - 1) of them, while none takes longer than the forward of a chunk."""
    assert end(found["slow"]) - end(found["interleaved"]) == 2 * (P * V - 1) * LATENCY


def test_interleaving_sends_v_times_as_many_and_keeps_more(found):
    sent = sum(rank["messages"] for rank in found["interleaved"])
    assert sent == bubble.messages(stages=P, micro_batches=M, chunks=V)
    for s, rank in enumerate(found["interleaved"]):
        held = bubble.held(order="interleaved", stages=P, micro_batches=M, chunks=V, stage=s)
        assert rank["under way"] == held * V
