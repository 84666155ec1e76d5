"""Ranks' parts: together everything, and each number as often as there are copies."""

from collections import Counter

from mathlib.layout import Layout
from mathlib.prover.case import case
from mathlib.prover.place import Place

LAYOUT = Layout(
    data=2, context=2, tensor=2, pipeline=2, expert=2, zero=1, micro_batches=2,
    sequence_parallel=True,
)  # fmt: skip


def places(layout=LAYOUT, **options):
    one = case(layout, **options)
    return [Place(one, rank) for rank in range(layout.world)]


def test_every_number_of_every_parameter_is_on_some_rank_and_copies_are_alike():
    for tensor in (2, 3, 4):
        layout = Layout(tensor=tensor, data=2, expert=2)
        every, held = places(layout), Counter()
        for place in every:
            for p in place.parameters():
                rows, columns = place.part(p)
                held.update((p.name, r, c) for r in rows for c in columns)
        wanted = {
            (p.name, r, c)
            for p in every[0].network.parameters()
            for r in range(p.rows)
            for c in range(p.columns)
        }
        assert set(held) == wanted
        assert held["layers.1.experts.0.gate", 0, 0] == 1
        assert held["layers.0.gate", 0, 0] == 2 and held["norm", 0, 0] == 2 * tensor


def test_tokens_and_sequences_are_dealt_out_once():
    seen = Counter()
    for place in places():
        if place.stage == 0:
            for i in range(2):
                seen.update(place.rows(i, place.stream_tokens()))
    assert set(seen.values()) == {1}
    assert len(seen) == LAYOUT.sequences * places()[0].network.tokens


def test_a_group_is_the_same_for_all_its_ranks():
    every = places()
    axes = ("tensor", "context", "replicas", "pipeline", "expert", "expert tensor")
    axes += ("expert replicas", "key-value", "shard", "shard replicas", "expert shard")
    for axis in axes:
        for place in every:
            group = place.group(axis)
            assert place.rank in group
            assert {every[r].group(axis) for r in group} == {group}, axis


def test_shards_cover_a_unit_and_pad_the_last():
    group = [p for p in places() if p.rank in places()[0].group("shard")]
    ranges = [place.shard_range("norm", 5) for place in group]
    assert [i for one in ranges for i in one] == list(range(8))
