"""What experts leave for backward, and optimizer states beside ZeRO: measured beside the formulas.

P of the ranks have all experts of a layer together.
"""

from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch import Tensor

from mathlib import launch
from mathlib.compute import params
from mathlib.memory import activations, states
from mathlib.meters import live
from mathlib.model import modern, oracle
from mathlib.parallel.experts.expert_parallel import ExpertParallel
from mathlib.parallel.plain import experts as plain
from mathlib.trials import experts


def formula(routed: int = 8, active: int = 2) -> float:
    """Bytes that a layer's experts leave for backward, but its input."""
    how: dict[str, Any] = {"micro_batch": experts.SEQUENCES, "bytes_per_element": experts.NUMBER}
    found = activations.layer(experts.shape(routed, active), **how)["mlp"]
    return found.total - found.amount("input")  # type: ignore[union-attr, operator]


def indices(routed: int = 8, active: int = 2) -> float:
    """Bytes of what says which visit is where: five numbers of 8 bytes, its weight; the visits."""
    visits = experts.SEQUENCES * experts.TOKENS * active
    return (5 * 8 + experts.NUMBER) * visits + experts.NUMBER * routed + experts.NUMBER


def row_bytes() -> int:
    """What one visit more at an expert leaves: its copy, four numbers of each inside; its place."""
    assert experts.SHAPE.experts
    return experts.NUMBER * (experts.SHAPE.width + 4 * experts.SHAPE.experts.width) + 2 * 8


def _kept(P: int, balanced: bool) -> tuple[int, int]:
    """Bytes that this rank's experts leave, and rows that came to it."""
    way = plain.ExpertParallel(modern.Modern(experts.SHAPE), oracle.OPTIMIZERS["SGD"], P)
    torch.manual_seed(dist.get_rank())
    size = (experts.SEQUENCES, experts.TOKENS, experts.SHAPE.width)
    layer, x = way.layers[0], torch.randn(size, requires_grad=True)
    if balanced:
        experts.evened([layer])
    came, real = [0], plain.all_to_all

    def told(x: Tensor, give: list[int], take: list[int], group: Any) -> Tensor:
        came.append(sum(take))
        return real(x, give, take, group)

    with patch.object(plain, "all_to_all", told):
        held = live.held_bytes(lambda: layer(x).sum(), layer, x)
    return held, came[1]


def kept(ranks: int, balanced: bool = True) -> list[tuple[int, int]]:
    """Of each rank: bytes that a layer's experts leave for backward, rows that came."""
    return launch.run(_kept, ranks, ranks, balanced)


def _states(P: int) -> int:
    way = ExpertParallel(modern.Modern(experts.SHAPE), expert=P)
    made = way.sharded(lambda groups: torch.optim.Adam(groups, lr=0.01))
    way.loss(*oracle.my_part(experts.batch())).backward()
    for one in made:
        one.step()
    held = (s for one in made for s in one.optimizer.state.values())  # type: ignore[attr-defined]
    return sum(x.nbytes for state in held for x in state.values() if x.dim())


def optimizer_states(ranks: int, P: int) -> tuple[float, float]:
    """Bytes of Adam's moments on a rank: 8 for each parameter that it updates; measured."""
    own = states.layer_parameters(experts.SHAPE, 1, list(range(experts.SHAPE.layers)), P)["experts"]
    dense = params.total(experts.SHAPE) - params.count(experts.SHAPE).amount("experts")
    formula = 8 * (dense / ranks + own / (ranks / P))
    return formula, max(launch.run(_states, ranks, P))
