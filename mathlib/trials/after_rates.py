"""The best learning rate of full fine-tuning and of adapters, in a small run: a Llama that has
learned a text learns the same text with its letters exchanged.
"""

from functools import cache

import torch
from torch import Tensor, nn

from mathlib.memory import adapters
from mathlib.model import data, llama, lora
from mathlib.trials.after import SHAPE, trained

LETTERS = data.vocabulary()
READER = SHAPE.but(vocab=len(LETTERS), layers=2, context=32)
FIRST, STEPS, SEQUENCES = 120, 30, 16  # steps of pretraining and of fine-tuning
RATES = [10 ** (-4 + i / 2) for i in range(6)]


def _exchanged(tokens: Tensor) -> Tensor:
    """Another alphabet: every letter means another one."""
    order = torch.randperm(READER.vocab, generator=torch.Generator().manual_seed(1))
    return order[tokens]


def _course(net: nn.Module, rate: float, steps: int, other: bool) -> float:
    """The mean loss of the last five steps."""
    optimizer, losses = torch.optim.AdamW(trained(net), lr=rate), []
    for number in range(steps):
        batch = data.batch(SEQUENCES, READER.context, number)
        loss = net.loss(*map(_exchanged, batch) if other else batch)  # type: ignore[operator]
        losses.append(loss.item())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return sum(losses[-5:]) / 5


@cache
def _pretrained() -> dict[str, Tensor]:
    net = llama.Llama(READER)
    _course(net, 3e-3, FIRST, other=False)
    return net.state_dict()


def _net(rank: int) -> nn.Module:
    net: nn.Module = llama.Llama(READER)
    net.load_state_dict(_pretrained())
    if not rank:
        return net
    torch.manual_seed(0)
    return lora.adapt(net, rank=rank, targets=adapters.TARGETS)


def sweep(rank: int = 0) -> dict[float, float]:
    """The loss at the end by learning rate; rank 0 is full fine-tuning."""
    return {rate: _course(_net(rank), rate, STEPS, other=True) for rate in RATES}
