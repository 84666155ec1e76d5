"""The best learning rate of full fine-tuning and of adapters, in a small run: a Llama that has
learned a text learns to read it backwards. Letters stay, so that adapters of the layers can do it.
"""

from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor, nn

from mathlib.memory import adapters
from mathlib.model import data, llama, lora
from mathlib.trials.after import SHAPE, trained

LETTERS = data.vocabulary()
READER = SHAPE.but(vocab=len(LETTERS), layers=2, context=32)
FIRST, STEPS, SEQUENCES = 120, 30, 16  # steps of pretraining and of fine-tuning
RATES = [0.001 * 2**i for i in range(6)]
SEEDS = (1, 2, 3)  # of the batches, and of adapters; 0 is pretraining's


def _backwards(tokens: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Of windows that overlap but for one token: the same from the last to the first."""
    return targets.flip(1), tokens.flip(1)


def _course(net: nn.Module, rate: float, steps: int, seed: int = 0) -> float:
    """The mean loss of the last five steps; on the text backwards but for pretraining."""
    optimizer, losses = torch.optim.AdamW(trained(net), lr=rate), []
    for number in range(steps):
        batch = data.batch(SEQUENCES, READER.context, number, seed)
        loss = net.loss(*(_backwards(*batch) if seed else batch))  # type: ignore[operator]
        losses.append(loss.item())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return sum(losses[-5:]) / 5


@cache
def _pretrained() -> dict[str, Tensor]:
    net = llama.Llama(READER)
    _course(net, 3e-3, FIRST)
    return net.state_dict()


def _net(rank: int, seed: int) -> nn.Module:
    net: nn.Module = llama.Llama(READER)
    net.load_state_dict(_pretrained())
    if not rank:
        return net
    torch.manual_seed(seed)
    return lora.adapt(net, rank=rank, targets=adapters.TARGETS)


def sweep(
    rank: int = 0, rates: Sequence[float] = RATES, seeds: Sequence[int] = SEEDS
) -> dict[float, float]:
    """The loss at the end by learning rate, the mean over seeds; rank 0 is full fine-tuning."""
    return {
        rate: sum(_course(_net(rank, seed), rate, STEPS, seed) for seed in seeds) / len(seeds)
        for rate in rates
    }


def near(line: dict[float, float], share: float = 0.02) -> tuple[float, float]:
    """The smallest and the largest rate whose loss is within a share of the least."""
    good = [rate for rate, loss in line.items() if loss < (1 + share) * min(line.values())]
    return min(good), max(good)
