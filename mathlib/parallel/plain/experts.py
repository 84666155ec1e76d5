"""Expert parallelism: ranks have their own part of the batch, and share the experts.

N   ranks      P   of them, neighbours, that have all E experts together, E/P each
T   tokens of a rank      k   experts that a token visits      h   its width

gradient of           is a sum over all of   and is divided by
what all ranks have   N ranks                N
an expert             N/P that have it       N: the loss is a mean over N ranks

Rows go to their experts' ranks and come back: with even loads 4 e h k T (P-1)/P sent in
a layer's step (Lepikhin et al. 2020). The auxiliary loss E sum f p, of shares f of all
visits and mean probabilities p, is 1 when they are alike (Fedus et al. 2021).

    torchrun --nproc-per-node 4 -m mathlib.parallel.plain.experts
"""

import torch
import torch.distributed as dist
from torch import Tensor, nn

from mathlib.model import modern, oracle
from mathlib.parallel.plain import ring


def all_to_all(x: Tensor, give: list[int], take: list[int], group) -> Tensor:
    """So many rows to each rank, and so many from each."""
    y = x.new_empty(sum(take), *x.shape[1:])
    dist.all_to_all_single(y, x.contiguous(), take, give, group)
    return y


class AllToAll(torch.autograd.Function):
    """All-to-all forward, and backward the gradients' way back."""

    @staticmethod
    def forward(ctx, x, give, take, group):
        ctx.back = take, give, group
        return all_to_all(x, give, take, group)

    @staticmethod
    def backward(ctx, gradient):
        return all_to_all(gradient, *ctx.back), None, None, None


class Experts(nn.Module):
    """A layer's router, which all ranks have, and the experts of this one."""

    def __init__(self, whole: modern.Experts, group):
        super().__init__()
        (r, P), E = ring.place(group), len(whole.experts)
        self.active, self.group, self.shape = whole.active, group, (P, E // P)
        self.router, self.shared = whole.router, whole.shared
        self.experts = whole.experts[r * E // P : (r + 1) * E // P]

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.flatten(0, -2)  # T h
        shares = self.router(tokens).softmax(-1)  # T E
        weights, chosen = shares.topk(self.active)  # T k
        visits = chosen.flatten().bincount(minlength=shares.shape[1])
        self.balance = balance(shares, visits)
        order = chosen.flatten().argsort(stable=True)  # of T k visits, by expert
        token = order // self.active
        back = self.visited(tokens[token], visits) * weights.flatten()[order][:, None]
        base = self.shared(tokens) if self.shared else torch.zeros_like(tokens)
        to = token[:, None].expand_as(back)  # index_add would keep `back` a second time
        return base.scatter_add(0, to, back).view_as(x)

    def visited(self, rows: Tensor, visits: Tensor) -> Tensor:
        """What is made of rows that are sorted by expert."""
        (P, each), arriving = self.shape, torch.empty_like(visits)
        dist.all_to_all_single(arriving, visits, group=self.group)
        give, take = (v.view(P, each).sum(1).tolist() for v in (visits, arriving))
        came = AllToAll.apply(rows, give, take, self.group)  # by rank, then by expert
        who = torch.arange(each).repeat(P).repeat_interleave(arriving)
        order = who.argsort(stable=True)
        parts = came[order].split(arriving.view(P, each).sum(0).tolist())
        made = torch.cat([f(x) for f, x in zip(self.experts, parts, strict=True)])
        return AllToAll.apply(made[order.argsort()], take, give, self.group)


def balance(shares: Tensor, visits: Tensor) -> Tensor:
    """E sum f p, whose mean over the ranks is that of the whole batch."""
    everywhere = visits.to(shares.dtype)
    dist.all_reduce(everywhere)
    return len(visits) * (everywhere / everywhere.sum()) @ shares.mean(0)


class ExpertParallel:
    """Changes a decoder with experts in place; all ranks have as many tokens."""

    def __init__(self, model, make, ranks: int, weight: float = 0.01):
        self.model, self.weight, N = model, weight, dist.get_world_size()
        for p in model.parameters():  # everybody starts from the first rank's weights
            dist.broadcast(p.data, 0)
        neighbours, _ = dist.new_subgroups(ranks)
        copies = [list(range(first, N, ranks)) for first in range(ranks)]
        self.copies, _ = dist.new_subgroups_by_enumeration(copies)
        for block in model.blocks:
            block.mlp = Experts(block.mlp, neighbours)
        self.layers = [block.mlp for block in model.blocks]
        self.own = {p for layer in self.layers for p in layer.experts.parameters()}
        self.optimizer = make(model.parameters())

    def loss(self, tokens: Tensor, targets: Tensor) -> Tensor:
        found = oracle.loss(self.model, tokens, targets)
        return found + self.weight * sum(layer.balance for layer in self.layers)

    def step(self) -> None:
        for p in self.model.parameters():
            dist.all_reduce(p.grad, group=self.copies if p in self.own else None)
            p.grad /= dist.get_world_size()
        self.optimizer.step()
        self.optimizer.zero_grad()


if __name__ == "__main__":
    from mathlib.parallel.plain import script

    for ranks in (1, 2, 4):
        script.experts(f"experts over {ranks}", ExpertParallel, ranks=ranks)
