"""Which experts a token visits, and two ways to keep their loads alike.

A token visits k of E experts; c_i is how often expert i is visited, f_i that over all visits, p_i
its mean share of the scores

auxiliary loss   E sum f_i p_i, which is 1 where loads are alike (Fedus et al. 2021, equation 4)
bias             b_i grows by u where c_i is below the mean and falls where it is above; it chooses
                 experts and does not weigh what they say (Wang et al. 2024, arXiv:2408.15664)
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from mathlib.checks import flag, non_negative, one_of

SCORES = {"softmax": lambda logits: logits.softmax(-1), "sigmoid": torch.sigmoid}


@dataclass(frozen=True)
class Routing:
    """How tokens choose: softmax as Mixtral and Switch, sigmoid with a bias as DeepSeek-V3."""

    score: str = "softmax"  # one of SCORES
    normalised: bool = False  # the weights of a token's experts sum to 1
    balance: float = 0.01  # weight of the auxiliary loss; 0: none
    bias_rate: float = 0.0  # u, of a step; 0: no bias

    def __post_init__(self) -> None:
        one_of("score", self.score, SCORES)
        flag("normalised", self.normalised)
        non_negative("balance", self.balance)
        non_negative("bias_rate", self.bias_rate)


class Choice(NamedTuple):
    """Of every token: its experts, what their results are weighed with, all experts' shares."""

    weights: Tensor  # ... k
    chosen: Tensor  # ... k
    shares: Tensor  # ... E, which sum to 1


def choose(logits: Tensor, bias: Tensor, active: int, how: Routing) -> Choice:
    """The experts with the highest scores, a bias added for the choice alone."""
    scores = SCORES[how.score](logits)
    chosen = (scores.detach() + bias).topk(active).indices
    weights = scores.gather(-1, chosen)
    if how.normalised:
        weights = weights / weights.sum(-1, keepdim=True)
    return Choice(weights, chosen, scores / scores.sum(-1, keepdim=True))


def auxiliary(shares: Tensor, visits: Tensor, tokens: Tensor) -> Tensor:
    """E sum f p of one layer: of these tokens' shares, T E, with the visits and the number of all
    tokens; the sum over ranks is that of the whole batch.

    Chapter: experts (eq-auxiliary)
    """
    frequencies = visits / visits.sum()
    return len(visits) * (frequencies @ shares.flatten(0, -2).sum(0)) / tokens


def moved(bias: Tensor, visits: Tensor, rate: float) -> Tensor:
    """The bias after a step in which experts had so many visits.

    Chapter: experts (eq-bias)
    """
    return bias + rate * (visits.mean(-1, keepdim=True) - visits).sign()
