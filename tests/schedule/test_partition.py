"""Splits against all the splits there are."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mathlib.checks import InputError
from mathlib.compute import flops, vision
from mathlib.compute.vision import CLIP_L_336
from mathlib.memory import fit
from mathlib.schedule import partition
from mathlib.specs import Layout, find_model


def every_split(layers: int, p: int):
    """All ways to cut a row of layers into p pieces that are not empty."""
    for cuts in combinations(range(1, layers), p - 1):
        places = (0, *cuts, layers)
        yield [b - a for a, b in zip(places, places[1:], strict=False)]


def test_even_is_that_of_the_layout() -> None:
    assert partition.even(layers=12, stages=4.0) == [3, 3, 3, 3]
    with pytest.raises(InputError, match="layers = 10"):
        partition.even(layers=10, stages=4)


def test_a_head_takes_layers_from_the_last_stage() -> None:
    times = [1.0] * 8
    assert partition.by_time(times=times, stages=4) == [2, 2, 2, 2]
    with_head = partition.by_time(times=times, stages=4, head=1.5)
    assert partition.stage_times(with_head, times=times, head=1.5)[-1] == 2.5
    assert partition.stage_times([3, 3, 1, 1], times=times, embedding=0.5, head=2) == [3.5, 3, 1, 3]


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=9),
    st.integers(1, 9),
    st.integers(0, 9),
    st.integers(0, 9),
)
def test_by_time_is_the_best_of_all(times, p, embedding, head) -> None:
    p = min(p, len(times))
    ends = {"times": times, "embedding": embedding, "head": head}
    found = partition.by_time(stages=p, **ends)
    assert len(found) == p and sum(found) == len(times) and min(found) > 0
    worst = max(partition.stage_times(found, **ends))
    assert worst == min(
        max(partition.stage_times(one, **ends)) for one in every_split(len(times), p)
    )


def held(split, sizes, kept):
    """Bytes of each stage of a split, 1F1B."""
    firsts = [sum(split[:s]) for s in range(len(split))]
    return [
        sum(sizes[f : f + n]) + (len(split) - s) * sum(kept[f : f + n])
        for s, (f, n) in enumerate(zip(firsts, split, strict=True))
    ]


LAYER = st.tuples(st.integers(0, 9), st.integers(0, 4), st.integers(0, 2))
DEVICE = st.tuples(st.sampled_from([0.25, 0.5, 1, 2]), st.integers(1, 14))


@given(
    st.lists(LAYER, min_size=1, max_size=8),
    st.lists(DEVICE, min_size=1, max_size=5),
    st.integers(0, 9),
)
def test_by_device_is_the_best_that_fits_or_says_that_none_does(layers, devices, head) -> None:
    devices = devices[: len(layers)]
    (times, sizes, kept), (speeds, rooms) = (zip(*of, strict=True) for of in (layers, devices))
    fitting = [
        split
        for split in every_split(len(layers), len(devices))
        if all(b <= room for b, room in zip(held(split, sizes, kept), rooms, strict=True))
    ]
    of = {"times": times, "speeds": speeds, "head": head}
    full = {"rooms": rooms, "sizes": sizes, "kept": kept}

    def worst(split):
        took = partition.stage_times(split, times=times, head=head)
        return max(one / speed for one, speed in zip(took, speeds, strict=True))

    if fitting:
        assert worst(partition.by_device(**of, **full)) == min(map(worst, fitting))
        assert partition.by_device(**of, **full) in fitting
    else:
        with pytest.raises(InputError, match="no split fits"):
            partition.by_device(**of, **full)
    free = every_split(len(layers), len(devices))
    assert worst(partition.by_device(**of)) == min(map(worst, free)), "without rooms"


@pytest.mark.parametrize("name", ["gpt2", "llama3.2-1b", "gemma-2b"])
@pytest.mark.parametrize(("p", "m"), [(2, 1), (3, 8), (4, 8)])
@pytest.mark.parametrize("options", [{}, {"recipe": "adam-fp32", "schedule": "gpipe"}])
def test_by_memory_is_the_best_of_all(name, p, m, options) -> None:
    model, layout = find_model(name), Layout(pipeline=p, micro_batches=m)
    most = {}

    def fullest(split: list[int]) -> float:
        for s, count in enumerate(split):
            if (s, count) not in most:
                rest = model.layers - count - (p - 2)  # as many as fit beside it
                other = [count if i == s else 1 for i in range(p)]
                other[(s + 1) % p] = rest
                held = partition.stage_bytes(model, layout, other, **options)
                most[s, count] = held[s].total
        return max(most[pair] for pair in enumerate(split))

    found = partition.by_memory(model, layout, **options)
    assert fullest(found) == min(map(fullest, every_split(model.layers, p)))


def test_an_even_split_holds_what_memory_says() -> None:
    layout = Layout(pipeline=4, micro_batches=8, recompute="selective")
    held = partition.stage_bytes("gpt2", layout, [3, 3, 3, 3])
    for s in range(4):
        assert held[s].total == fit.training("gpt2", layout, stage=s).total


def test_gpt3_even_and_by_memory() -> None:
    """P07: the first of 8 stages holds twice as much as the last; a split by memory evens it out,
    and makes the last stage 17 / 12 as slow.
    """
    layout = Layout(pipeline=8, tensor=8, micro_batches=32)
    even = [one.total for one in partition.stage_bytes("gpt3-175b", layout, [12] * 8)]
    split = partition.by_memory("gpt3-175b", layout)
    found = [one.total for one in partition.stage_bytes("gpt3-175b", layout, split)]
    assert split == sorted(split) == [8, 9, 10, 11, 12, 14, 15, 17]
    assert even[0] / even[-1] > 1.9 and max(found) / min(found) < 1.11
    assert max(found) < 0.75 * max(even)


def test_the_work_of_a_pass_is_that_of_its_parts() -> None:
    layers, head = partition.work("gpt2", tokens=256)
    assert len(layers) == 12
    assert sum(layers) + head == pytest.approx(flops.forward("gpt2", tokens=256).total)
    assert head / layers[0] > partition.work("gpt2", tokens=1024)[1] / partition.work("gpt2")[0][0]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: partition.by_time(times=[1, 2], stages=3), "stages = 3: .* 2 layers"),
        (lambda: partition.by_device(times=[1, 2], speeds=[1], rooms=[1, 2]), "expected 1, one"),
        (lambda: partition.by_device(times=[1, 2], speeds=[1], sizes=[1, 2]), "expected rooms"),
        (
            lambda: partition.by_device(times=[1], speeds=[1], rooms=[1], kept=[1, 2]),
            "kept of 2 layers: expected 1",
        ),
        (lambda: partition.stage_times([1, 2], times=[1, 1]), "split = .*add up to 2 layers"),
        (lambda: partition.stage_times([2, 0], times=[1, 1]), "split = 0"),
        (
            lambda: partition.stage_bytes("gpt2", Layout(pipeline=2), [4, 4, 4]),
            "expected 2 numbers that add up to 12",
        ),
        (lambda: partition.work("deepseek-v3"), "deepseek-v3.*layers of one kind"),
        (
            lambda: partition.by_memory("gpt2", Layout(pipeline=2, chunks=2, micro_batches=2)),
            "chunks = 2: expected 1",
        ),
    ],
)
def test_what_cannot_be_split_is_refused(call, said) -> None:
    with pytest.raises(InputError, match=said):
        call()


def test_a_tower_before_a_text_model_wants_uneven_stages():
    """Llama 2 7B behind CLIP's tower, as LLaVA-1.5: whose layers are a tenth of the work."""
    times, patches, head = partition.work_with_tower(CLIP_L_336, "llama2-7b", images=1, tokens=2048)
    assert len(times) == 24 + 32 and times[0] < times[-1] / 7
    whole = vision.tower_flops(CLIP_L_336, text_width=4096).total
    assert sum(times[:24]) + patches == pytest.approx(whole)
    how = {"times": times, "embedding": patches, "head": head}
    split = partition.by_time(**how, stages=4)
    assert split[0] > 24 and sum(split) == 56
    worst = max(partition.stage_times(split, **how))
    each = sum(times, patches + head) / 4
    assert worst < 1.1 * each < max(partition.stage_times([14] * 4, **how)) / 1.3
    tried = (
        max(partition.stage_times([a, b, c, 56 - a - b - c], **how))
        for a in range(20, 40)
        for b in range(5, 15)
        for c in range(5, 15)
        if a + b + c < 56
    )
    assert min(tried) == pytest.approx(worst)


def test_what_passes_between_stages_has_the_shape_of_where_the_cut_is():
    def passed(split):
        return partition.passed_with_tower(CLIP_L_336, "llama2-7b", split, tokens=2048)

    assert passed([10, 14, 20, 12]) == [(577, 1024), (576, 4096), (2048, 4096)]
    assert passed([56]) == []
    with pytest.raises(InputError, match="split"):
        passed([30, 30])
    with pytest.raises(InputError, match="tokens"):
        partition.passed_with_tower(CLIP_L_336, "llama2-7b", [30, 26], tokens=100)
