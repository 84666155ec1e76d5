"""Speculative decoding: a small model drafts some tokens, the large one checks them in one pass.

Shapes: V vocab; p the large model's probabilities, q the small one's.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from mathlib.model.decoding import Decoder, Transformer

Probabilities = Callable[[Tensor], Tensor]


class Written(NamedTuple):
    tokens: Tensor  # 1 C, the prompt and what follows it
    passes: int  # of the large model, the first with the prompt
    accepted: list[int]  # of the drafted tokens, in each pass


def certain(logits: Tensor) -> Tensor:
    """All probability on the likeliest token: greedy decoding as a distribution."""
    return torch.zeros_like(logits).scatter(-1, logits.argmax(-1, keepdim=True), 1.0)


def keeps(p: Tensor, q: Tensor, token: int) -> float:
    """How likely a drafted token stays: min(1, p/q) (Leviathan et al. 2023, 2.3)."""
    return min(1.0, float(p[token] / q[token]))


def instead(p: Tensor, q: Tensor) -> Tensor:
    """What a refused token is replaced from: what the large model wants more."""
    more = (p - q).clamp(min=0)
    return more / more.sum()


def judge(
    p: Tensor, q: Tensor, drafted: list[int], random: torch.Generator
) -> list[int]:  # p has a row more than q
    """Drafted tokens up to the first refused one, and one of the large model's own."""
    for number, token in enumerate(drafted):
        if torch.rand((), generator=random) >= keeps(p[number], q[number], token):
            return [*drafted[:number], draw(instead(p[number], q[number]), random)]
    return [*drafted, draw(p[-1], random)]


def draw(p: Tensor, random: torch.Generator) -> int:
    return int(torch.multinomial(p, 1, generator=random))


def speculate(
    target: Transformer,
    draft: Transformer,
    prompt: Tensor,  # 1 S
    tokens: int,
    ahead: int,
    probabilities: Probabilities = certain,
    seed: int = 0,
) -> Written:
    """At least `tokens` more, `ahead` of them drafted for each pass of the large model."""
    large, small = Decoder(target), Decoder(draft)
    random = torch.Generator().manual_seed(seed)
    written, accepted = prompt, list[int]()
    while written.shape[1] < prompt.shape[1] + tokens:
        guess, q = written, []
        for _ in range(ahead):
            q.append(probabilities(small(guess[:, small.past :])[0, -1]))
            guess = torch.cat([guess, torch.tensor([[draw(q[-1], random)]])], 1)
        p = probabilities(large(guess[:, large.past :])[0, -ahead - 1 :])
        new = judge(p, torch.stack(q), guess[0, written.shape[1] :].tolist(), random)
        written = torch.cat([written, torch.tensor([new])], 1)
        accepted.append(len(new) - 1)
        for one in (large, small):  # forget what was drafted in vain
            one.rewind(min(one.past, written.shape[1] - 1))
    return Written(written[:, : prompt.shape[1] + tokens], len(accepted), accepted)
