"""Causal ring attention in a balanced order.  N ranks, s tokens of width h."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from mathlib.checks import InputError
from mathlib.schedule import ring_order
from mathlib.schedule.cluster import Cluster
from mathlib.workshop.diagnosis import differs, listed
from mathlib.workshop.draw import drawn
from mathlib.workshop.puzzle import Budget, Puzzle, Trial, text_of
from mathlib.workshop.ranks import Me, Outcome
from mathlib.workshop.sketch import parts, sketch
from mathlib.workshop.tensor import Tensor, zeros

WIDTH = 2


async def start(me, tokens, read, attend):
    own = tokens // me.size
    places = list(range(me.rank * own, (me.rank + 1) * own))
    q, k, v = read(places)
    y, seen = None, places
    for step in range(me.size):
        if step < me.size - 1:
            await me.send((me.rank + 1) % me.size, [k, v, seen])
        part = attend(q, k, v, places, seen)
        y = part if y is None else y + part
        if step < me.size - 1:
            k, v, seen = await me.receive((me.rank - 1) % me.size)
    return places, y


async def solution(me, tokens, read, attend):
    half = tokens // (2 * me.size)
    first, last = me.rank * half, (2 * me.size - 1 - me.rank) * half
    places = [*range(first, first + half), *range(last, last + half)]
    q, k, v = read(places)
    y, seen = None, places
    for step in range(me.size):
        if step < me.size - 1:
            await me.send((me.rank + 1) % me.size, [k, v, seen])
        part = attend(q, k, v, places, seen)
        y = part if y is None else y + part
        if step < me.size - 1:
            k, v, seen = await me.receive((me.rank - 1) % me.size)
    return places, y


def attend_for(me: Me) -> Callable[..., Tensor]:
    """Causal: a query sees keys of its own place and earlier; a second for each such pair."""

    def attend(q: Tensor, k: Tensor, v: Tensor, queries: Any, keys: Any) -> Tensor:
        if len(q) != len(queries) or len(k) != len(keys):
            raise InputError(f"attend: {q} at {queries}, {k} at {keys}: a place for each row")
        me.compute(sum(there <= here for here in queries for there in keys))
        return causal(q, k, v, queries, keys)

    return attend


def causal(q: Tensor, k: Tensor, v: Tensor, queries: Any, keys: Any) -> Tensor:
    """(q k^T) v, of the pairs that are seen."""
    scores = q @ k.T
    for row, here in zip(scores.rows, queries, strict=True):
        row[:] = [x if there <= here else 0 for x, there in zip(row, keys, strict=True)]
    return scores @ v


def read_for(every: Sequence[Tensor], tokens: int) -> Callable[[Sequence[int]], list[Tensor]]:
    """A rank's own tokens, which it may choose, once."""
    before = list[Sequence[int]]()

    def read(places: Sequence[int]) -> list[Tensor]:
        if before:
            raise InputError("read for the second time: a rank has the tokens of its own places")
        if not all(isinstance(i, int) and 0 <= i < tokens for i in places):
            raise InputError(f"read of {list(places)}: expected places from 0 to {tokens - 1}")
        before.append(places)
        return [of[list(places)] for of in every]

    return read


def trial(n: int, tokens: int) -> Trial:
    """All tokens somewhere, the result of each, and as much work for every rank."""
    every = q, k, v = tuple(drawn(name, tokens, WIDTH) for name in ("q", "k", "v"))
    wanted = causal(q, k, v, range(tokens), range(tokens))
    steps = ring_order.step_scores("zigzag", ranks=n, tokens=tokens)
    return Trial(
        f"{n} ranks, {tokens} tokens",
        Cluster((n,)),
        lambda me: [tokens, read_for(every, tokens), attend_for(me)],
        lambda out: wrong(out, wanted, sum(map(max, steps))),
        (Budget("time", sum(map(max, steps)), "s (s+1) / (2 N) scores"),),
    )


def wrong(out: Outcome, wanted: Tensor, each: int) -> Iterator[str]:
    """Where tokens are, what came out for them, who has more to do than others."""
    owners: dict[int, list[int]] = {i: [] for i in range(len(wanted))}
    for r, got in enumerate(out.results):
        if not isinstance(got, (tuple, list)) or len(got) != 2 or not isinstance(got[0], list):
            yield f"rank {r} returns {got!r}: expected its places and the results there"
            return
        for place in got[0]:
            owners.setdefault(place, []).append(r)
    for place, by in owners.items():
        if len(by) != 1:
            yield f"token {place} is on {listed('rank', by) if by else 'no rank'}: expected one"
    for r, (places, y) in enumerate(out.results):
        said = differs(y, wanted[places], {"has no result": zeros(len(places), WIDTH)})
        if said:
            yield f"rank {r} {said}"
    most, least = max(out.run.worked), min(out.run.worked)
    if most > each:
        busy, idle = out.run.worked.index(most), out.run.worked.index(least)
        yield (
            f"rank {busy} computes {most:g} scores and rank {idle} {least:g}: "
            f"balanced, every rank computes {each}"
        )


PUZZLE = Puzzle(
    name="zigzag",
    title="Causal ring attention, balanced",
    chapter="sequences",
    grade=3,
    task="""\
A query sees the keys of its own and of earlier tokens only, so that late tokens have more work
than early ones. Each rank chooses the places of its tokens, as many as every other, and reads
them once: `q, k, v = read(places)`. `attend(q, k, v, places, seen)` is the part of the result
that keys at the places `seen` give to queries at `places`, and takes a second for each pair
that is seen. The start gives each rank a block of tokens in order, and its ring is right, but
the last rank has most of the work. Choose places so that all ranks have the same, and return
the places and their results.""",
    hints=(
        "Pair an early piece of the sequence with a late one.",
        "Cut the sequence into 2 N pieces; rank r has the r-th piece and the r-th last one.",
        "places = [*range(first, first + half), *range(last, last + half)]; the ring stays.",
    ),
    sketch=sketch(
        4,
        lambda r: parts("activations", 2 * r, 2 * r + 1),
        lambda r: parts("activations", r, 7 - r),
    ),
    trials=lambda: [trial(4, 16), trial(2, 8), trial(3, 18)],
    start=text_of(start),
    solution=text_of(solution),
    given={},
)
