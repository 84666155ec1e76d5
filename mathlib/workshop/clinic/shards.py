"""Ranks that have a part of the model: shards, stages, experts.  N ranks."""

from collections.abc import Sequence

from mathlib.prover.modular import inverse
from mathlib.workshop.case import case, compared
from mathlib.workshop.collectives import all_reduce
from mathlib.workshop.diagnosis import flat, total
from mathlib.workshop.draw import drawn
from mathlib.workshop.network import Network
from mathlib.workshop.puzzle import Trial
from mathlib.workshop.sketch import fault, of, parts
from mathlib.workshop.tensor import Tensor, vector, zeros

HEIGHT, WIDTH = 5, 2  # of an embedding


async def norm_of_a_shard(me, gradient, squares):
    norm = squares(gradient)
    return gradient / norm.item()


def squares(x: Tensor) -> Tensor:
    """The sum of its numbers' squares, a tensor of one number."""
    return vector([sum(n * n for n in flat(x))])


def clipped(n: int, numbers: int) -> Trial:
    """A shard over the square of the whole norm."""
    whole = drawn("gradient", numbers)
    shards = whole.shards(n)
    return compared(
        f"{n} ranks, {numbers} numbers",
        lambda me: [shards[me.rank][:], squares],
        [shard / squares(whole).item() for shard in shards],
        {
            "divides by the norm of its own shard: expected that of the whole gradient": [
                shard / squares(shard).item() for shard in shards
            ]
        },
    )


async def head_not_loaded(me, read, words, layer):
    table = read("embedding") if me.rank == 0 else zeros(5, 2)
    x = table[words] if me.rank == 0 else await me.receive(me.rank - 1)
    x = x @ layer
    if me.rank < me.size - 1:
        await me.send(me.rank + 1, x)
        return x
    return x @ table.T


def logits(n: int) -> Trial:
    """Of a pipeline of n stages with tied embeddings."""
    table, words = drawn("embedding", HEIGHT, WIDTH), [3, 0, 4]
    layers = [drawn(f"layer {r}", WIDTH, WIDTH) for r in range(n)]
    x, wanted = table[words], list[Tensor]()
    for layer in layers:
        x = x @ layer
        wanted.append(x)
    wanted[-1] = x @ table.T
    said = "has logits of nothing but 0: its copy of the embedding was never loaded"
    return compared(
        f"{n} stages",
        lambda me: [{"embedding": table}.__getitem__, words, layers[me.rank][:]],
        wanted,
        {said: [zeros(len(words), HEIGHT)] * n},
    )


async def scaled_at_each_stage(me, backward, dy, m):
    if dy is None:
        dy = await me.receive(me.rank + 1)
    dx, gradient = backward(dy / m)
    if me.rank > 0:
        await me.send(me.rank - 1, dx)
    return gradient


def staged(n: int, m: int) -> Trial:
    """The gradient of each stage's layer, of one of m micro-batches."""
    model = Network(layers=n)
    weights, (x, target) = model.weights(), model.batch("one", 2)
    inputs = [x]
    for layer in weights:
        inputs.append(model.forward(layer, inputs[-1]))
    dy = inputs.pop() - target
    once, often = (through(model, weights, inputs, dy / m, each) for each in (1, m))
    return compared(
        f"{n} stages, {m} micro-batches",
        lambda me: [
            lambda d: model.backward(weights[me.rank], inputs[me.rank], d),
            dy[:] if me.rank == n - 1 else None,
            m,
        ],
        once,
        {"has a gradient that each stage on the way has divided by m once more": often},
    )


def through(
    model: Network, weights: Sequence[Tensor], inputs: Sequence[Tensor], dy: Tensor, each: int
) -> list[Tensor]:
    """Gradients of all stages, what they hand on divided by `each`."""
    found = list[Tensor]()
    for w, x in zip(reversed(weights), reversed(inputs), strict=True):
        dy, gradient = model.backward(w, x, dy)
        dy = dy / each
        found.insert(0, gradient)
    return found


async def mean_over_replicas(me, experts, gradient):
    replicas = list(range(me.rank % experts, me.size, experts))
    return await all_reduce(me, gradient, replicas) / len(replicas)


def expert_gradients(experts: int, replicas: int) -> Trial:
    """Rank r has expert r % experts; its gradient has the tokens of all ranks of its group."""
    n = experts * replicas
    gradients = [drawn(f"gradient of rank {r}", 4) for r in range(n)]
    sums = [total(gradients[r % experts :: experts]) for r in range(n)]
    return compared(
        f"{experts} experts, {replicas} replicas of each",
        lambda me: [experts, gradients[me.rank][:]],
        [one * inverse(n) for one in sums],
        {
            f"has a gradient {experts} times too large: its tokens come from all {n} ranks": [
                one / replicas for one in sums
            ]
        },
    )


CASES = [
    case(
        norm_of_a_shard,
        title="A gradient norm of its own on each rank",
        chapter="zero",
        thread="pytorch/pytorch#72548",
        task="""\
Gradients are sharded, and `clip_grad_norm_` sees a rank's shard only: each rank clips by another
norm. `squares(x)` is the sum of the squares of a tensor's numbers. Here there are no roots, and a
rank must return its shard divided by the square of the norm of the whole gradient.""",
        hints=(
            "Whose numbers are in `norm`?",
            "The square of the whole norm is the sum of the shards' squares.",
            "`norm = await all_reduce(me, squares(gradient))`.",
        ),
        edit=("norm = squares(gradient)", "norm = await all_reduce(me, squares(gradient))"),
        sketch=fault(3, lambda r: [of(r)], lambda r: [of(0, 1, 2)]),
        trials=lambda: [clipped(2, 6), clipped(3, 7)],
    ),
    case(
        head_not_loaded,
        title="Random characters from the last stage",
        chapter="pipeline",
        thread="sgl-project/sglang#15890",
        task="""\
A model with tied embeddings writes random characters as soon as it runs as a pipeline. The weights
of a layer are loaded on its stage, and the embedding belongs to the first. The last stage uses the
same matrix, 5 words of width 2, as its head. Stages return their x, the last one the logits.""",
        hints=(
            "What is `table` on the last stage?",
            "The file has the embedding under the first stage's name only, and the head is empty.",
            "Both ends read it: `if me.rank in (0, me.size - 1)`.",
        ),
        edit=(
            'read("embedding") if me.rank == 0 else',
            'read("embedding") if me.rank in (0, me.size - 1) else',
        ),
        sketch=fault(
            2,
            lambda r: parts("embedding", "E") if r == 0 else parts("idle", "zeros"),
            lambda r: parts("embedding", "E"),
            who="stage",
        ),
        trials=lambda: [logits(2), logits(4)],
    ),
    case(
        scaled_at_each_stage,
        title="First layers that hardly learn",
        chapter="pipeline",
        thread="deepspeedai/DeepSpeed#8152",
        task="""\
With 8 micro-batches and two stages the first stage gets 1/64 of its gradient, where 1/8 is right.
The last stage begins with `dy`, and every stage hands on what `backward` gives. A gradient must be
divided by the m micro-batches once, wherever its layer is.""",
        hints=(
            "Follow dy through three stages: how often is it divided?",
            "What comes from the next stage has been divided there.",
            "Divide where the way back begins: `dy / m` on the last stage only.",
        ),
        edit=(
            "        dy = await me.receive(me.rank + 1)\n    dx, gradient = backward(dy / m)\n",
            "        dy = await me.receive(me.rank + 1)\n"
            "    else:\n"
            "        dy = dy / m\n"
            "    dx, gradient = backward(dy)\n",
        ),
        sketch=fault(
            2,
            lambda r: parts("gradients", ("1/64", "1/8")[r]),
            lambda r: parts("gradients", "1/8"),
            who="stage",
        ),
        trials=lambda: [staged(2, 8), staged(3, 2), staged(1, 4)],
    ),
    case(
        mean_over_replicas,
        title="Experts that learn too fast",
        chapter="experts",
        thread="NVIDIA/Megatron-LM#5956",
        task="""\
With expert parallelism the gradients of experts are too large, by the number of ranks that share
them out. Rank r has expert r % experts. Its gradient is a sum over the tokens of all ranks of its
group, each with a batch of its own; the other replicas of the expert have the sums of their
groups. The result must be the mean over the batches of all ranks.""",
        hints=(
            "How many batches are in the sum over replicas?",
            "The tokens of all ranks have come to some replica: N batches, not N / experts.",
            "Divide by `me.size`.",
        ),
        edit=("/ len(replicas)", "/ me.size"),
        sketch=fault(
            4,
            lambda r: [of(r % 2, r % 2 + 2), *parts("other", "/ 2")],
            lambda r: [of(r % 2, r % 2 + 2), *parts("other", "/ 4")],
        ),
        trials=lambda: [expert_gradients(2, 2), expert_gradients(3, 1), expert_gradients(2, 3)],
    ),
]
