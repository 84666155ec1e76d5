"""Is the sum right?  What rounding does to sums over up to 1,024 ranks, added in the order of a
ring, of a tree, of levels, or in one place.

x  what the ranks bring, a row each
"""

from collections.abc import Callable
from functools import cache

import torch
import torch.distributed as dist
from torch import Tensor

from mathlib import launch
from mathlib.model import data, gpt, oracle
from mathlib.parallel import collectives, sum_orders
from mathlib.traffic import rounding

RANKS, NODE = 1024, 8
FORMATS = {"bf16": torch.bfloat16, "fp32": torch.float32}
ORDERS: dict[str, Callable[[Tensor], Tensor]] = {"ring": sum_orders.ring, "tree": sum_orders.tree}


def draw(ranks: int, length: int = 4096) -> Tensor:
    """Noise, even between -1 and 1: the same numbers on any machine."""
    generator = torch.Generator().manual_seed(ranks)
    numbers = torch.randint(-(2**52), 2**52, (ranks, length), generator=generator)
    return numbers.double() / 2**52


def ones(ranks: int = RANKS) -> float:
    """The ring's sum of as many ones in bf16."""
    return sum_orders.ring(torch.ones(ranks, ranks, dtype=torch.bfloat16))[0].item()


def errors(ranks: int) -> dict[tuple[str, str], tuple[float, float]]:
    """Error of a sum of noise over the sum, by format and order: formula, computed."""
    x = draw(ranks)
    return {
        (name, order): (
            rounding.error(order, ranks=ranks, dtype=name),
            sum_orders.error(add(x.to(dtype)), x.to(dtype)),
        )
        for name, dtype in FORMATS.items()
        for order, add in ORDERS.items()
    }


def in_levels(x: Tensor) -> Tensor:
    """A chain inside each node, and a chain of the nodes' sums."""
    return sum_orders.ring(torch.stack([sum_orders.ring(node) for node in x.split(NODE)]))


def levels_error() -> tuple[float, float]:
    """Error of the levels' sum of noise in bf16: formula, computed."""
    x = draw(RANKS).bfloat16()
    terms = RANKS // NODE * sum(range(2, NODE + 1)) + sum(range(2 * NODE, RANKS + 1, NODE))
    share = terms / sum(rounding.chain(RANKS))
    ring = rounding.error("ring", ranks=RANKS, dtype="bf16")
    return ring * share**0.5, sum_orders.error(in_levels(x), x)


def once_error(ranks: int) -> float:
    """The same, added in 32 bits in one place and rounded once."""
    x = draw(ranks).bfloat16()
    return sum_orders.error(x.float().sum(0).bfloat16(), x)


def agreeing(ranks: int = RANKS) -> dict[str, float]:
    """Share that is left of a sum of numbers around 1, give or take a tenth, in bf16."""
    x = (1 + draw(ranks, 1024) / 10).bfloat16()
    return {name: add(x).double().mean().item() / ranks for name, add in ORDERS.items()}


def _added(dtype: torch.dtype) -> list[Tensor]:
    found = []
    ways = collectives.ring_all_reduce, collectives.tree_all_reduce, dist.all_reduce
    for all_reduce in ways:
        x = draw(8, 1600)[dist.get_rank()].to(dtype)
        all_reduce(x)
        found.append(x)
    return found


def same_bits(name: str) -> tuple[bool, bool, bool]:
    """Do all of eight ranks end with the bits of this room's ring, of its tree, of a ring that runs
    the other way (PyTorch's over gloo)?
    """
    x = draw(8, 1600).to(FORMATS[name])
    leftwards = sum_orders.ring(x.flip(0, 1)).flip(0)
    expected = sum_orders.ring(x), sum_orders.tree(x), leftwards
    ranks = launch.run(_added, 8, FORMATS[name])
    ring, tree, gloo = (
        all(torch.equal(found[i], wanted) for found in ranks) for i, wanted in enumerate(expected)
    )
    return ring, tree, gloo


# Gradients of a small GPT, of which each of 1,024 ranks has read 32 letters


def _brought(model: gpt.GPT) -> Tensor:
    rows = []
    for x, y in zip(*data.batch(RANKS, 32, seed=1), strict=True):
        model.zero_grad()
        model.loss(x[None], y[None]).backward()
        rows.append(oracle.flat_gradient(model)[::3])
    return torch.stack(rows)


def against_noise(x: Tensor) -> dict[str, float]:
    """Error of a sum in bf16 over the noise of the sum: what other data would have changed."""
    short = x.bfloat16()
    truth = short.double().sum(0)
    noise = x.std(0).square().mean().sqrt() * len(x) ** 0.5
    return {
        name: ((add(short).double() - truth).square().mean().sqrt() / noise).item()
        for name, add in ORDERS.items()
    }


@cache
def of_gradients() -> dict[str, dict[str, float]]:
    """The same for gradients, before training and after a hundred steps of Adam."""
    shape = gpt.small(layers=1, width=32, vocab=len(data.vocabulary()), context=32)
    model = gpt.GPT(shape).double()  # 64 bits, lest another machine's rounding show
    found = {"before training": against_noise(_brought(model))}
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step in range(100):
        oracle.step(model, optimizer, *data.batch(8, 32, step=step))
    return found | {"after 100 steps": against_noise(_brought(model))}
