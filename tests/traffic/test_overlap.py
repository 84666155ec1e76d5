"""Buckets on a clock: bounds that hold whatever the numbers are, and two cases worked out by
hand.
"""

import pytest
import torch
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from mathlib.checks import InputError
from mathlib.parallel import ddp
from mathlib.traffic import comm, overlap

TIMES = st.floats(1e-3, 1e3)
SETTINGS = st.fixed_dictionaries(
    {
        "layers": st.integers(1, 40),
        "ranks": st.integers(2, 64),
        "backward": TIMES,
        "payload": TIMES,
        "bucket": st.floats(1, 1e3),
        "bandwidth": TIMES,
        "latency": st.floats(0, 1),
    }
)


def test_a_step_by_hand():
    """Two layers of a second; two ranks send 4 bytes each, in 4 s and 0.5 s of latency twice."""
    settings = {"layers": 2, "ranks": 2, "backward": 2.0, "payload": 8.0, "bandwidth": 1.0}
    step = overlap.bucketed(**settings, bucket=4.0, latency=0.5)
    assert step.backward == [("layer 2", 0, 1), ("layer 1", 1, 2)]
    assert step.buckets == [("bucket 0", 1, 6), ("bucket 1", 6, 11)]
    assert step.exposed == 9 and step.hidden == 1 / 10
    free = overlap.bucketed(**settings, bucket=4.0)
    assert free.buckets == [("bucket 0", 1, 5), ("bucket 1", 5, 9)]
    alone = overlap.bucketed(**{**settings, "ranks": 1}, bucket=4.0)
    assert (alone.hidden, alone.exposed) == (0, 0), "one rank sends nothing"


@given(SETTINGS)
def test_the_wire_is_never_in_two_places_and_never_early(settings):
    step = overlap.bucketed(**settings)
    for before, after in zip(step.buckets, step.buckets[1:], strict=False):
        assert after.start >= before.end
    assert step.buckets[0].start >= step.backward[0].end * 0.999
    assert (
        step.buckets[-1].start >= step.backward[-1].end * 0.999
    )  # the first layer's gradient is the last
    assert 0 <= step.hidden <= 1


@given(SETTINGS)
def test_what_is_sent_does_not_depend_on_the_buckets(settings):
    settings["latency"] = 0.0
    whole = comm.time(
        "all-reduce",
        payload=settings["payload"],
        ranks=settings["ranks"],
        bandwidth=settings["bandwidth"],
    )
    sent = sum(b.end - b.start for b in overlap.bucketed(**settings).buckets)
    assert sent == pytest.approx(whole.total)


def test_one_bucket_hides_nothing():
    step = overlap.bucketed(
        layers=8, ranks=4, backward=1.0, payload=8.0, bucket=8.0, bandwidth=12.0
    )
    assert step.hidden == 0 and step.exposed == pytest.approx(2 * 8 * 3 / 4 / 12)


def test_a_bucket_a_layer_hides_all_but_the_last_when_the_wire_keeps_up():
    step = overlap.bucketed(
        layers=8, ranks=4, backward=1.0, payload=8.0, bucket=1.0, bandwidth=12.0
    )
    assert step.exposed == pytest.approx(2 * 1 * 3 / 4 / 12) and step.hidden == pytest.approx(7 / 8)


def test_latency_punishes_small_buckets():
    settings = {
        "layers": 32,
        "ranks": 8,
        "backward": 1.0,
        "payload": 1.0,
        "bandwidth": 10.0,
        "latency": 0.01,
    }
    waits = [overlap.bucketed(**settings, bucket=b).exposed for b in (1 / 32, 1 / 4, 1.0)]
    assert waits[1] < waits[0] and waits[1] < waits[2]


def test_a_layer_larger_than_a_bucket_is_not_cut():
    step = overlap.bucketed(
        layers=2, ranks=2, backward=2.0, payload=4.0, bucket=0.75, bandwidth=10.0
    )
    assert [(b.start, b.end) for b in step.buckets] == [
        (1, pytest.approx(1.2)),
        (2, pytest.approx(2.2)),
    ]


def test_a_bucket_is_closed_by_the_tensor_with_which_it_reaches_its_size():
    """Two layers of tensors of 1 and 3 bytes, buckets of 2: 1 + 3, 1 + 3; of 5: 1 + 3 + 1, 3."""
    settings = {"layers": 2, "ranks": 2, "backward": 2.0, "payload": 8.0, "bandwidth": 100.0}
    for bucket, wanted in {
        0.5: [(0.25, 1), (1, 3), (1.25, 1), (2, 3)],
        2: [(1, 4), (2, 4)],
        5: [(1.25, 5), (2, 3)],
    }.items():
        step = overlap.bucketed(**settings, bucket=bucket, tensors=(1, 3))
        found = [(b.start, (b.end - b.start) * 100) for b in step.buckets]  # 2 K / 2 / W
        assert found == [(start, pytest.approx(size)) for start, size in wanted]


@given(SETTINGS, st.lists(st.integers(1, 9), min_size=1, max_size=5), st.integers(1, 60))
def test_buckets_are_those_that_ddp_packs(settings, tensors, bucket):
    """The real thing: PyTorch's own assignment, which mathlib.parallel.ddp follows."""
    layers = settings["layers"]
    numbers = [torch.empty(n) for _ in range(layers) for n in tensors]
    theirs, _ = dist._compute_bucket_assignment_by_size(numbers, [4 * bucket])
    settings |= {"payload": 4.0 * layers * sum(tensors), "bucket": 4.0 * bucket, "latency": 0.0}
    step = overlap.bucketed(**settings, tensors=tensors)
    n, W = settings["ranks"], settings["bandwidth"]
    bytes_in = [(b.end - b.start) * W * n / (2 * (n - 1)) for b in step.buckets]
    want = [sum(numbers[i].nbytes for i in held) for held in sorted(theirs)]
    assert bytes_in == pytest.approx(want, rel=1e-6)
    ours = ddp.buckets_of(map(nn.Parameter, numbers), 4 * bucket, 4 * bucket)
    assert [held.flat.nbytes for held in ours] == want


@given(st.lists(st.integers(1, 9), min_size=1, max_size=5), st.integers(1, 40), st.integers(1, 60))
def test_a_small_first_bucket_is_packed_as_ddp_packs_it(tensors, first, bucket):
    """PyTorch's own assignment with two limits: the last limit holds for all that follow."""
    numbers = [torch.empty(n) for _ in range(6) for n in tensors]
    limits = [4 * first, 4 * bucket]
    theirs, _ = dist._compute_bucket_assignment_by_size(numbers, limits)
    given = {"layers": 6, "backward": 1.0, "payload": 24.0 * sum(tensors), "tensors": tensors}
    ours = overlap.packed(**given, bucket=limits[1], first_bucket=limits[0])
    want = [sum(numbers[i].nbytes for i in held) for held in sorted(theirs)]
    assert [size for _, size in ours] == pytest.approx(want, rel=1e-6)
    assert ours[-1].ready == pytest.approx(1.0)


def test_tenths_that_add_up_to_a_little_less_fill_a_bucket_too():
    settings = {"layers": 10, "ranks": 2, "backward": 1.0, "payload": 1.0, "bandwidth": 1e3}
    first, last = overlap.bucketed(**settings, bucket=0.8).buckets
    assert first.start == pytest.approx(0.8) and last.start == 1.0


def test_25_MiB_are_reached_by_two_tensors_of_a_layer_of_62_MB():
    """GPT's layer, backward: two of 4 h**2, one of 1, one of 3. Three buckets for two layers; a
    small first one shifts them all.
    """
    given = {"layers": 32, "backward": 0.1, "payload": 2e9, "tensors": (4, 4, 1, 3)}
    assert len(overlap.packed(**given, bucket=25 * 2**20)) == 48
    by_default = overlap.packed(**given, bucket=25 * 2**20, first_bucket=2**20)
    assert len(by_default) == 49 and by_default[0].size == pytest.approx(2e9 / 96)
    step = overlap.bucketed(
        **given, bucket=25 * 2**20, first_bucket=2**20, ranks=64, bandwidth=50e9, latency=5e-6
    )
    assert len(step.buckets) == 49


@pytest.mark.parametrize("tensors", [(), (1, 0), (1, float("nan")), 3])
def test_sizes_that_are_none_are_refused(tensors):
    with pytest.raises(InputError, match="tensors"):
        overlap.bucketed(
            layers=2, ranks=2, backward=1.0, payload=1.0, bucket=1.0, bandwidth=1.0, tensors=tensors
        )
