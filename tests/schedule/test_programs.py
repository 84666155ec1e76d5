"""Programs of collectives and pipelines: the formulas' times, bytes and messages, and what is no
program.  That real ranks do the same is in tests/agreement/test_unequal.py.
"""

import pytest

from mathlib.checks import InputError
from mathlib.schedule import events, orders, programs, simulate
from mathlib.schedule.cluster import Cluster, Link
from mathlib.schedule.events import Send, Wait
from mathlib.schedule.times import Times
from mathlib.traffic import comm

W, ALPHA, K = 100.0, 0.5, 4 * 4 * 60


def test_levels_take_the_formulas_time():
    cluster = Cluster((2, 2), Link(W, 0.1), Link(W / 8, ALPHA))
    run = events.run(programs.hierarchical(payload=K, ranks=4, ranks_per_node=2), cluster)
    given = {"payload": K, "levels": [2, 2]}
    time = comm.hierarchical_time(**given, bandwidths=[W, W / 8], latencies=[0.1, ALPHA])
    assert run.total == pytest.approx(time.total)


@pytest.mark.parametrize("order", orders.ORDERS)
def test_a_pipeline_takes_as_long_as_its_simulation(order):
    schedule, times = orders.make(order, stages=4, micro_batches=8), Times(size=10, bandwidth=20)
    slow = Times(size=10, bandwidth=20, slow={2: 2.0})
    links = {"between": Link(20)}
    listed = programs.pipeline(schedule, times)
    for timed, speeds in ((times, {}), (slow, {2: 0.5})):
        told = simulate.simulate(schedule, timed)
        run = events.run(listed, Cluster((1,) * 4, **links, speeds=speeds))
        assert run.total == pytest.approx(told.total) and run.worked == pytest.approx(told.busy)
        assert run.idle == pytest.approx(told.idle) and sum(run.sent) == told.bytes_sent


def test_pieces_differ_by_an_element_and_an_empty_one_costs_no_message():
    ring = programs.ring(payload=4 * 4, ranks=3, passes="scatter")
    assert ring[0] == [Send(1, 4), Wait(2), Send(1, 4), Wait(2)], "pieces of 8, 4 and 4 bytes"
    assert programs.ring(payload=4, ranks=3, passes="gather") == [
        [Send(1, 4)],
        [Wait(0), Send(2, 4)],
        [Wait(1)],
    ]
    assert programs.ring(payload=8, ranks=4, members=[3, 1])[0] == []


def test_what_does_not_fit_is_refused():
    with pytest.raises(InputError, match=r"parts of \[1, 2\] ranks"):
        programs.after([[[]], [[], []]])
    with pytest.raises(InputError, match="members = 4: expected 0 to 3"):
        programs.ring(payload=8, ranks=4, members=[0, 4])
