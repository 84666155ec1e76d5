"""ZeRO 1, 2 and 3: every rank trains the whole model, and keeps 1/N of its states.

N   ranks, each with its part of the batch
K   bytes of the flat parameters: some parameters end to end, padded, in N shards

stage   gradients leave       weights are whole            sent in a step
1       at the step           always                       2 K (N-1)/N, as in DDP
2       in every backward     always                       2 K (N-1)/N
3       in every backward     while their layer computes   3 K (N-1)/N

An all-reduce is a reduce-scatter and an all-gather: ZeRO puts the optimizer in between,
so that rank r updates shard r alone (Rajbhandari et al. 2020).  Every parameter takes
part in the loss.

    torchrun --nproc-per-node 4 -m mathlib.parallel.plain.zero
"""

from collections.abc import Callable, Iterable

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed import ProcessGroup
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from mathlib.parallel.plain import ring


class Flat:
    """Parameters that travel together; this rank's optimizer sees `shard` alone."""

    def __init__(self, parameters: Iterable[nn.Parameter], group: ProcessGroup | None):
        self.parameters, self.group = list(parameters), group
        self.rank, self.ranks = ring.place(group)
        self.whole = self.packed(self.parameters)
        dist.broadcast(self.whole, group=group, group_src=0)
        vector_to_parameters(self.whole, self.parameters)  # they are views of it now
        self.shard = nn.Parameter(self.mine(self.whole).clone())

    def packed(self, tensors: Iterable[Tensor]) -> Tensor:
        flat = parameters_to_vector(tensors).detach()
        return F.pad(flat, (0, -len(flat) % self.ranks))

    def mine(self, flat: Tensor) -> Tensor:
        return flat.chunk(self.ranks)[self.rank]

    def gather(self) -> None:  # the weights, from everybody's shard
        self.whole.untyped_storage().resize_(self.whole.nbytes)
        self.mine(self.whole).copy_(self.shard.data)
        ring.all_gather(self.whole, self.group)

    def release(self) -> None:  # what autograd has saved of the weights keeps its place
        self.whole.untyped_storage().resize_(0)

    def scatter(self) -> None:  # the gradients, each shard to its owner
        flat = self.packed([p.grad for p in self.parameters]) / self.ranks
        mean = ring.reduce_scatter(flat, self.group)
        self.shard.grad = mean + (0 if self.shard.grad is None else self.shard.grad)
        for p in self.parameters:
            p.grad = None


class Zero:
    """Call backward as often as you like, then `step`."""

    def __init__(
        self,
        model: nn.Module,
        make: Callable[[Iterable[Tensor]], torch.optim.Optimizer],
        layers: Iterable[nn.Module],
        stage: int,
        group: ProcessGroup | None = None,
    ):
        flats = {layer: Flat(layer.parameters(), group) for layer in layers}
        inside = {p for flat in flats.values() for p in flat.parameters}
        rest = Flat((p for p in model.parameters() if p not in inside), group)
        self.flats, self.stage = [*flats.values(), rest], stage
        self.optimizer = make([flat.shard for flat in self.flats])
        if stage >= 2:
            for flat in self.flats:
                for p in flat.parameters:
                    hook = p.register_post_accumulate_grad_hook
                    hook(lambda _, flat=flat: self.arrived(flat))
        if stage == 3:
            model.register_forward_pre_hook(lambda *_: rest.gather())
            for layer, flat in flats.items():
                layer.register_forward_pre_hook(lambda *_, f=flat: f.gather())
                layer.register_forward_hook(lambda *_, f=flat: f.release())
                layer.register_full_backward_pre_hook(lambda *_, f=flat: f.gather())
                flat.release()
            rest.release()

    def arrived(self, flat: Flat) -> None:  # in backward, for each gradient
        if all(p.grad is not None for p in flat.parameters):
            flat.scatter()
            if self.stage == 3:
                flat.release()

    def step(self) -> None:
        if self.stage == 1:
            for flat in self.flats:
                flat.scatter()
        self.optimizer.step()
        self.optimizer.zero_grad()
        if self.stage < 3:  # in stage 3 nobody needs them before the next forward
            for flat in self.flats:
                flat.gather()


if __name__ == "__main__":
    from mathlib.parallel.plain import script

    for stage in (1, 2, 3):
        script.train(f"ZeRO {stage}", Zero, layers=True, stage=stage)
