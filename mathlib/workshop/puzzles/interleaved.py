"""Interleaved 1F1B (Narayanan et al. 2021).  p stages, v chunks a stage, m micro-batches."""

from mathlib.schedule.cluster import Cluster
from mathlib.workshop.puzzle import Budget, Puzzle, Trial, text_of
from mathlib.workshop.sketch import parts, sketch
from mathlib.workshop.stages import Pipeline


async def start(me, stage, m, v):
    p, s = me.size, me.rank

    async def forward(i, c):
        first, last = c == s == 0, c == v - 1 and s == p - 1
        x = None if first else await me.receive((s - 1) % p, f"F{i} {c * p + s}")
        y = stage.forward(i, x, c)
        if not last:
            await me.send((s + 1) % p, y, f"F{i} {c * p + s + 1}")

    async def backward(i, c):
        first, last = c == s == 0, c == v - 1 and s == p - 1
        dy = None if last else await me.receive((s + 1) % p, f"B{i} {c * p + s}")
        dx = stage.backward(i, dy, c)
        if not first:
            await me.send((s - 1) % p, dx, f"B{i} {c * p + s - 1}")

    for c in range(v):
        for i in range(m):
            await forward(i, c)
    for c in reversed(range(v)):
        for i in range(m):
            await backward(i, c)


async def solution(me, stage, m, v):
    p, s = me.size, me.rank

    async def forward(k):  # the k-th forward of a stage: p micro-batches a chunk, then the next
        i, c = k // (p * v) * p + k % p, k // p % v
        first, last = c == s == 0, c == v - 1 and s == p - 1
        x = None if first else await me.receive((s - 1) % p, f"F{i} {c * p + s}")
        y = stage.forward(i, x, c)
        if not last:
            await me.send((s + 1) % p, y, f"F{i} {c * p + s + 1}")

    async def backward(k):
        i, c = k // (p * v) * p + k % p, v - 1 - k // p % v
        first, last = c == s == 0, c == v - 1 and s == p - 1
        dy = None if last else await me.receive((s + 1) % p, f"B{i} {c * p + s}")
        dx = stage.backward(i, dy, c)
        if not first:
            await me.send((s - 1) % p, dx, f"B{i} {c * p + s - 1}")

    warm = min(2 * (p - 1 - s) + (v - 1) * p, m * v)
    for k in range(warm):
        await forward(k)
    for k in range(m * v - warm):
        await forward(warm + k)
        await backward(k)
    for k in range(m * v - warm, m * v):
        await backward(k)


def trial(p: int, m: int, v: int) -> Trial:
    """Gradients of one process, few inputs held, and a v-th of the idle time."""
    pipe = Pipeline(p, m, v)
    return Trial(
        f"{p} stages, {m} micro-batches, {v} chunks",
        Cluster((p,)),
        lambda me: [pipe.stage(me), m, v],
        lambda out: pipe.wrong("interleaved"),
        (Budget("time", pipe.seconds, "m (F + B) + (p - 1) (F + B) / v"),),
        kept=lambda me: pipe.stages[me.rank].gradients,
    )


PUZZLE = Puzzle(
    name="interleaved",
    title="Interleaved 1F1B",
    chapter="schedules",
    grade=3,
    task="""\
Each stage has v chunks of the model: chunk c of stage s is part c p + s, so that a micro-batch
goes round all stages v times. A chunk's forward takes 1/v s and its backward 2/v s; the start
does all forwards and then all backwards, and tags its messages, since some cross. Interleaving
takes p micro-batches through the first chunk, the same through the next one, and so on, and
then the next p. Stage s does 2 (p - 1 - s) + (v - 1) p forwards first, then one forward and one
backward in turn. Idle time must shrink to a v-th, with no more inputs held than this order
holds.""",
    hints=(
        "Number its forwards k = 0, 1, ...: chunk k // p % v, micro-batch k // (p v) p + k % p.",
        "Backwards go through the chunks the other way round: chunk v - 1 - k // p % v.",
        "It is 1F1B over k, with m v forwards and a longer warm-up.",
    ),
    sketch=sketch(
        2,
        lambda r: parts("weights", 2 * r, 2 * r + 1),
        lambda r: parts("weights", r, 2 + r),
        titles=("one chunk a stage", "two chunks, interleaved"),
        who="stage",
    ),
    trials=lambda: [trial(2, 4, 2), trial(4, 4, 2), trial(2, 4, 3), trial(3, 6, 2)],
    start=text_of(start),
    solution=text_of(solution),
    given={},
)
