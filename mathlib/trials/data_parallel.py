"""Data parallelism on the plain file: whether replicas train as one process does, and how large a
batch they may share.

N ranks · B sequences of the batch · K bytes of gradients
"""

from collections.abc import Callable, Iterable
from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor, nn

from mathlib import launch
from mathlib.model import data, gpt, oracle
from mathlib.parallel.plain import ddp
from mathlib.trials import zero

SHAPE = zero.SHAPE
PROMPT = zero.SEQUENCES  # sequence i of the batch keeps i + 1 of its targets


class Alone(ddp.Naive):
    """Each rank keeps its own gradients."""

    def average(self) -> None:
        pass


WAYS: dict[str, Callable] = {
    "no all-reduce": Alone,
    "Naive": ddp.Naive,
    "DDP": partial(ddp.DDP, bucket_bytes=2**16),
}


def _every_way() -> list[list[Tensor]]:
    makes = oracle.OPTIMIZERS.values()
    return [zero.trained(way, make) for way in WAYS.values() for make in makes]


def distances(ranks: int) -> dict[str, float]:
    """How far the ranks are from one process after any step, by class and optimizer."""
    found = zip(*launch.run(_every_way, ranks), strict=True)
    cases = [(way, name) for way in WAYS for name in oracle.OPTIMIZERS]
    return {
        f"{way}, {name}": zero.furthest(histories, zero.one_process(name))
        for (way, name), histories in zip(cases, found, strict=True)
    }


def sent(ranks: int) -> tuple[float, float, float]:
    """Bytes of a step of Naive, mean of the ranks: formula, program, system."""
    counts = zip(*launch.run(zero.sent, ranks, 0), strict=True)
    program, system = (sum(ranks_counts) / ranks for ranks_counts in counts)
    return zero.sends(0, ranks), program, system


# Parts of a batch that have different numbers of tokens


def prompted() -> tuple[Tensor, Tensor]:
    """A batch whose sequences count for 1, 2, 3 ... tokens, the others are prompt."""
    tokens, targets = data.batch(PROMPT, SHAPE.context)
    counts = torch.arange(SHAPE.context) <= torch.arange(PROMPT)[:, None]
    return tokens, targets.where(counts, oracle.NOT_COUNTED)


def masked(by_tokens: bool) -> Tensor:
    """The mean gradient of such a batch, its ranks weighed by tokens or not."""
    part = oracle.my_part(prompted())
    here = (part[1] != oracle.NOT_COUNTED).sum()
    everywhere = here.clone()
    dist.all_reduce(everywhere)
    weight = oracle.my_weight(int(here), int(everywhere)) if by_tokens else 1.0
    model = gpt.GPT(SHAPE, seed=0).double()
    way = ddp.Naive(model, torch.optim.SGD)
    (weight * oracle.loss(model, *part)).backward()
    way.average()
    return oracle.flat_gradient(model)


def weighed(ranks: int) -> dict[str, float]:
    """How far the ranks are from one process, weighed by tokens or not."""
    wanted, ways = launch.run(masked, 1, True)[0], {"by tokens": True, "unweighted": False}
    return {
        how: oracle.distance(launch.run(masked, ranks, way), wanted) for how, way in ways.items()
    }


def accumulated(lengths: Iterable[int], by_tokens: bool) -> Tensor:
    """The gradient of a micro-batch of each length in one process: by tokens, or mean of means."""
    model = gpt.GPT(SHAPE.but(context=100), seed=0).double()
    batches = [data.batch(1, n, n) for n in lengths]
    whole = sum(targets.numel() for _, targets in batches)
    for tokens, targets in batches:
        share = targets.numel() / whole if by_tokens else 1 / len(batches)
        (share * oracle.loss(model, tokens, targets)).backward()
    return oracle.flat_gradient(model)


def at_once(lengths: Iterable[int]) -> Tensor:
    """The gradient of the mean over all their tokens."""
    model = gpt.GPT(SHAPE.but(context=100), seed=0).double()
    batches = [data.batch(1, n, n) for n in lengths]
    logits = torch.cat([model(tokens).flatten(0, 1) for tokens, _ in batches])
    nn.functional.cross_entropy(logits, torch.cat([t.flatten() for _, t in batches])).backward()
    return oracle.flat_gradient(model)


# A larger batch


def walk(rate: float, joined: int) -> Tensor:
    """How plain SGD moves the weights by four batches, `joined` of them a step, rate as linear
    scaling has it.
    """
    model = gpt.GPT(SHAPE, seed=0).double()
    start, batches = oracle.flat_weights(model), []
    for i in range(4):
        batches.append(data.batch(zero.SEQUENCES, SHAPE.context, i))
    optimizer = torch.optim.SGD(model.parameters(), lr=joined * rate)
    for i in range(0, 4, joined):
        oracle.step(model, optimizer, *map(torch.cat, zip(*batches[i : i + joined], strict=True)))
    return oracle.flat_weights(model) - start


def apart(rate: float) -> float:
    """Between the ends of four small steps and a large one, over how far the four got."""
    small, large = walk(rate, 1), walk(rate, 4)
    return ((large - small).norm() / small.norm()).item()


def farther(name: str, times: float) -> float:
    """How many times as far the first step goes with gradients so many times as large."""
    ways = []
    for factor in (times, 1):
        model = gpt.GPT(SHAPE, seed=0).double()
        start, optimizer = oracle.flat_weights(model), oracle.OPTIMIZERS[name](model.parameters())
        loss = oracle.loss(model, *data.batch(zero.SEQUENCES, SHAPE.context))
        (factor * loss).backward()
        optimizer.step()
        ways.append((oracle.flat_weights(model) - start).norm().item())
    return ways[0] / ways[1]
