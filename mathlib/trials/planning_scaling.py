"""What a month of 64 A100s trains, and what another ratio of tokens to parameters wastes of it.

C FLOP of a budget · P parameters · ratio: tokens for each parameter
"""

from mathlib import specs
from mathlib.compute import cost, scaling
from mathlib.show import says

DAY, HOUR = 86_400.0, 3600.0
GPU = specs.find_device("a100-80gb")
BUDGET = cost.flop_done(devices=64, seconds=30 * DAY, peak=GPU.half, utilization=0.5)
FITS = (
    "hoffmann-1",
    "hoffmann-2",
    "besiroglu",
    "muennighoff",
    "hoffmann-3",
    "hoffmann-3-digits",
    "kaplan",
)
DIGITS = ("hoffmann-3", "hoffmann-3-digits")  # a fit as printed, and as its source text has it
LLAMA = 16.55e12 / 402e9  # tokens for each parameter that Llama 3's authors found: arXiv:2407.21783
COMPUTE = (1e20, 5.76e23, 3.8e25)  # FLOP of a small experiment, of Chinchilla, of Llama 3


def loss_at(ratio: float) -> float:
    """With all of the budget."""
    P = (BUDGET / (6 * ratio)) ** 0.5
    return scaling.loss(parameters=P, tokens=ratio * P).total


def wasted(ratio: float) -> float:
    """The share of the budget that the best model with the same loss would not have needed."""
    least = scaling.serving(target_loss=loss_at(ratio), inference_tokens=0)
    return 1 - least.flop / BUDGET


def valley() -> list[tuple[float, float]]:
    """Tokens for each parameter, and the percent of the budget that they waste."""
    return [(r, 100 * wasted(r)) for r in (2.5 * 2 ** (i / 2) for i in range(15))]


def served(tokens: float) -> tuple[scaling.Size, float]:
    """The cheapest model with the best one's loss that serves so many tokens, and the share of the
    FLOP of its life that it saves.
    """
    best = scaling.optimal(flop=BUDGET)
    target = scaling.loss(parameters=best.parameters, tokens=best.tokens).total
    small = scaling.serving(target_loss=target, inference_tokens=tokens)
    life = [
        scaling.lifetime(parameters=x.parameters, tokens=x.tokens, inference_tokens=tokens).total
        for x in (small, best)
    ]
    return small, 1 - life[0] / life[1]


def lives() -> list[list[str]]:
    """Rows of a table: the same loss for a model that serves so many tokens."""
    rows = []
    for tokens in (0.0, 1e11, 1e12, 1e13):
        one, saved = served(tokens)
        sizes = [says.count(x) for x in (one.parameters, one.tokens)]
        name, told = (says.count(tokens), f"{saved:.0%}") if tokens else ("none", "none")
        rows.append([name, *sizes, f"{one.tokens_per_parameter:.0f}", told])
    return rows


def ratios() -> dict[str, list[float]]:
    """Tokens for each parameter that every fit asks for, at three budgets."""
    return {
        fit: [scaling.optimal(flop=C, fit=fit).tokens_per_parameter for C in COMPUTE]
        for fit in FITS
    }
