"""A step of experts over ranks by our all-to-all and by torch's own, which autograd knows as well;
boxes beside exact visits; and what a router with a favourite costs.

Both send the same bytes. By its loads a layer with a favourite takes as many times longer as its
fullest rank has more than the mean; here the experts are small, so that messages hide some of it.
"""

from collections.abc import Callable, Iterator, Sequence
from unittest import mock

import rounds
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as of_torch

from mathlib import launch
from mathlib.model import data, modern
from mathlib.parallel.experts import dispatch
from mathlib.parallel.experts.expert_parallel import ExpertParallel
from mathlib.specs import Experts, find_model

SEQUENCES, CONTEXT, WORDS = 4, 128, 64
SHAPE = find_model("llama3-8b").but(
    **{"layers": 2, "width": 256, "heads": 8, "kv_heads": 4, "context": CONTEXT},
    **{"vocab": WORDS, "padded_vocab": WORDS},
    experts=Experts(8, 2, 512),
)
Step = Callable[[], object]


def by_torch(
    x: torch.Tensor, give: Sequence[int], take: Sequence[int], group: object = None
) -> torch.Tensor:
    arriving = of_torch.all_to_all_single_autograd(x, list(take), list(give), group)
    return of_torch.wait_tensor(arriving)


def loads(logits: torch.Tensor, favourite: bool) -> torch.Tensor:
    """Equal ones, or the first expert in every token's choice."""
    T, E = logits.shape[-2:]
    ahead = (torch.arange(E) - torch.arange(T)[:, None]) % E
    return 0 * logits - ahead + favourite * E * (torch.arange(E) == 0)


def stepped(*, exchange: Callable = dispatch.all_to_all_both, favourite: bool = False,
            capacity: float = 0.0) -> Step:  # fmt: skip
    """Forward and backward of the model on this rank's part of a batch."""
    way = ExpertParallel(modern.Modern(SHAPE), expert=dist.get_world_size(), capacity=capacity)
    for layer in way.layers:
        layer.router.register_forward_hook(lambda module, x, y: loads(y, favourite))
    batch = [t % WORDS for t in data.batch(SEQUENCES, CONTEXT)]

    def step() -> None:
        way.model.zero_grad()
        with mock.patch.object(dispatch, "all_to_all_both", exchange):
            way.loss(*batch).backward()

    return step


def race(count: int) -> rounds.Times:
    ways = {
        "expert parallel": stepped(),
        "torch's all-to-all": stepped(exchange=by_torch),
        "boxes, 1.25": stepped(capacity=1.25),
        "a favourite": stepped(favourite=True),
    }
    return rounds.on_ranks(ways, rounds=count)


def rows(quick: bool) -> Iterator[dict]:
    for ranks in (2, 4):
        times = launch.run(race, ranks, 2 if quick else 20, timeout=900)[0]
        for other in list(times)[1:]:
            label = f"experts, forward and backward, {ranks} ranks, beside {other}"
            yield rounds.row(label, times, "expert parallel", other, ranks=ranks)
