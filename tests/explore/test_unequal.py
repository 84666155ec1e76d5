"""The explorer of a cluster: its numbers are the event model's."""

import pytest

from mathlib.explore import unequal
from mathlib.schedule import events, programs
from mathlib.schedule.cluster import Cluster, Link
from mathlib.show import says
from mathlib.show.experiments import find

EXPERIMENT = "unequal-cluster"


def plain(html):
    return html.replace("\u00a0", " ")


def test_a_step_is_that_of_the_event_model():
    html = plain(find(EXPERIMENT).run({"slow": 3, "speed": 50, "link": "port", "rate": 20}))
    plan = programs.after(
        [
            programs.work([unequal.WORK] * 8),
            programs.ring(payload=int(unequal.PAYLOAD), ranks=8),
        ]
    )
    cluster = Cluster((4, 4), unequal.INSIDE, unequal.PORT, ports={0: Link(10e9)}, speeds={3: 0.5})
    run = events.run(plan, cluster, shared_ports=True)
    assert plain(says.time(run.total)) in html
    busy = sum(run.worked) / (8 * run.total)
    assert f"ranks compute {busy:.0%} of it" in html


@pytest.mark.parametrize("way", ["ring", "tree", "hierarchical", "pipeline"])
def test_all_alike_is_once_as_long_and_a_death_leaves_the_others_waiting(way):
    alike = find(EXPERIMENT).run({"way": way, "speed": 100})
    assert "1.00 times" in plain(alike)
    dead = find(EXPERIMENT).run({"way": way, "death": 30, "slow": 1})
    assert "Rank 1 dies" in dead and "wait for ever" in dead and "never" in dead


def test_a_slow_link_inside_holds_up_a_ring_and_not_a_pipeline():
    given = {"speed": 100, "link": "inside", "rate": 10}
    assert "1.00 times" not in plain(find(EXPERIMENT).run({"way": "ring", **given}))
    assert "1.00 times" in plain(find(EXPERIMENT).run({"way": "pipeline", **given}))


def test_at_most_eight_ranks_are_drawn():
    assert "the first eight ranks" in find(EXPERIMENT).run({"nodes": 4})
