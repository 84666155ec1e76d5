"""Bytes of a MiCS step, formula beside the system's count: of a rank, and of a node."""

from mathlib import launch
from mathlib.meters import wire
from mathlib.model import data, gpt, oracle
from mathlib.parallel.zero.mics import Mics
from mathlib.traffic import hierarchical, volumes

MODEL = gpt.small(layers=3, width=32, context=16, vocab=len(data.vocabulary()))
ROUND, MESSAGE = 288, 144  # bytes that gloo adds: a round of a ring, a message between two ranks
LAYERS, ROWS = 3, 4


def sizes() -> tuple[int, int]:
    """Bytes in layers, and in none."""
    model = gpt.GPT(MODEL)
    layers = sum(p.nbytes for p in model.blocks.parameters())
    return layers, sum(p.nbytes for p in model.parameters()) - layers


def sent(cases: list[tuple[int, int, int | None]]) -> list[dict[int, int]]:
    """What this rank sends to each other rank, for each degree, micro-batches, ranks of a node."""
    found = []
    for shard, micro_batches, node in cases:
        model = gpt.GPT(MODEL)
        make = oracle.OPTIMIZERS["SGD"]
        mics = Mics(model, make, model.blocks, shard=shard, ranks_per_node=node)
        part = oracle.my_part(data.batch(16 * micro_batches, MODEL.context))
        with wire.sent_to() as counted:
            for piece in zip(*(t.chunk(micro_batches) for t in part), strict=True):
                (oracle.loss(model, *piece) / micro_batches).backward()
            mics.step()
        found.append(dict(counted))
    return found


def test_a_rank_sends_what_the_formula_says():
    ranks = 4
    cases = [(S, m, None) for S in (1, 2, 4) for m in (1, 2)]
    inside, outside = sizes()
    everyone = launch.run(sent, ranks, cases)
    for number, (S, m, _) in enumerate(cases):
        R = ranks // S
        how = {"data": ranks, "stage": 3, "shard": S, "micro_batches": m}
        how |= {"weight_bytes": 4, "gradient_bytes": 4}
        formula = volumes.zero(parameters=inside / 4, **how).total
        formula += volumes.zero(parameters=outside / 4, keep_gathered=True, **how).total
        headers = m * (S - 1) * (ROUND * (2 * LAYERS + 1) + MESSAGE * ROWS)
        headers += 2 * (R - 1) * ROUND * ROWS
        for rank in everyone:
            assert sum(rank[number].values()) == formula + headers, (S, m)


def test_what_leaves_a_node_of_two():
    cases = [(S, 1, 2) for S in (1, 2, 4, 8)]
    inside, outside = sizes()
    K, N, g = inside + outside, 8, 2
    everyone = launch.run(sent, N, cases)
    for number, (S, _, _) in enumerate(cases):
        R, formula = N // S, 0.0
        if g < S:
            gathered = {"payload": 2 * inside + outside, "ranks": S, "ranks_per_node": g}
            formula += hierarchical.all_gather(**gathered)["to other nodes"]
            formula += ROUND * (S // g - 1) * g * (2 * LAYERS + 1)
            scattered = {"payload": K, "ranks": S, "ranks_per_node": g}
            formula += hierarchical.reduce_scatter(**scattered)["to other nodes"]
            formula += MESSAGE * (S // g - 1) * g * ROWS
        formula += min(S, g) * (2 * (R - 1) / R * K / S + ROUND * 2 * (R - 1) * ROWS)
        for node in range(N // g):
            leaving = sum(
                wire.leaving(everyone[r][number], r, g) for r in range(node * g, node * g + g)
            )
            assert leaving == formula, (S, node)
