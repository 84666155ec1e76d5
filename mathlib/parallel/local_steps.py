"""Local steps for any module and inner optimizer: ranks train alone and meet every few steps.

N ranks · H steps from one meeting of a fragment to the next
Beside the plain file (`plain.local_sgd`): frozen and tied parameters, fragments of like sizes, what
does not go together is refused, and a run can be saved and resumed between meetings.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import ProcessGroup

from mathlib.checks import InputError, fraction, non_negative, positive, whole


class Fragment:
    """Parameters that meet together: where they last met, and what is in flight."""

    def __init__(self, parameters: Sequence[nn.Parameter], rate: float, momentum: float):
        kinds = {(p.dtype, p.device) for p in parameters}
        if len(kinds) > 1:
            raise InputError(f"parameters of {kinds}: expected one dtype and device in a fragment")
        self.parameters = list(parameters)
        self.met = self.here()
        self.outer = torch.optim.SGD([self.met], rate, momentum, nesterov=momentum > 0)
        self.way: Tensor | None = None
        self.work: Any = None

    def here(self) -> Tensor:
        return torch.cat([p.data.flatten() for p in self.parameters])

    def leave(self, group: ProcessGroup | None) -> None:
        self.way = (self.met - self.here()) / dist.get_world_size(group)
        self.work = dist.all_reduce(self.way, group=group, async_op=True)

    def arrive(self, own: float) -> None:
        """Each rank goes to where all meet, but keeps a share of where it is."""
        self.work.wait()
        self.met.grad, self.way = self.way, None
        self.outer.step()
        self.met.grad = None
        weights = self.met.lerp(self.here(), own)
        sizes = [p.numel() for p in self.parameters]
        for p, part in zip(self.parameters, weights.split(sizes), strict=True):
            p.data.copy_(part.view_as(p))


class LocalSteps:
    """Call backward, then `step`, which takes the inner optimizer's step and meets when it is time.

    inner: any optimizer of the module's parameters, whose states never travel. rate, momentum: of
    the outer step; 1 and 0 are local SGD, 0.7 and 0.9 DiLoCo. late: steps that a fragment is in
    flight. own: share of its own weights that a rank keeps then.

    Chapter: links (eq-links-diloco)
    """

    def __init__(
        self,
        module: nn.Module,
        inner: torch.optim.Optimizer,
        *,
        steps: int,
        rate: float = 1.0,
        momentum: float = 0.0,
        fragments: int = 1,
        late: int = 0,
        own: float = 0.0,
        group: ProcessGroup | None = None,
    ):
        self.H, many = whole("steps", steps), whole("fragments", fragments)
        positive("rate", rate)
        self.late, self.own = whole("late", late, least=0), _kept(own, late)
        if self.late >= self.H:
            raise InputError(f"late = {late}: expected less than steps = {steps}")
        if not 0 <= non_negative("momentum", momentum) < 1:
            raise InputError(f"momentum = {momentum}: expected less than 1")
        trained = [p for p in module.parameters() if p.requires_grad]  # a tied one comes once
        if min(self.H, len(trained)) < many:
            raise InputError(
                f"fragments = {fragments}: expected at most steps = {steps}, "
                f"and {len(trained)} trained parameters"
            )
        self.inner, self.group, self.number = inner, group, 0
        for tensor in (*module.parameters(), *module.buffers()):
            dist.broadcast(tensor.data, group=group, group_src=0)
        self.fragments = [Fragment(part, rate, momentum) for part in _cut(trained, many)]

    def step(self) -> None:
        self.inner.step()
        self.inner.zero_grad()
        self.number += 1
        for f, fragment in enumerate(self.fragments, 1):
            after = self.number - f * self.H // len(self.fragments)  # its first meeting
            if after >= 0 and after % self.H == 0:
                fragment.leave(self.group)
            if after >= self.late and (after - self.late) % self.H == 0:
                fragment.arrive(self.own)

    def state_dict(self) -> dict[str, Any]:
        """Of what the meetings need, alike on all ranks; the module and the inner optimizer have
        their own. Refused while a fragment is in flight.
        """
        flying = [f for f, fragment in enumerate(self.fragments) if fragment.way is not None]
        if flying:
            raise RuntimeError(f"fragments {flying} are in flight: save before they leave")
        each = [{"met": f.met.clone(), "outer": f.outer.state_dict()} for f in self.fragments]
        return {"number": self.number, "fragments": each}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if len(state["fragments"]) != len(self.fragments):
            raise InputError(
                f"state of {len(state['fragments'])} fragments: expected {len(self.fragments)}"
            )
        self.number = state["number"]
        for fragment, one in zip(self.fragments, state["fragments"], strict=True):
            fragment.met.copy_(one["met"])
            fragment.outer.load_state_dict(one["outer"])


def _kept(own: float, late: int) -> float:
    if own and not late:
        raise InputError(f"own = {own} with late = 0: expected 0, since nothing is missed")
    if own == 1:
        raise InputError("own = 1: expected less than 1, or ranks never meet")
    return fraction("own", own) if own else 0.0


def _cut(parameters: Sequence[nn.Parameter], fragments: int) -> list[list[nn.Parameter]]:
    """Neighbours, in parts of about as many numbers; none is empty."""
    total, done = sum(p.numel() for p in parameters), 0
    parts: list[list[nn.Parameter]] = [[]]
    for place, p in enumerate(parameters):
        left = fragments - len(parts)
        full = done >= total * len(parts) / fragments
        if parts[-1] and left and (full or len(parameters) - place == left):
            parts.append([])
        parts[-1].append(p)
        done += p.numel()
    return parts
