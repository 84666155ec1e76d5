"""Weights that change while micro-batches are under way: which version each of them meets.

Version k are the weights after k updates; `schedule.weights.versions` says which one micro-batch i
is meant to meet: PipeDream's goes back through the weights that it came with, while later ones
already meet newer weights, so old ones must be kept.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call

from mathlib.checks import InputError


class Versions:
    """The versions of a chunk's weights that some micro-batch of a run still needs.

    The newest one lies in the module's own memory, until an update is about to overwrite what is
    still needed.
    """

    def __init__(self, chunk: nn.Module, meant: Sequence[int]):
        self.chunk, self.meant = chunk, meant
        self.newest = 0  # updates so far
        self.coming = set(range(len(meant)))  # micro-batches before their backward's end
        self.kept = {0: self._leaves()}
        self.most = 1  # versions in memory at once

    def _leaves(self) -> dict[str, Tensor]:
        """The module's weights under new names: same memory, own gradients."""
        named = self.chunk.named_parameters()
        return {name: p.data.requires_grad_(p.requires_grad) for name, p in named}

    def forward(self, i: int, x: Tensor) -> Tensor:
        """Micro-batch i through the version that is meant for it."""
        if self.meant[i] not in self.kept:
            raise InputError(
                f"schedule: micro-batch {i} is to meet version {self.meant[i]} of the weights; "
                f"there are {', '.join(map(str, self.kept))}"
            )
        return functional_call(self.chunk, self.kept[self.meant[i]], (x,))

    @torch.no_grad()
    def backward_done(self, i: int) -> None:
        """Add to the module's gradients what micro-batch i left at the version that it met."""
        self.coming.remove(i)
        leaves = self.kept[self.meant[i]]
        for name, p in self.chunk.named_parameters():
            gradient, leaves[name].grad = leaves[name].grad, None
            if gradient is not None:
                p.grad = gradient if p.grad is None else p.grad + gradient

    def update(self, optimizer: torch.optim.Optimizer) -> None:
        """An optimizer step that leaves alone the versions that are still needed."""
        needed = {self.meant[i] for i in self.coming}
        if self.newest in needed:
            self.stash()
        optimizer.step()
        optimizer.zero_grad()
        self.newest += 1
        self.kept[self.newest] = self._leaves()
        self.kept = {n: kept for n, kept in self.kept.items() if n in {*needed, self.newest}}
        self.most = max(self.most, self._in_memory())

    def _in_memory(self) -> int:
        """Versions that have memory of their own: names for the same memory count once."""
        places = {tuple(p.data_ptr() for p in kept.values()) for kept in self.kept.values()}
        return len(places)

    def stash(self) -> None:
        """Give the module new memory to be updated in; the old one stays as it is."""
        for p in self.chunk.parameters():
            p.data = p.data.clone()
