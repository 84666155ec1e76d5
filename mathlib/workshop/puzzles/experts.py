"""Dispatch to experts and back.  N ranks with an expert each, tokens of width h."""

from collections.abc import Sequence

from mathlib.workshop import budgets
from mathlib.workshop.collectives import all_to_all
from mathlib.workshop.diagnosis import differs, each_rank
from mathlib.workshop.draw import drawn
from mathlib.workshop.puzzle import COLLECTIVES, Budget, Puzzle, Trial, text_of
from mathlib.workshop.ranks import NUMBER
from mathlib.workshop.sketch import parts, sketch
from mathlib.workshop.tensor import Tensor, join

WIDTH = 2


async def start(me, tokens, chosen, expert):
    return expert(tokens)


async def solution(me, tokens, chosen, expert):
    places = [[i for i, e in enumerate(chosen) if e == rank] for rank in range(me.size)]
    arrived = await all_to_all(me, [tokens[some] for some in places])
    back = await all_to_all(me, [expert(some) for some in arrived])
    by_place = {
        i: part[j] for some, part in zip(places, back, strict=True) for j, i in enumerate(some)
    }
    return join([by_place[i] for i in range(len(tokens))])


def expert(rank: int, tokens: Tensor) -> Tensor:
    """Something that each rank does in its own way: squares, through a matrix."""
    return (tokens * tokens) @ drawn(f"expert {rank}", WIDTH, WIDTH)


def trial(*chosen: Sequence[int]) -> Trial:
    """The expert of every token of every rank."""
    n = len(chosen)
    tokens = [drawn(f"tokens of rank {r}", len(row), WIDTH) for r, row in enumerate(chosen)]
    wanted = [
        join([expert(e, of[i]) for i, e in enumerate(row)])
        for of, row in zip(tokens, chosen, strict=True)
    ]
    return Trial(
        f"{n} ranks, tokens for experts {' | '.join(' '.join(map(str, row)) for row in chosen)}",
        budgets.alone(n),
        lambda me: [tokens[me.rank][:], list(chosen[me.rank]), lambda x: expert(me.rank, x)],
        lambda out: each_rank(
            out.results, lambda r, x: differs(x, wanted[r], mistakes(tokens, chosen, r))
        ),
        (most(chosen),),
    )


def most(chosen: Sequence[Sequence[int]]) -> Budget:
    """A token that goes to another rank, and the result of one that came."""
    away = [
        sum(e != r for e in row) + sum(o.count(r) for s, o in enumerate(chosen) if s != r)
        for r, row in enumerate(chosen)
    ]
    each = "h numbers of each token that leaves a rank, there and back"
    return Budget("bytes sent", NUMBER * WIDTH * max(away), each)


def mistakes(
    tokens: Sequence[Tensor], chosen: Sequence[Sequence[int]], rank: int
) -> dict[str, Tensor]:
    """Results that have a name."""
    own, row = tokens[rank], chosen[rank]
    by_expert = sorted(range(len(row)), key=lambda i: row[i])
    ordered = join([expert(row[i], own[i]) for i in by_expert])
    visits = join([tokens[rank][i] for i in range(len(row))])
    return {
        "sends all its tokens to its own expert": expert(rank, own),
        "has its tokens in the order of the experts: put them back where they were": ordered,
        "has its tokens as they were: no expert has seen them": visits,
    }


PUZZLE = Puzzle(
    name="experts",
    title="Dispatch to experts",
    chapter="experts",
    grade=2,
    task="""\
Every rank has some tokens, the rows of `tokens`, and one expert, the function `expert`. Token i
wants the expert of rank `chosen[i]`; an expert may get many tokens, or none. Send each token to
its expert, let the expert see it, and bring the result back. Only tokens that leave a rank may
travel. Return the results as the tokens were, row i the result of token i.""",
    hints=(
        "`tokens[places]` takes a list of places, and may be empty.",
        "`await all_to_all(me, parts)`: part r goes to rank r, and a list of what came, by rank.",
        "Note the places of the tokens that went to each rank: results come back in that order.",
    ),
    sketch=sketch(
        3,
        lambda r: parts("activations", *(f"to {e}" for e in ((2, 0, 1), (1, 2), (0, 0, 2))[r])),
        lambda r: parts("mlp", *(f"by {e}" for e in ((2, 0, 1), (1, 2), (0, 0, 2))[r])),
    ),
    trials=lambda: [
        trial([1, 0, 1], [0, 0, 1]),
        trial([2, 0, 1, 0], [1, 2], [0, 0, 2]),
        trial([1, 1], [1, 2], [1, 1, 1]),
    ],
    start=text_of(start),
    solution=text_of(solution),
    given=COLLECTIVES,
)
