"""GRPO: a model writes, is rewarded, and trains on what it wrote.  Who writes?

N   ranks that train, ZeRO-3, each with its part of the prompts
M   ranks that only write, where the roles are apart
K   bytes of the weights

                                                   before a reply, a rank that trains sends
together   the N write as well: weights are gathered          K (N-1)/N
apart      M of the N send them, to one writer each           K (N-1)/N, and these K more

Of G replies to a prompt those above the group's mean reward become likelier, the others
less (Shao et al. 2024); a frozen copy of the first weights holds the model back.

    torchrun --nproc-per-node 4 -m mathlib.parallel.plain.grpo
"""

from collections.abc import Callable
from copy import deepcopy

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from mathlib.model.decoding import Transformer, generate
from mathlib.parallel.plain.ddp import Make
from mathlib.parallel.plain.zero import Zero

Reward = Callable[[Tensor], Tensor]  # replies B T -> B
HELD_BACK = 0.1  # weight of the distance from the first weights


def write(model: Transformer, prompts: Tensor, dice: Tensor) -> Tensor:
    """Replies drawn from the model's probabilities: noise of B T V decides (Gumbel)."""
    turn = iter(dice.unbind(1))
    choose = lambda logits: (logits + next(turn)).argmax(-1)  # noqa: E731
    return generate(model, prompts, dice.shape[1], choose)


def chances(model: nn.Module, text: Tensor, T: int) -> Tensor:
    """The logarithm of each reply token's probability, B T."""
    logits = model(text[:, :-1]).log_softmax(-1)[:, -T:]
    return logits.gather(-1, text[:, -T:, None])[..., 0]


def loss(model: nn.Module, first: nn.Module, text: Tensor, earned: Tensor, T: int) -> Tensor:
    """`earned` has a row for each prompt, whose G replies stand behind each other."""
    better = (earned - earned.mean(1, True)) / (earned.std(1, keepdim=True) + 1e-6)
    with torch.no_grad():  # before the model keeps its activations
        was = chances(first, text, T)
    now = chances(model, text, T)
    far = (was - now).exp() - (was - now) - 1  # at least 0, and 0 where they agree
    return (HELD_BACK * far - better.view(-1, 1) * now).mean()


class Together:
    """Every rank writes replies to its prompts, then trains on them."""

    def __init__(
        self,
        model: Transformer,
        make: Make,
        reward: Reward,
        group: dist.ProcessGroup | None = None,
    ):
        self.model, self.reward, self.first = model, reward, deepcopy(model)
        self.pen = deepcopy(model)  # writes with the same numbers, without ZeRO's hooks
        self.zero = Zero(model, make, model.blocks, 3, group)
        vector_to_parameters(self.whole(), self.first.parameters())
        for p, same in zip(model.parameters(), self.pen.parameters(), strict=True):
            same.data = p.data
        self.release()

    def gather(self) -> None:  # all weights
        for flat in self.zero.flats:
            flat.gather()

    def whole(self) -> Tensor:
        self.gather()
        return parameters_to_vector(self.model.parameters()).detach()

    def release(self) -> None:
        for flat in self.zero.flats:
            flat.release()

    def written(self, prompts: Tensor, dice: Tensor) -> Tensor:
        self.gather()
        text = write(self.pen, prompts, dice)
        self.release()
        return text

    def step(self, prompts: Tensor, dice: Tensor, G: int) -> float:
        """G lines of prompts are the same; the mean reward."""
        T, text = dice.shape[1], self.written(prompts, dice)
        earned = self.reward(text[:, -T:]).view(-1, G)
        loss(self.model, self.first, text, earned, T).backward()
        self.zero.step()
        return earned.mean().item()


class Apart(Together):
    """A rank that trains; what rank r trains on, rank N + r % M writes."""

    def __init__(self, model: Transformer, make: Make, reward: Reward, group: dist.ProcessGroup):
        super().__init__(model, make, reward, group)
        self.N = dist.get_world_size(group)
        self.M = dist.get_world_size() - self.N

    def written(self, prompts: Tensor, dice: Tensor) -> Tensor:
        weights, rank = self.whole(), dist.get_rank()
        if rank < self.M:
            dist.send(weights, self.N + rank)
        self.release()
        text = prompts.new_empty(len(prompts), prompts.shape[1] + dice.shape[1])
        dist.recv(text, self.N + rank % self.M)
        return text


class Writer:
    """A rank that writes for those that train and share it."""

    def __init__(self, model: Transformer, N: int):
        self.model, self.rank = model, dist.get_rank() - N
        self.served = range(self.rank, N, dist.get_world_size() - N)

    def step(self, prompts: list[Tensor], dice: list[Tensor]) -> None:
        """Those of each rank that trains."""
        weights = parameters_to_vector(self.model.parameters()).detach()
        dist.recv(weights, self.rank)
        vector_to_parameters(weights, self.model.parameters())
        for r in self.served:
            dist.send(write(self.model, prompts[r], dice[r]), r)


if __name__ == "__main__":
    from mathlib.parallel.plain import script

    script.roles("together", Together, Writer, writers=0)
    script.roles("apart", Apart, Writer, writers=2)
