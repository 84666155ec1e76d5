"""The team's cluster: who holds up whom, and what shares bring back."""

import pytest

from mathlib.schedule import shares
from mathlib.trials import unequal as team


def test_old_gpus_hold_up_every_way_and_a_slow_port_only_those_that_pass_it():
    seconds = team.seconds()
    usual = seconds["sixteen new GPUs"]
    assert all(took > 2.5 * u for took, u in zip(seconds["eight are old"], usual, strict=True))
    ring, _, levels, pipe = (p - u for p, u in zip(seconds["one port is slow"], usual, strict=True))
    assert ring == pytest.approx(2 * 15 / 16 * team.K * (1 / 12.5e9 - 1 / 50e9))
    assert levels == pytest.approx(team.K * (1 / 12.5e9 - 1 / 50e9)), "two nodes: half"
    assert 0 <= pipe < 0.1
    hot = [took - u for took, u in zip(seconds["all three"], seconds["eight are old"], strict=True)]
    assert hot[0] == pytest.approx(ring), "the hot one costs nothing beside the old ones"


def test_shares_by_speed_use_what_there_is():
    speeds, counts = team.speeds(team.cluster()), team.by_speed()
    assert sum(counts) == team.B
    least = team.B / sum(speeds)
    assert least <= shares.slowest(counts, speeds=speeds) < 1.02 * least
    both = [team.step("ring", team.cluster(), n).total for n in ([16] * 16, counts)]
    assert both[0] > 1.8 * both[1]


def test_stages_by_speed_fit_where_even_ones_do_not():
    states, flying = team.layer_bytes()
    rooms = team.rooms()

    def fits(split):
        need = [n * (states + (16 - s) * flying) for s, n in enumerate(split)]
        return all(b <= room for b, room in zip(need, rooms, strict=True))

    assert fits(team.stages()) and not fits([3] * 16)
    even, fair = (team.piped(team.cluster(), n).total for n in ([3] * 16, team.stages()))
    assert even > 1.5 * fair
    assert team.stages() == team.stages(fitting=False), "the fastest split fits"


def test_shards_by_memory_fit_where_equal_ones_do_not():
    kept = team.memory()
    assert kept.shares[0] < kept.rooms[0] < kept.equal and kept.shares[1] < kept.rooms[1]
    assert 8 * sum(kept.shares) == pytest.approx(kept.states)


def test_more_nodes_do_not_dilute_a_slow_port():
    assert team.many(16) == pytest.approx(4)
    levels = [team.many(n, hierarchical=True) for n in (16, 64, 256)]
    assert 3 < levels[0] < levels[1] < levels[2] < 4
    slow, both = team.FAULTS["one port is slow"], team.BOTH_WAYS
    assert team.communication("ring", slow) == team.communication("ring", both) == pytest.approx(4)
    tree = [team.communication("tree", on) for on in (slow, both)]
    assert tree == pytest.approx([2, 3]), "each pass waits once"
