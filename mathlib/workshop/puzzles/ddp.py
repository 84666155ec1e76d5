"""A step of data parallelism.  N ranks, each with its own batch; K bytes of gradients."""

from mathlib.workshop import budgets
from mathlib.workshop.collectives import all_reduce
from mathlib.workshop.puzzle import COLLECTIVES, Puzzle, Trial, text_of
from mathlib.workshop.sketch import of, parts, sketch
from mathlib.workshop.training import Training


async def start(me, model, weights, batches, rate):
    seen = []
    for batch in batches:
        gradient = model.whole_gradient(weights, batch)
        weights = weights - gradient * rate
        seen.append(weights)
    return seen


async def solution(me, model, weights, batches, rate):
    seen = []
    for batch in batches:
        gradient = model.whole_gradient(weights, batch)
        gradient = await all_reduce(me, gradient) / me.size
        weights = weights - gradient * rate
        seen.append(weights)
    return seen


def trial(n: int, steps: int) -> Trial:
    """Weights after each step must be those of one process."""
    train = Training(n, steps)
    both = budgets.sent("", "all-reduce", numbers=train.numbers, ranks=n).most * steps
    return Trial(
        f"{n} ranks, {steps} steps",
        budgets.alone(n),
        lambda me: [train.model, train.weights[:], train.batches[me.rank], train.rate],
        lambda out: train.wrong(out.results),
        (budgets.Budget("bytes sent", both, "2 K (N-1)/N a step"),) if n in (2, 3, 4) else (),
    )


PUZZLE = Puzzle(
    name="ddp",
    title="A step of data parallelism",
    chapter="data_parallel",
    grade=1,
    task="""\
Every rank has the same weights and a batch of its own. `model.whole_gradient(weights,
batch)` is the gradient of the mean loss over a batch's tokens. All ranks must go on
with the weights that one process would have that sees all batches as one. The update is
plain gradient descent: weights - rate * gradient. Return a list of the weights after
each step, and send one all-reduce of the gradient a step.""",
    hints=(
        "Left alone, ranks diverge: each follows its own gradient.",
        "All batches have as many tokens: the mean over all is the mean of the ranks' means.",
        "`await all_reduce(me, gradient)` is a sum; the mean is that over `me.size`.",
    ),
    sketch=sketch(
        3,
        lambda r: parts("weights", "W") + parts("activations", f"batch {r}") + [of(r)],
        lambda r: parts("weights", "new") + [of(0, 1, 2)],
    ),
    trials=lambda: [trial(2, 2), trial(3, 2), trial(4, 1)],
    start=text_of(start),
    solution=text_of(solution),
    given=COLLECTIVES,
)
