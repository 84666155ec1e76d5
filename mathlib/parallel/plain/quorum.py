"""Data parallel replicas that may die: a step is committed by those who are alive.

A step is a series of rounds, until one of them is committed. In a round, replicas

meet   in a store that outlives them: all of the last round, or who came in time
heal   those who are behind: the one ahead sends weights and optimizer states
sum    t_i g_i, the gradient of replica i times its tokens, over the quorum alone
vote   the last yes commits, the first error aborts; the store keeps which came first

g = sum t_i g_i / sum t_i is the gradient of exactly the tokens that were counted. A
replica keeps its gradient until a round commits it: a death costs the dead one's share.
torchft (github.com/meta-pytorch/torchft) votes alike, and drops an aborted step.

    torchrun --nproc-per-node 4 -m mathlib.parallel.plain.quorum
"""

import contextlib
import io
import os
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
from torch.distributed import PrefixStore, ProcessGroup, ProcessGroupGloo
from torch.nn import Module
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from mathlib.parallel.plain.ddp import Make


class Quorum:
    """Call backward, then `step`; `steps` is the number of the next batch."""

    patience = timedelta(seconds=30)  # who comes later is healed in the next round

    def __init__(self, model: Module, make: Make, store: Any, seat: int, seats: int):
        self.model, self.store, self.steps = model, store, -1  # no weights yet
        self.me = f"{seat}.{os.getpid()}"  # who comes back takes the same seat
        self.weights = list(model.parameters())
        for p in self.weights:
            p.grad = torch.zeros_like(p)
        self.optimizer, self.last = make(self.weights), set(map(str, range(seats)))
        self.step(0)

    def step(self, tokens: int = 1) -> dict[str, float]:
        """Commit one step; the tokens that it counted, by `me` of each replica."""
        committed = False
        while not committed:
            key, steps = self.meet()
            names, ahead = sorted(steps, key=lambda n: -steps[n]), max(steps.values())
            assert ahead >= 0 or not self.store.check(["begun"]), "nobody has weights"
            tokens *= self.steps == ahead  # the gradient of old weights counts nothing
            try:
                group = self.connect(key, names)
                if min(steps.values()) < max(ahead, 0):
                    self.heal(group)
                gradient = parameters_to_vector(p.grad for p in self.weights)
                shares = torch.tensor([tokens * (name == self.me) for name in names])
                total = torch.cat([tokens * gradient, shares])
                group.allreduce(total).wait()
                if self.store.add(f"{key} yes", 1) == len(names):
                    self.store.compare_set(f"{key} end", "", "commit")
                committed = self.agreed(f"{key} end", lambda: "abort") == "commit"
            except RuntimeError:  # a connection broke: close all, others hear it
                group = None  # type: ignore[assignment]
                self.store.compare_set(f"{key} end", "", "abort")
        counted = total[-len(names) :]
        if counted.any():
            vector_to_parameters(total / counted.sum(), [p.grad for p in self.weights])
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=False)
            self.steps += 1
        return dict(zip(names, counted.tolist(), strict=True))

    def meet(self) -> tuple[str, dict[str, int]]:
        """The next round that takes this replica, and the steps of its members."""
        while True:
            r = self.store.add("round", 0)
            key, came = f"round {r}", lambda r=r: self.store.get(f"{r} came").decode()
            self.store.set(f"{key} {self.me}", str(self.steps))
            self.store.append(f"{r} came", f"{self.me} ")
            if self.last <= {n.split(".")[0] for n in came().split()}:  # seats
                self.store.compare_set(key, "", came())
            names = sorted(self.agreed(key, came).split())
            self.store.compare_set("round", str(r), str(r + 1))
            if self.me in names:
                self.last = {n.split(".")[0] for n in names}
                return key, {n: int(self.store.get(f"{key} {n}")) for n in names}

    def agreed(self, key: str, value: Callable[[], str]) -> str:
        """What anybody was first to tell the store; this, when patience is over."""
        with contextlib.suppress(RuntimeError):
            self.store.wait([key], self.patience)
        return self.store.compare_set(key, "", value()).decode()

    def connect(self, key: str, names: list[str]) -> ProcessGroup:
        place = PrefixStore(key, self.store), names.index(self.me), len(names)
        group, cpu = ProcessGroup(*place), torch.device("cpu")
        gloo = ProcessGroupGloo(*place, self.patience)
        group._register_backend(cpu, ProcessGroup.BackendType.GLOO, gloo)
        return group

    def heal(self, group: ProcessGroup) -> None:
        """The first member sends all that it has; whoever is behind takes it."""
        now = self.model.state_dict(), self.optimizer.state_dict(), max(self.steps, 0)
        torch.save(now, file := io.BytesIO())
        group.broadcast(size := torch.tensor([file.tell()]), 0).wait()
        state = torch.frombuffer(file.getbuffer(), dtype=torch.uint8).clone()
        group.broadcast(state.resize_(int(size)), 0).wait()
        weights, optimizer, self.steps = torch.load(io.BytesIO(bytes(state.tolist())))
        self.model.load_state_dict(weights)
        self.optimizer.load_state_dict(optimizer)
        self.store.set("begun", "yes")


if __name__ == "__main__":
    from mathlib.parallel.plain import script

    script.replicas("quorum", Quorum)
