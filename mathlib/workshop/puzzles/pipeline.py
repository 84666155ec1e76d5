"""1F1B and its warm-up.  p stages, m micro-batches."""

from mathlib.schedule.cluster import Cluster
from mathlib.workshop.puzzle import Budget, Puzzle, Trial, text_of
from mathlib.workshop.sketch import parts, sketch
from mathlib.workshop.stages import Pipeline


async def start(me, stage, m):
    first, last = me.rank == 0, me.rank == me.size - 1

    async def forward(i):
        x = None if first else await me.receive(me.rank - 1)
        y = stage.forward(i, x)
        if not last:
            await me.send(me.rank + 1, y)

    async def backward(i):
        dy = None if last else await me.receive(me.rank + 1)
        dx = stage.backward(i, dy)
        if not first:
            await me.send(me.rank - 1, dx)

    for i in range(m):
        await forward(i)
    for i in range(m):
        await backward(i)


async def solution(me, stage, m):
    first, last = me.rank == 0, me.rank == me.size - 1

    async def forward(i):
        x = None if first else await me.receive(me.rank - 1)
        y = stage.forward(i, x)
        if not last:
            await me.send(me.rank + 1, y)

    async def backward(i):
        dy = None if last else await me.receive(me.rank + 1)
        dx = stage.backward(i, dy)
        if not first:
            await me.send(me.rank - 1, dx)

    warm = min(me.size - 1 - me.rank, m)
    for i in range(warm):
        await forward(i)
    for i in range(m - warm):
        await forward(warm + i)
        await backward(i)
    for i in range(m - warm, m):
        await backward(i)


def trial(p: int, m: int) -> Trial:
    """Gradients of one process, few inputs held, and no more idle time than fill and drain."""
    pipe = Pipeline(p, m)
    return Trial(
        f"{p} stages, {m} micro-batches",
        Cluster((p,)),
        lambda me: [pipe.stage(me), m],
        lambda out: pipe.wrong("1f1b"),
        (Budget("time", pipe.seconds, "(m + p - 1) (F + B)"),),
        kept=lambda me: pipe.stages[me.rank].gradients,
    )


PUZZLE = Puzzle(
    name="pipeline",
    title="1F1B and its warm-up",
    chapter="pipeline",
    grade=2,
    task="""\
Rank s is stage s of a pipeline, and m micro-batches go through it: `stage.forward(i, x)` takes
1 s, `stage.backward(i, dy)` 2 s; the first stage passes None for x, and the last one None for
dy. The start is GPipe: all forwards, then all backwards, so that a stage holds the inputs of
all m. 1F1B does as many forwards first as there are stages behind it, then one forward and one
backward in turn, then the backwards that are left. Stage s may hold at most p - s
micro-batches. The step may take no longer than GPipe's.""",
    hints=(
        "The last stage does no forward ahead: it can go back at once.",
        "Warm-up: p - 1 - s forwards, but never more than m.",
        "After w forwards of warm-up: forward w + i, backward i, for i = 0 to m - w - 1.",
    ),
    sketch=sketch(
        4,
        lambda r: parts("activations", *range(8)),
        lambda r: parts("activations", *range(4 - r)),
        titles=("inputs held by GPipe", "inputs held by 1F1B"),
        who="stage",
    ),
    trials=lambda: [trial(4, 8), trial(3, 3), trial(4, 2), trial(1, 3)],
    start=text_of(start),
    solution=text_of(solution),
    given={},
)
