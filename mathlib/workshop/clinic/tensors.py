"""Matrices, masks and sequences that are split over ranks.  N ranks, s tokens, width h."""

from collections.abc import Iterator
from random import Random
from typing import Any

from mathlib.workshop.budgets import alone
from mathlib.workshop.case import case, compared
from mathlib.workshop.collectives import all_reduce
from mathlib.workshop.diagnosis import differs, each_rank, total
from mathlib.workshop.draw import drawn
from mathlib.workshop.puzzle import Trial
from mathlib.workshop.ranks import Outcome
from mathlib.workshop.sketch import Part, fault, of, parts, sketch
from mathlib.workshop.tensor import Tensor, join, vector, zeros


async def bias_each_rank(me, x, rows, bias):
    return await all_reduce(me, x @ rows + bias)


def biased(n: int, tokens: int) -> Trial:
    """x W + b, the inner width split over ranks."""
    x = [drawn(f"x of rank {r}", tokens, 3) for r in range(n)]
    rows = [drawn(f"rows of rank {r}", 3, 2) for r in range(n)]
    bias = drawn("bias", tokens, 2)
    product = total([a @ b for a, b in zip(x, rows, strict=True)])
    return compared(
        f"{n} ranks, {tokens} tokens",
        lambda me: [x[me.rank][:], rows[me.rank][:], bias[:]],
        [product + bias] * n,
        {f"has the bias {n} times": [product + bias * n] * n, "has no bias": [product] * n},
    )


async def fused_gate_up(me, x, gate_up, down):
    gate, up = gate_up.shards(me.size)[me.rank].shards(2)
    inner = (x @ gate.T) * (x @ up.T)
    return await all_reduce(me, inner @ down.shards(me.size)[me.rank])


def gated(n: int, inner: int) -> Trial:
    """An MLP with a gate; gate and up lie end to end."""
    x, both, down = (
        drawn("x", 3, 2),
        drawn("gate and up", 2 * inner, 2),
        drawn("down", inner, 2),
    )
    gate, up = both.shards(2)
    wanted = ((x @ gate.T) * (x @ up.T)) @ down
    wrong = total([mispaired(x, *of) for of in zip(both.shards(n), down.shards(n), strict=True)])
    return compared(
        f"{n} ranks, inner width {inner}",
        lambda me: [x[:], both[:], down[:]],
        [wanted] * n,
        {"multiplies gates with gates and ups with ups": [wrong] * n},
    )


def mispaired(x: Tensor, both: Tensor, down: Tensor) -> Tensor:
    """A shard of gate and up end to end, taken for a gate and an up."""
    one, other = both.shards(2)
    return ((x @ one.T) * (x @ other.T)) @ down


async def drawn_on_one_rank(me, x, rows, draw):
    if me.rank == 0:
        draw(1)  # which data to read
    y = await all_reduce(me, x @ rows)
    return y * draw(2)


def draws(seed: int) -> Any:
    """A rank's own generator: so many numbers, 0 or 1."""
    random = Random(seed)
    return lambda n: vector([random.randrange(2) for _ in range(n)])


def dropping(n: int, seed: int) -> Trial:
    """All ranks drop the same columns of y, those that rank 0 drops."""
    x = [drawn(f"x of rank {r}", 3, 2) for r in range(n)]
    rows = [drawn(f"rows of rank {r}", 2, 2) for r in range(n)]
    random = draws(seed)
    random(1)
    wanted = total([a @ b for a, b in zip(x, rows, strict=True)]) * random(2)

    def wrong(out: Outcome) -> Iterator[str]:
        for rank, got in enumerate(out.results):
            said = differs(got, wanted)
            if said and rank and isinstance(got, Tensor) and got.shape == wanted.shape:
                said = "drops other columns than rank 0"
            if said:
                yield f"rank {rank} {said}"

    return Trial(
        f"{n} ranks, seed {seed}",
        alone(n),
        lambda me: [x[me.rank][:], rows[me.rank][:], draws(seed)],
        wrong,
    )


async def shifted_after_split(me, tokens):
    return join([tokens[1:], zeros(1)])


def targets(n: int, tokens: int) -> Trial:
    """The next token of each, on the rank that has it."""
    words = drawn("tokens", tokens)
    shifted = join([words[1:], zeros(1)]).shards(n)

    def wrong(rank: int, got: Any) -> str:
        lost = join([words.shards(n)[rank][1:], zeros(1)])
        return differs(got, shifted[rank], {"has no target for its last token": lost})

    return Trial(
        f"{n} ranks, {tokens} tokens",
        alone(n),
        lambda me: [words.shards(n)[me.rank]],
        lambda out: each_rank(out.results, wrong),
    )


CASES = [
    case(
        bias_each_rank,
        title="Garbage from a model with biases",
        chapter="tensor",
        thread="huggingface/text-generation-inference#1036",
        task="""\
With tensor parallelism models whose layers have biases write garbage, others do not. Each rank
has some columns of x, the rows of the matrix that meet them, and the whole bias, a row for each
token. Return x W + b on every rank.""",
        hints=(
            "What is summed over ranks, and how often is the bias in it?",
            "x W is a sum over ranks; the bias is no part of that sum.",
            "Add the bias behind the all-reduce.",
        ),
        edit=("x @ rows + bias)", "x @ rows) + bias"),
        sketch=fault(
            2,
            lambda r: [of(0, 1), *parts("weights", "b", "b")],
            lambda r: [of(0, 1), *parts("weights", "b")],
        ),
        trials=lambda: [biased(2, 2), biased(3, 4)],
    ),
    case(
        fused_gate_up,
        title="Gate and up in one matrix",
        chapter="tensor",
        thread="tenstorrent/tt-metal#52818",
        task="""\
Gate and up are fused into one matrix, gate first, and tensor parallelism makes the MLP wrong. It
is y = ((x G^T) * (x U^T)) D, multiplied number by number. A rank works with its shard of the inner
width, and y is the sum over ranks. Here every rank has all weights and cuts them itself.""",
        hints=(
            "Which rows of `gate_up` does rank 0 get, of two ranks?",
            "Cut end to end, the first rank has gates only, and the last one ups only.",
            "First split gate from up, `gate_up.shards(2)`, then cut each of them.",
        ),
        edit=(
            "gate_up.shards(me.size)[me.rank].shards(2)",
            "(half.shards(me.size)[me.rank] for half in gate_up.shards(2))",
        ),
        sketch=sketch(
            2,
            lambda r: [Part("weights", name, 2) for name in "GU"],
            lambda r: [of(0, 1)],
            titles=("at first", "at the end"),
        ),
        trials=lambda: [gated(2, 4), gated(3, 6)],
    ),
    case(
        drawn_on_one_rank,
        title="Dropout masks that drift apart",
        chapter="tensor",
        thread="bigscience-workshop/Megatron-DeepSpeed#276",
        task="""\
Ranks of a tensor-parallel group begin with one seed, and some steps later their random states are
not the same. `draw(n)` gives the next n numbers of a rank's generator, 0 or 1. Rank 0 draws once to
choose its data. Behind the sum all ranks must drop the same columns; what rank 0 returns is
right.""",
        hints=(
            "How many numbers has each rank drawn before its mask?",
            "Only rank 0 reads data and draws for it, so that its generator is ahead.",
            "Every rank draws as rank 0 does: `draw(1)` without the condition.",
        ),
        edit=("    if me.rank == 0:\n        draw(1)  #", "    draw(1)  #"),
        sketch=fault(
            2,
            lambda r: parts("other", *("data", "mask")[r:]) + parts("idle", *["left"][:r]),
            lambda r: parts("other", "data", "mask"),
        ),
        trials=lambda: [dropping(2, 3), dropping(3, 8)],
    ),
    case(
        shifted_after_split,
        title="A target lost at each seam",
        chapter="sequences",
        thread="huggingface/transformers#36607",
        task="""\
With sequence parallelism the loss is another one: labels get lost. Each rank has a piece of a
sequence, in order. The target of a token is the next token, and the last token of the whole
sequence has target 0. Return the targets of this rank's tokens.""",
        hints=(
            "What is the target of the last token of rank 0?",
            "Its target is the first token of the next rank; shifted alone, a piece has none.",
            "Send the first token to the left neighbor, and receive that of the right one.",
        ),
        edit=(
            "    return join([tokens[1:], zeros(1)])\n",
            "    if me.rank > 0:\n"
            "        await me.send(me.rank - 1, tokens[:1])\n"
            "    last = me.rank == me.size - 1\n"
            "    return join([tokens[1:], zeros(1) if last else await me.receive(me.rank + 1)])\n",
        ),
        sketch=fault(
            2,
            lambda r: parts("activations", *((1, 2, 3, "-"), (5, 6, 7, "-"))[r]),
            lambda r: parts("activations", *((1, 2, 3, 4), (5, 6, 7, "-"))[r]),
        ),
        trials=lambda: [targets(2, 8), targets(3, 9)],
    ),
]
