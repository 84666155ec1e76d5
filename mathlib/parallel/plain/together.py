"""All together: one training step by pipeline, data and tensor parallelism.

p   stages      d   replicas of each      t   tensor ranks, next to each other
m   micro_batches of a replica            b s h   numbers that go from stage to stage

rank = tensor + t (replica + d stage)

           a rank has of it           exchanged
pipeline   1/p of the layers          b s h a micro-batch, forward and backward
tensor     1/t of each matrix         4 all-reduces of b s h a layer, 2 for the words
data       1/d of the sequences,      gradients are reduce-scattered, weights gathered,
           and of Adam's states       once a step (ZeRO 1)

Three kinds of parameters: matrices that are cut over the tensor ranks; what is alike on
all of them; and the tied table of words, cut, and on the first and the last stage both.
They matter where gradients are added up, and where their norm counts each number once.

    torchrun --nproc-per-node 8 -m mathlib.parallel.plain.together
"""

import math
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import ProcessGroup

from mathlib.parallel.plain import vocabulary
from mathlib.parallel.plain.zero import Flat
from mathlib.schedule import flush


def along(grid: Tensor, axis: int) -> ProcessGroup:
    """The group of this rank with those that differ from it along one axis alone."""
    rows = grid.movedim(axis, -1).flatten(0, 1).tolist()
    return dist.new_subgroups_by_enumeration(rows)[0]


class Together:
    """A GPT with a tied table that all ranks make alike; each keeps its part of it."""

    def __init__(
        self,
        model,
        make,
        pipeline: int = 2,
        data: int = 2,
        tensor: int = 2,
        micro_batches: int = 2,
        clip: float = math.inf,
    ):
        grid = torch.arange(pipeline * data * tensor).view(pipeline, data, tensor)
        where = (grid == dist.get_rank()).nonzero()[0].tolist()
        (self.stage, self.replica, _), self.grid = where, grid
        self.first, self.last = self.stage == 0, self.stage == pipeline - 1
        self.line, self.data, self.tensor = (along(grid, axis) for axis in range(3))
        self.ends = along(grid[[0, -1]], 0) if pipeline > 1 else None
        self.m, order = micro_batches, flush.one_forward_one_backward
        schedule = order(stages=pipeline, micro_batches=self.m)
        self.actions = schedule.actions[self.stage]
        self.build(model, make)
        self.clip, self.width = clip, model.norm.weight.numel()

    def build(self, model, make) -> None:
        """This rank's part of every matrix of its stage; an optimizer of its shards."""
        sizes = {name: p.shape for name, p in model.named_parameters()}
        self.model: Any = vocabulary.cut(model, self.tensor)
        self.tokens = model.tokens  # the words of this rank
        each = len(model.blocks) // len(self.grid)
        self.layers = model.blocks[self.stage * each : (self.stage + 1) * each]
        used = [*self.layers, *[model.norm] * self.last]
        mine = {p for module in used for p in module.parameters()}
        mine |= {model.positions.weight} if self.first else set()
        named = [(n, p) for n, p in model.named_parameters() if p in mine]
        kinds = {
            "cut": [p for n, p in named if p.shape != sizes[n]],
            "alike": [p for n, p in named if p.shape == sizes[n]],
        }
        if self.first or self.last:
            kinds["table"] = [model.tokens.weight]
        self.flats = {kind: Flat(some, self.data) for kind, some in kinds.items()}
        self.optimizer = make([flat.shard for flat in self.flats.values()])

    def step(self, tokens: Tensor, targets: Tensor) -> float:
        """Train on a batch that all ranks have; its mean loss."""
        d = self.grid.shape[1]
        self.share = d / (targets >= 0).sum().item()  # of a token, in a mean over d
        mine = (x.tensor_split(d)[self.replica] for x in (tokens, targets))
        self.batch = list(zip(*(x.tensor_split(self.m) for x in mine), strict=True))
        loss = self.forward_and_backward()
        for flat in self.flats.values():
            flat.scatter()  # the mean over replicas, each rank its shard
        self.add_up_table()
        self.bound_norm()
        self.optimizer.step()
        self.optimizer.zero_grad()
        for flat in self.flats.values():
            flat.gather()
        dist.all_reduce(loss)  # only the last stage has one
        return loss.item() / self.grid[0].numel()

    def forward_and_backward(self) -> Tensor:
        """1F1B: what this stage does, micro-batch by micro-batch."""
        loss = torch.zeros((), dtype=torch.float64)
        in_flight: dict[int, tuple[Tensor, Tensor]] = {}
        self.sent: list[tuple[dist.Work, Tensor]] = []
        for kind, i, _ in self.actions:
            tokens, targets = self.batch[i]
            if kind == "F":
                x = tokens if self.first else self.receive(tokens, -1).requires_grad_()
                y = self.loss(x, targets) if self.last else self(x)
                in_flight[i] = x, y
                if self.last:
                    loss += y.item()
                else:
                    self.send(y.detach(), +1)
            else:
                x, y = in_flight.pop(i)
                y.backward(None if self.last else self.receive(tokens, +1))
                if not self.first:
                    self.send(x.grad, -1)
        for message, _ in self.sent:
            message.wait()
        return loss

    def __call__(self, x: Tensor) -> Tensor:  # b s or b s h -> b s h or b s V/t
        model = self.model
        if self.first:
            x = model.tokens(x) + model.positions.weight[: x.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return model.head(model.norm(x)) if self.last else x

    def loss(self, x: Tensor, targets: Tensor) -> Tensor:
        mean = vocabulary.loss(self, x, targets)  # over this micro-batch's tokens
        return mean * (targets >= 0).sum() * self.share

    def send(self, x: Tensor, step: int) -> None:
        work = dist.isend(x, group=self.line, group_dst=self.stage + step)
        self.sent.append((work, x))  # and go on

    def receive(self, tokens: Tensor, step: int) -> Tensor:
        x = self.tokens.weight.new_empty(*tokens.shape, self.width)
        dist.recv(x, group=self.line, group_src=self.stage + step)
        return x

    def add_up_table(self) -> None:
        """The first stage has the gradient of its look-ups, the last of its scores."""
        if self.ends and "table" in self.flats:
            dist.all_reduce(self.flats["table"].shard.grad, group=self.ends)

    def bound_norm(self) -> None:
        """Each number counts once, however many ranks have it."""
        copies = {"cut": 1, "alike": self.grid.shape[2], "table": 2 if self.ends else 1}
        square = torch.zeros((), dtype=torch.float64)
        for kind, flat in self.flats.items():
            square += flat.shard.grad.double().square().sum() / copies[kind]
        dist.all_reduce(square)
        for flat in self.flats.values():
            flat.shard.grad *= min(1.0, self.clip / (square.sqrt().item() + 1e-6))


if __name__ == "__main__":
    from mathlib.parallel.plain import script

    script.together("2 stages x 2 replicas x 2 tensor ranks", Together)
