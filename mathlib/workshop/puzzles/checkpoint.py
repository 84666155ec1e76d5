"""A checkpoint saved by four ranks and loaded by three.  P parameters."""

from collections.abc import Sequence
from typing import Any

from mathlib.checks import InputError
from mathlib.schedule.cluster import Cluster
from mathlib.workshop.diagnosis import differs, each_rank
from mathlib.workshop.draw import drawn
from mathlib.workshop.puzzle import Budget, Puzzle, Trial, text_of
from mathlib.workshop.ranks import Me, Outcome, packed, unpacked
from mathlib.workshop.sketch import parts, sketch
from mathlib.workshop.tensor import Tensor, join


async def save(me, shard, start, total):
    return shard


async def load(me, files, read):
    return read(me.rank)


async def solution_save(me, shard, start, total):
    return [start, total, shard]


async def solution_load(me, files, read):
    found, own = [], None
    for file in range(files):
        start, total, shard = read(file)
        if own is None:
            own = range(total * me.rank // me.size, total * (me.rank + 1) // me.size)
        first, last = max(own.start, start), min(own.stop, start + len(shard))
        if first < last:
            found.append(shard[first - start : last - start])
    return join(found)


def trial(savers: int, loaders: int, numbers: int) -> Trial:
    """Saved by some, loaded by others."""
    weights = drawn("weights", numbers)
    places = [numbers * r // savers for r in range(savers)]
    return Trial(
        f"saved by {savers} ranks, loaded by {loaders}, {numbers} numbers",
        Cluster((savers,)),
        lambda me: [weights.shards(savers)[me.rank], places[me.rank], numbers],
        lambda out: each_rank(out.results, unsaved),
        entry="save",
        then=lambda out: loading(out, loaders, weights),
    )


def as_file(result: Any) -> Any:
    """What a rank saves."""
    return packed(list(result) if isinstance(result, tuple) else result)


def unsaved(_: int, result: Any) -> str:
    """Why it cannot be saved."""
    try:
        as_file(result)
    except InputError as error:
        return f"cannot save {str(error).removeprefix('a message of ')}"
    return ""


def loading(saved: Outcome, loaders: int, weights: Tensor) -> Trial:
    """The second half."""
    files = [as_file(x) for x in saved.results]
    wanted = weights.shards(loaders)
    largest = max(map(len, weights.shards(len(files))))

    def inputs(me: Me) -> list[Any]:
        return [len(files), lambda file: unpacked(files[file])]

    return Trial(
        "loaded",
        Cluster((loaders,)),
        inputs,
        lambda out: each_rank(
            out.results, lambda r, x: differs(x, wanted[r], known(r, weights, files))
        ),
        (
            Budget(
                "live numbers",
                2 * max(map(len, wanted)) + 2 * largest,
                "2 P/N for N loaders, and two files",
            ),
        ),
        entry="load",
    )


def known(rank: int, weights: Tensor, files: Sequence[Any]) -> dict[str, Tensor]:
    """Results that have a name."""
    return {
        f"has the shard of saver {i}": one for i, one in enumerate(weights.shards(len(files)))
    } | {"has all weights: expected its shard": weights}


PUZZLE = Puzzle(
    name="checkpoint",
    title="A checkpoint for another number of ranks",
    chapter="zero",
    grade=2,
    task="""\
Some ranks save a checkpoint, a file each, and another number of ranks goes on from it. `save`
gets a rank's shard, the place of its first number in the whole, and how many numbers there are
in all; what it returns is the rank's file. `load` reads a file by `read(i)`, for i below
`files`. It returns the shard of the new rank r: the numbers from P r // N to P (r+1) // N. A
rank that loads has no room for all weights: read one file after the other, and keep what is
yours.""",
    hints=(
        "A file must say which numbers it holds: save the place and the total, too.",
        "Old and new shards overlap from the larger first place to the smaller end.",
        "`shard[a:b]` cuts what overlaps; `join` puts the pieces together.",
    ),
    sketch=sketch(
        4,
        lambda r: parts("weights", *range(3 * r, 3 * r + 3)),
        lambda r: parts("weights", *range(4 * r, 4 * r + 4)),
        titles=("saved by four", "loaded by three"),
        later=3,
    ),
    trials=lambda: [trial(4, 3, 22), trial(4, 2, 21), trial(3, 5, 31), trial(2, 2, 9)],
    start=text_of(save, load),
    solution=text_of(solution_save, solution_load),
    given={},
)
