"""A step on a slow wire: the model by hand, and runs that are no faster than it."""

from mathlib.meters.trace import Event
from mathlib.trials import data_parallel_slow as slow


def test_the_model_is_what_one_adds_up_by_hand():
    transfer, wait = slow.K / slow.LINK["bandwidth"], 2 * slow.LINK["latency"]
    by_hand = {slow.NAIVE: (slow.BACKWARD + 52 * wait + transfer, 52), "nothing sent": (0.36, 0)}
    by_hand["DDP, one bucket"] = slow.BACKWARD + wait + transfer, 1
    assert {name: slow.modelled(name) for name in by_hand} == by_hand
    assert slow.modelled("DDP, buckets of 1 MiB")[0] < slow.modelled("DDP, each tensor at once")[0]


def test_every_class_takes_part_and_its_sends_are_slow():
    names = [slow.NAIVE, "DDP, buckets of 1 MiB", "PyTorch's DDP, 1 MiB", "nothing sent"]
    spared = 10 * 2**16 / slow.LINK["bandwidth"]  # the kernel lets ten packets pass
    for _, model, seconds in slow.race(names).values():
        assert seconds > model - spared


def test_buckets_are_numbered_as_they_leave():
    events = [
        Event("b c", "communication", 0, 2, 3),
        Event("backward", "compute", 0, 0, 4),
        Event("a", "communication", 0, 1, 3),
        Event("a.weight", "gradient", 0, 1, 1),
    ]
    assert [e.what for e in slow._numbered(events)] == ["bucket 2", "backward", "bucket 1"]
    assert {e.rank for e in slow.recorded(steps=1)} == {0, 1}
