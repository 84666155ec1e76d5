"""The oracle of every parallelism: one process on the whole batch, and how far ranks are from it.

N ranks · B sequences of the whole batch
The weights must agree after every optimizer step, not only at the end, with SGD as with Adam: Adam
divides a gradient by its own size and hides a factor.  And they must not agree once the exchange is
left out, or the oracle looks away.
"""

from collections.abc import Callable, Iterable, Sequence

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed import ProcessGroup

OPTIMIZERS: dict[str, Callable[[Iterable[Tensor]], torch.optim.Optimizer]] = {
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    "Adam": lambda parameters: torch.optim.Adam(parameters, lr=0.01),
}
NOT_COUNTED = -100  # the target of a token that does not count, as in torch
EQUAL = 1e-11  # in 64 bits, where the order of additions is all that differs


def loss(model: nn.Module, tokens: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy of a model, wrapped or not, over the tokens whose target is
    not -100.
    """
    return F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())


def my_part(batch: Sequence[Tensor], group: ProcessGroup | None = None) -> list[Tensor]:
    """This rank's sequences of a batch; parts differ by one at most."""
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    return [tensor.tensor_split(ranks)[rank] for tensor in batch]


def my_weight(mine: int, whole: int, group: ProcessGroup | None = None) -> float:
    """N B_r / B: multiply a rank's mean loss with it, and unequal parts count right.

    A mean divides by N.  `mine` and `whole` count sequences, or tokens if they differ.

    Chapter: data_parallel (eq-weighted)
    """
    return dist.get_world_size(group) * mine / whole


def flat_weights(model: nn.Module) -> Tensor:
    """All parameters in one row, a tied one once."""
    return nn.utils.parameters_to_vector(model.parameters()).detach()


def flat_gradient(model: nn.Module) -> Tensor:
    """All gradients in one row; no gradient counts as zero."""
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()]
    return torch.cat([g.flatten() for g in gradients])


def step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    *batch: Tensor,
    loss: Callable[..., Tensor] = loss,
    clip: float = float("inf"),
) -> float:
    """One step of training on a batch, the gradient clipped by its norm; its loss."""
    optimizer.zero_grad()
    value = loss(model, *batch)
    value.backward()
    if clip < float("inf"):
        nn.utils.clip_grad_norm_(model.parameters(), clip)
    optimizer.step()
    return value.item()


def one_process(
    model: nn.Module,
    batches: Iterable[Sequence[Tensor]],
    optimizer: torch.optim.Optimizer,
    loss: Callable[..., Tensor] = loss,
    clip: float = float("inf"),
) -> list[Tensor]:
    """The weights after each step of one process on whole batches: what N ranks must hold then."""
    history = []
    for batch in batches:
        step(model, optimizer, *batch, loss=loss, clip=clip)
        history.append(flat_weights(model))
    return history


def distance(found: Iterable[Tensor], wanted: Tensor) -> float:
    """The largest distance of any number on any rank from what one process has; no number, if one
    of them is none.
    """
    return torch.stack([(one - wanted).abs().max() for one in found]).max().item()


def judged(far: float) -> str:
    """A distance in words: equal, or apart and how far."""
    return "equal" if far < EQUAL else f"apart by {far:.1e}"


class Branches(nn.Module):
    """A trunk, and a branch for each of two kinds of input: ranks that differ in what
    they use.
    """

    def __init__(self) -> None:
        super().__init__()
        self.trunk, self.left, self.right = (nn.Linear(4, 4) for _ in range(3))

    def forward(self, x: Tensor, way: str) -> Tensor:
        return self.get_submodule(way)(self.trunk(x))
