"""The oracle of pipelines without a flush: one process whose gradients come late.

With w(k) the weights after k updates, and d_s the delay of stage s of p,
w(k+1) = w(k) - r f'(w_0(k - d_0), ..., w_(p-1)(k - d_(p-1))): the gradient of batch k is taken at
weights that are d_s updates old on stage s, and applied to the newest ones.
"""

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call

from mathlib.model import oracle


def one_process(
    model: nn.Module,
    batches: Iterable[Sequence[Tensor]],
    optimizer: torch.optim.Optimizer,
    late: Callable[[str], int],
) -> tuple[list[Tensor], list[float]]:
    """The weights after each update, and each batch's loss at the weights that it met.

    late(name): by how many updates the gradient of the parameter of this name comes too late.
    """
    history, found, losses = [_copy(model)], [], []
    for k, batch in enumerate(batches):
        met = {name: history[max(0, k - late(name))][name] for name in history[0]}
        met = {name: weight.clone().requires_grad_() for name, weight in met.items()}
        loss = oracle.loss(lambda tokens, met=met: functional_call(model, met, (tokens,)), *batch)  # type: ignore
        gradients = torch.autograd.grad(loss, list(met.values()))
        for p, gradient in zip(model.parameters(), gradients, strict=True):
            p.grad = gradient
        optimizer.step()
        history.append(_copy(model))
        found.append(oracle.flat_weights(model))
        losses.append(loss.item())
    return found, losses


def _copy(model: nn.Module) -> dict[str, Tensor]:
    return {name: p.detach().clone() for name, p in model.named_parameters()}
