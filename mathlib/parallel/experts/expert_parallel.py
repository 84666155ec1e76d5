"""A Modern with experts, trained by ranks that each have their own part of the batch.

N ranks: c copies, each over e ranks with different experts, each over t with parts of these

A loss is N times this rank's part of the whole batch's mean, so that a gradient is a sum over the
ranks that have the parameter, divided by N: all N of what is dense, c of an expert, in whose
gradient backward's all-to-all has added up what e t ranks say.  Divided by c instead, experts learn
e t times as fast as they should; Adam hides it.
"""

import math
from collections.abc import Iterable
from contextlib import nullcontext
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from mathlib.checks import InputError, divides, instance, non_negative, quotient
from mathlib.model import modern
from mathlib.parallel.collectives import process_group_of
from mathlib.parallel.experts import router
from mathlib.parallel.experts.expert_layer import ExpertLayer, Groups, Watch
from mathlib.parallel.zero.sharded_optimizer import MakeOptimizer
from mathlib.parallel.zero.stage1 import Zero1

SOFTMAX = router.Routing()


def groups(expert: int, tensor: int = 1) -> Groups:
    """Process groups of all ranks: parts of the same experts on neighbours, then other experts,
    then copies.
    """
    N = dist.get_world_size()
    copies = quotient("ranks", N, {"expert": expert, "expert_tensor": tensor})
    grid = torch.arange(N).view(copies, expert, tensor)
    return Groups(
        process_group_of(grid.transpose(1, 2).reshape(-1, expert).tolist()),
        process_group_of(grid.view(-1, tensor).tolist()),
        process_group_of(grid.view(copies, -1).tolist()),
        process_group_of(grid.view(copies, -1).t().tolist()),
    )


class ExpertParallel:
    """Changes a Modern in place: `loss`, backward as often as you like, `average`, then let an
    optimizer step; or `sharded`, whose `step` averages as well.

    `capacity` 0: every visit is made; else an expert has room for so many times what each rank
    would send it by equal loads (each group of `expert_tensor` ranks, if these are more than one),
    and the rest is dropped.
    """

    def __init__(
        self,
        model: modern.Modern,
        *,
        expert: int,
        expert_tensor: int = 1,
        capacity: float = 0.0,
        routing: router.Routing = SOFTMAX,
        watch: Watch = nullcontext,
    ):
        check(model, expert, expert_tensor)
        instance("routing", routing, router.Routing)
        factor = non_negative("capacity", capacity)
        self.model, self.routing, self.ranks = model, routing, dist.get_world_size()
        self.groups = groups(expert, expert_tensor)
        for p in model.parameters():  # everybody starts from the first rank's weights
            dist.broadcast(p.data, 0)
        self.layers: list[ExpertLayer] = []
        for block in model.blocks:
            if isinstance(block.mlp, modern.Experts):
                block.mlp = ExpertLayer(block.mlp, self.groups, routing, factor, watch)
                self.layers.append(block.mlp)
        self.visits = torch.zeros(len(self.layers), self.layers[0].total)

    def names(self, own: bool) -> dict[str, nn.Parameter]:
        """Parameters of this rank's experts, or all the others."""
        named = self.model.named_parameters()
        return {n: p for n, p in named if (".experts." in n) == own and p.requires_grad}

    def loss(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """Its mean over ranks is the loss of the whole batch, however tokens are spread."""
        self._refuse_unequal(tokens.numel())
        logits = self.model(tokens).flatten(0, 1)
        total = F.cross_entropy(logits, targets.flatten(), reduction="sum")
        counts = torch.stack([torch.tensor(tokens.numel()), (targets >= 0).sum()])
        mine = torch.cat([*(layer.visits() for layer in self.layers), counts]).to(logits.dtype)
        dist.all_reduce(mine)
        self.visits = mine[:-2].view(len(self.layers), -1)
        found = total / mine[-1]
        if self.routing.balance:
            found = found + self.routing.balance * self._auxiliary(mine[-2])
        return self.ranks * found

    def _refuse_unequal(self, tokens: int) -> None:
        """Ranks that gather their tokens must have as many."""
        if dist.get_world_size(self.groups.tensor) > 1:
            told = torch.tensor([tokens, -tokens])
            dist.all_reduce(told, dist.ReduceOp.MAX, group=self.groups.tensor)
            most, least = int(told[0]), -int(told[1])
            if most > least:
                raise InputError(
                    f"tokens: {least} on some and {most} on others of the ranks that have parts of "
                    "the same experts; expected as many on all of them"
                )

    def _auxiliary(self, tokens: Tensor) -> Tensor:
        found = [
            router.auxiliary(layer.choice.shares, visits, tokens)
            for layer, visits in zip(self.layers, self.visits, strict=True)
        ]
        return torch.stack(found).sum()

    @torch.no_grad()
    def average(self) -> None:
        """Gradients become those of the whole batch."""
        for own, group in ((False, None), (True, self.groups.copies)):
            for p in self.names(own).values():
                if p.grad is not None:
                    dist.all_reduce(p.grad, group=group)
                    p.grad /= self.ranks

    @torch.no_grad()
    def clip(self, most: float) -> Tensor:
        """Bound the norm of the whole gradient, after `average`; what it was.

        Each rank has other experts, and all have the same of the rest, which counts once.
        """
        dense, own = (self._squares(self.names(own).values()) for own in (False, True))
        dist.all_reduce(own, group=self.groups.sharing)
        norm = (dense + own).sqrt()
        factor = (most / (norm + 1e-6)).clamp(max=1.0)
        for p in self.model.parameters():
            if p.grad is not None:
                p.grad *= factor
        return norm

    def _squares(self, parameters: Iterable[nn.Parameter]) -> Tensor:
        found = [p.grad.square().sum() for p in parameters if p.grad is not None]
        return torch.stack(found).sum()

    @torch.no_grad()
    def move_bias(self) -> None:
        """Once a step: the bias of each expert goes against its load in the last `loss`."""
        if self.routing.bias_rate:
            for layer, visits in zip(self.layers, self.visits, strict=True):
                layer.bias.copy_(router.moved(layer.bias, visits, self.routing.bias_rate))

    def sharded(self, make: MakeOptimizer, **options: Any) -> list[Zero1]:
        """ZeRO 1 in place of `average` and an optimizer: states of what is dense sharded over all
        ranks, an expert's over the ranks that have the same.
        """
        if not math.isinf(options.get("clip", math.inf)):
            raise InputError(
                f"clip = {options['clip']}: expected none, as two norms would be clipped, that of "
                "the experts and that of the rest"
            )
        share = dist.get_world_size(self.groups.sharing)
        for p in self.names(own=True).values():  # the mean over copies is then a sum over N
            p.register_hook(lambda gradient: gradient / share)
        dense, own = (Held(self.names(own)) for own in (False, True))
        return [Zero1(dense, make, **options), Zero1(own, make, self.groups.copies, **options)]

    @torch.no_grad()
    def whole_weights(self) -> dict[str, Tensor]:
        """All parameters, by the names they have in the whole model; every rank must call this."""
        found = {n: p.detach().clone() for n, p in self.names(own=False).items()}
        for i, block in enumerate(self.model.blocks):
            if isinstance(block.mlp, ExpertLayer):
                own = {f"blocks.{i}.mlp.experts.{n}": w for n, w in self._experts(block.mlp)}
                found |= own
        return found

    def _experts(self, layer: ExpertLayer) -> Iterable[tuple[str, Tensor]]:
        many = len(layer.experts)
        for name, p in layer.experts.named_parameters():
            number, _, rest = name.partition(".")
            whole = _joined(p, self.groups.tensor, 1 if rest.startswith("down") else 0)
            for rank, weight in enumerate(_all(whole, self.groups.expert)):
                yield f"{rank * many + int(number)}.{rest}", weight


class Held(nn.Module):
    """Parameters of a model as a module of their own."""

    def __init__(self, named: dict[str, nn.Parameter]):
        super().__init__()
        for name, p in named.items():
            self.register_parameter(name.replace(".", " "), p)


def _all(x: Tensor, group: Any) -> list[Tensor]:
    every = [torch.empty_like(x) for _ in range(dist.get_world_size(group))]
    dist.all_gather(every, x.detach().contiguous(), group=group)
    return every


def _joined(x: Tensor, group: Any, dim: int) -> Tensor:
    return torch.cat(_all(x.detach().contiguous(), group), dim)


def check(model: Any, expert: int, expert_tensor: int) -> None:
    """Refuse what cannot be shared so."""
    if not isinstance(model, modern.Modern):
        raise InputError(f"model of type {type(model).__name__}: expected a Modern with experts")
    one = model.model.experts
    if not one or not model.model.expert_layers:
        raise InputError(f"model = {model.model.name!r}: expected one with experts")
    divides("expert", expert, "experts.routed", one.routed)
    divides("expert_tensor", expert_tensor, "experts.width", one.width)
