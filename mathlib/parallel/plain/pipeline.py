"""Pipeline parallelism: one loop that executes the action list of a schedule.

p   stages, one a rank      m   micro_batches of a step     v   chunks a stage
b   micro_batch, sequences  s   tokens of a sequence        h   width

A schedule is a list of actions for every stage: F or B (forward, backward) of some
micro-batch i through a chunk c of the model.  `mathlib.schedule` writes the lists:

GPipe         all forwards, then all backwards (Huang et al. 2019)
1F1B          p-1-stage forwards, then a forward and a backward in turns, then backwards
              (Narayanan et al. 2021): as quick, and p micro-batches in flight, not m
interleaved   the same with v chunks a stage: 1/v of the idle time, v times the messages

Between chunks travel b s h activations forward, as many gradients backward; in these
orders a stage takes them as they were sent, so a message needs no name.  After `run` a
stage's chunks have the gradients of the whole batch.  No parameter is tied.

    torchrun --nproc-per-node 4 -m mathlib.parallel.plain.pipeline
"""

from collections.abc import Mapping

import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed import ProcessGroup

from mathlib.schedule.actions import Action, Schedule


class Pipeline:
    """One stage: the chunks of this rank, by their number in the whole model."""

    def __init__(
        self,
        chunks: Mapping[int, nn.Module],
        schedule: Schedule,
        width: int,
        group: ProcessGroup | None = None,
    ):
        self.chunks, self.schedule = chunks, schedule
        self.width, self.group = width, group
        self.last = schedule.model_chunks - 1
        self.like = next(chunks[min(chunks)].parameters())  # a message

    def run(self, tokens: Tensor, targets: Tensor) -> float:
        """All actions of this stage; the mean loss, on the stage that has it."""
        m, self.counted = self.schedule.micro_batches, (targets >= 0).sum()
        self.tokens, self.targets = tokens.tensor_split(m), targets.tensor_split(m)
        self.in_flight: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}
        self.sent: list[tuple[dist.Work, Tensor]] = []  # sends never wait
        self.loss = 0.0
        for action in self.schedule.actions[dist.get_rank(self.group)]:
            given = self.receive(action)
            do = self.forward if action.kind == "F" else self.backward
            self.send(action, do(action, given))
        for message, _ in self.sent:
            message.wait()
        return self.loss

    def forward(self, action: Action, x: Tensor | None) -> Tensor:
        _, i, c = action
        x = self.tokens[i] if x is None else x.requires_grad_()
        y = self.chunks[c](x)
        if c == self.last:
            scores, target = y.flatten(0, 1), self.targets[i].flatten()
            y = F.cross_entropy(scores, target, reduction="sum") / self.counted
            self.loss += y.item()
        self.in_flight[i, c] = x, y
        return y.detach()

    def backward(self, action: Action, dy: Tensor | None) -> Tensor:
        x, y = self.in_flight.pop((action.micro_batch, action.chunk))
        y.backward(dy)
        return x.grad

    def receive(self, action: Action) -> Tensor | None:
        source = self.schedule.receives_from(action)
        if source is None:  # tokens, or the loss, are here
            return None
        buffer = self.like.new_empty(*self.tokens[action.micro_batch].shape, self.width)
        dist.recv(buffer, group=self.group, group_src=source)
        return buffer

    def send(self, action: Action, made: Tensor) -> None:
        target = self.schedule.sends_to(action)
        if target is not None:
            message = dist.isend(made, group=self.group, group_dst=target)
            self.sent.append((message, made))


if __name__ == "__main__":
    from mathlib.parallel.plain import script

    for order in ("gpipe", "1f1b", "interleaved"):
        script.pipeline(order, Pipeline)
