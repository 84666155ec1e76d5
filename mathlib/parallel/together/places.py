"""Which part of a whole model's parameter a rank has, and where it lies in it."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from mathlib.model.gpt import fill
from mathlib.parallel.boxes import Held, stretch
from mathlib.parallel.tensor.split_tensors import Cut, share


@dataclass(frozen=True)
class Place:
    """A parameter's name and shape in the whole model, and which part of it is here."""

    name: str
    shape: tuple[int, ...]
    cut: Cut
    rank: int  # of those that have parts
    ranks: int
    expert: bool = False  # whether it is an expert's, and not on all ranks of the data axis

    @property
    def own(self) -> range:
        """Which heads, rows or columns are here."""
        return share(self.cut.count(self.shape[self.cut.dim]), self.rank, self.ranks)

    @property
    def part(self) -> int:
        """A number that all ranks have who hold the same numbers of it."""
        return -1 if self.cut.whole() else self.own.start

    def filled(self, like: Tensor, seed: int) -> nn.Parameter:
        """The first numbers of this part, by the parameter's name."""
        whole = torch.empty(self.shape, dtype=like.dtype)
        fill(self.name, whole, seed)
        return nn.Parameter(self.cut.mine(whole, self.rank, self.ranks))

    def held(self, p: nn.Parameter, start: int, numbers: Tensor) -> Held:
        """Numbers of this part from `start` on, as boxes of the whole parameter."""
        here = stretch(p, start, numbers)
        if self.cut.whole():
            return here
        dim, head, own = self.cut.dim, self.cut.head, self.own
        mine, whole = len(own) * head, self.cut.count(self.shape[dim]) * head  # rows of a matrix
        found = Held(tuple(self.shape))
        for offsets, view in here.views.items():
            row, end = offsets[dim], offsets[dim] + view.shape[dim]
            while row < end:  # a box may reach into several matrices that stand end to end
                matrix, inside = divmod(row, mine)
                many = min(mine - inside, end - row)
                place = matrix * whole + own.start * head + inside
                box = view.narrow(dim, row - offsets[dim], many)
                found.views[*offsets[:dim], place, *offsets[dim + 1 :]] = box
                row += many
        return found
