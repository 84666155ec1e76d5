"""A tiny corpus and a tokeniser of characters: what every run of the book trains on.

Thirteen of William Shakespeare's sonnets (18, 29, 30, 55, 60, 65, 71, 73, 97, 104, 106, 116, 130),
first printed in 1609 and in the public domain.  V vocabulary: the characters that occur.
"""

from functools import cache
from importlib.resources import files

import torch
from torch import Tensor


@cache
def text() -> str:
    return (files("mathlib.model") / "sonnets.txt").read_text("utf-8")


@cache
def vocabulary() -> str:
    """Every character of the corpus, sorted; a token is a place in this string."""
    return "".join(sorted(set(text())))


def encode(words: str) -> Tensor:
    table = {char: token for token, char in enumerate(vocabulary())}
    return torch.tensor([table[char] for char in words])


@cache
def corpus() -> Tensor:
    """The whole text as tokens; only to be read, for all batches are cut from it."""
    return encode(text())


def decode(tokens: Tensor) -> str:
    return "".join(vocabulary()[token] for token in tokens.tolist())


def batch(sequences: int, context: int, step: int = 0, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Inputs and targets [sequences, context]: windows of the corpus, the same on every machine for
    a step and seed.
    """
    tokens = corpus()
    pick = torch.Generator().manual_seed(1_000_003 * seed + step)
    starts = torch.randint(0, len(tokens) - context, (sequences,), generator=pick)
    window = tokens[starts[:, None] + torch.arange(context + 1)]
    return window[:, :-1].clone(), window[:, 1:].clone()
