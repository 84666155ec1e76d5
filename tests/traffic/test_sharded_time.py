"""A step on two clocks, by hand; tests/agreement/test_zero_time.py holds it against the program."""

import pytest

from mathlib.traffic import sharded_time, volumes

GIVEN = {"layers": 3, "ranks": 2, "forward": 3.0, "backward": 6.0, "bandwidth": 1.0}


def shown(spans) -> list[tuple[str, float, float]]:
    return [tuple(span) for span in spans]


def test_a_step_of_stage_3_by_hand():
    """A gather takes half a second, so does a reduce-scatter; a layer 1 forward, 2 backward."""
    found = sharded_time.step(stage=3, weights=3.0, **GIVEN)
    assert shown(found.compute) == [
        ("forward 0", 0.5, 1.5),  # the first gather is seen
        ("forward 1", 1.5, 2.5),
        ("forward 2", 2.5, 3.5),
        ("backward 2", 4.0, 6.0),  # given back after forward: gathered anew, and seen
        ("backward 1", 6.0, 8.0),
        ("backward 0", 8.0, 10.0),
    ]
    assert shown(found.wire) == [
        ("gather 0", 0.0, 0.5),
        ("gather 1", 0.5, 1.0),
        ("gather 2", 1.5, 2.0),
        ("gather 2", 3.5, 4.0),
        ("gather 1", 4.0, 4.5),
        ("scatter 2", 6.0, 6.5),
        ("gather 0", 6.5, 7.0),
        ("scatter 1", 8.0, 8.5),
        ("scatter 0", 10.0, 10.5),
    ]
    assert (found.seconds, found.exposed, found.hidden) == (10.5, 1.5, pytest.approx(2 / 3))


def test_without_prefetch_every_gather_is_seen():
    found = sharded_time.step(stage=3, weights=3.0, prefetch=0, **GIVEN)
    assert found.exposed == 6 * 0.5 + 0.5 + 2 * 0.5  # gathers behind a reduce-scatter wait for it
    assert found.computing == 9.0


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
@pytest.mark.parametrize("m", [1, 3])
def test_the_wire_carries_the_volume(stage, m):
    given = GIVEN | {"ranks": 4, "gradients": 3.0, "outside": 2.0, "micro_batches": m}
    found = sharded_time.step(stage=stage, weights=6.0, **given)
    sent = volumes.zero(
        parameters=8.0,
        data=4,
        stage=stage,
        micro_batches=m,
        weight_bytes=1,
        gradient_bytes=0.5,
    )
    once = m * 2.0 * 3 / 4 if stage == 3 else 0  # what stands in no layer stays for backward
    assert found.sending == pytest.approx(sent.total - once)


def test_a_step_is_never_shorter_than_either_clock():
    for stage in range(4):
        for bandwidth in (0.1, 1.0, 100.0):
            given = GIVEN | {"bandwidth": bandwidth}
            one = sharded_time.step(stage=stage, weights=3.0, head=1.0, **given)
            assert one.seconds >= max(one.computing, one.sending) - 1e-9
            for spans in (one.compute, one.wire):
                ends = [span.end for span in spans]
                assert all(s.start >= e - 1e-9 for s, e in zip(spans[1:], ends, strict=False))


def test_stage_1_hides_nothing_and_stage_2_its_gradients():
    one, two = (sharded_time.step(stage=s, weights=3.0, **GIVEN) for s in (1, 2))
    assert one.hidden == 0 and one.exposed == 1.5 + 1.5
    assert two.exposed == 0.5 + 1.5  # the last layer's gradients, and the weights
    ahead = sharded_time.step(stage=2, weights=30.0, in_flight=1, **GIVEN)
    free = sharded_time.step(stage=2, weights=30.0, in_flight=9, **GIVEN)
    assert ahead.seconds == free.seconds, "a rank that waits gains nothing on a full wire"


def test_latency_counts_each_message():
    plain = sharded_time.step(stage=3, weights=3.0, prefetch=0, **GIVEN)
    late = sharded_time.step(stage=3, weights=3.0, prefetch=0, latency=0.25, **GIVEN)
    assert late.sending - plain.sending == 9 * 0.25
