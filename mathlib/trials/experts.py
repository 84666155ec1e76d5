"""Expert parallelism, run: the model it trains, what a rank sends and multiplies, beside
tensor parallelism.

P of the ranks have all experts of a layer together.
"""

import contextlib
import copy
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch import Tensor, nn

from mathlib import launch
from mathlib.meters import wire
from mathlib.model import data, modern, oracle
from mathlib.parallel.experts import router
from mathlib.parallel.experts.expert_parallel import ExpertParallel
from mathlib.parallel.plain import experts
from mathlib.specs import Experts, Model, find_model
from mathlib.traffic import comm, volumes

SEQUENCES, TOKENS, STEPS, NUMBER = 4, 12, 3, 4  # of a rank; bytes
WEIGHT = 0.1  # of the auxiliary loss
WIDE = 240  # where rows weigh more than what is sent beside them


def shape(routed: int = 8, active: int = 2, **changes: int) -> Model:
    """A small decoder with experts in both layers."""
    small = {"layers": 2, "width": 24, "heads": 4, "kv_heads": 2, "head_dim": 6}
    words = {"context": TOKENS, "vocab": 61, "padded_vocab": 61}
    one = Experts(routed, active, 12)
    return find_model("llama3-8b").but(**{**small, **words, **changes}, experts=one)


SHAPE = shape()


def batch(step: int = 0, ranks: int = 0) -> list[Tensor]:
    """Tokens and targets of all ranks."""
    many = SEQUENCES * (ranks or dist.get_world_size())
    return [t % SHAPE.vocab for t in data.batch(many, TOKENS, step)]


def even(logits: Tensor) -> Tensor:
    """A router that gives all experts as many visits."""
    T, E = logits.shape[-2:]
    return 0 * logits - (torch.arange(E) - torch.arange(T)[:, None]) % E


def evened(layers: list[Any]) -> None:
    """Let these layers' routers choose so."""
    for layer in layers:
        layer.router.register_forward_hook(lambda module, given, logits: even(logits))


# Whether ranks train the model of one process


def whole_loss(model: nn.Module, *given: Tensor) -> Tensor:
    """Of one process with all experts: cross-entropy and the auxiliary loss of each layer."""
    said: list[Tensor] = []
    layers: Any = [block.mlp for block in model.blocks]  # type: ignore[union-attr]
    hooks = [layer.router.register_forward_hook(lambda m, x, y: said.append(y)) for layer in layers]
    found = oracle.loss(model, *given)
    for logits, layer in zip(said, layers, strict=True):
        shares = logits.softmax(-1)
        visits = shares.topk(layer.active).indices.flatten().bincount(minlength=shares.shape[1])
        tokens = torch.tensor(len(shares))
        found = found + WEIGHT * router.auxiliary(shares, visits.to(shares), tokens)
    for hook in hooks:
        hook.remove()
    return found


def by_one(ranks: int, optimizer: str) -> list[dict[str, Tensor]]:
    """Weights by name after each step of one process on the whole batch."""
    model, found = modern.Modern(SHAPE).double(), []
    make = oracle.OPTIMIZERS[optimizer](model.parameters())
    for step in range(STEPS):
        oracle.step(model, make, *batch(step, ranks), loss=whole_loss)
        found.append(copy.deepcopy(dict(model.state_dict())))
    return found


def by_copies(way: experts.ExpertParallel) -> None:
    """The fault: an expert's gradient is divided by the ranks that have it, not by all."""
    share = way.layers[0].shape[0]
    for p in way.own:
        p.register_hook(lambda gradient: gradient * share)


def alone(way: experts.ExpertParallel) -> None:
    """The fault: each copy of an expert learns from its own gradient."""
    share, real = dist.get_world_size() // way.layers[0].shape[0], dist.all_reduce

    def reduce(x: Tensor, group: Any = None) -> None:
        if group is way.copies:
            x *= share
        else:
            real(x, group=group)

    step = way.step

    def patched() -> None:
        with patch.object(experts.dist, "all_reduce", reduce):
            step()

    way.step = patched  # type: ignore[method-assign]


FAULTS: dict[str, Callable[[experts.ExpertParallel], None]] = {
    "": lambda way: None,
    "divided by its copies": by_copies,
    "not summed over its copies": alone,
}


def _apart(P: int, optimizer: str, fault: str, wanted: list[dict[str, Tensor]]) -> list[float]:
    """How far this rank's weights are from one process after each step."""
    model = modern.Modern(SHAPE, seed=dist.get_rank()).double()
    way, far = experts.ExpertParallel(model, oracle.OPTIMIZERS[optimizer], P, WEIGHT), []
    FAULTS[fault](way)
    first = dist.get_rank() % P * (way.layers[0].shape[1])
    for step, weights in enumerate(wanted):
        way.loss(*oracle.my_part(batch(step))).backward()
        way.step()
        named = [(_numbered(n, first), p.detach()) for n, p in model.named_parameters()]
        far.append(max((p - weights[n]).abs().max().item() for n, p in named))
    return far


def _numbered(name: str, first: int) -> str:
    """A rank's first expert is one of all."""
    head, found, tail = name.partition(".mlp.experts.")
    number, _, rest = tail.partition(".")
    return f"{head}{found}{first + int(number)}.{rest}" if found else name


def distances(ranks: int, cases: list[tuple[int, str, str]]) -> list[list[float]]:
    """How far any rank's weights are after each step of each case: ranks that have all experts
    together, optimizer, fault.
    """
    given = [(*case, by_one(ranks, case[1])) for case in cases]
    by_rank = launch.run(lambda: [_apart(*one) for one in given], ranks)
    of_cases = zip(*by_rank, strict=True)
    return [[max(step) for step in zip(*one, strict=True)] for one in of_cases]


# What a rank sends


def _sent(model: Model, P: int, balanced: bool) -> tuple[float, float, float]:
    """Visits of this rank that leave it, and bytes by the program and by the system."""
    way = experts.ExpertParallel(modern.Modern(model), oracle.OPTIMIZERS["SGD"], P, WEIGHT)
    if balanced:
        evened(way.layers)
    away, real = 0.0, experts.all_to_all
    first = dist.get_rank() % P

    def told(x: Tensor, give: list[int], take: list[int], group: Any) -> Tensor:
        nonlocal away
        away += sum(give) - give[first]
        return real(x, give, take, group)

    with patch.object(experts, "all_to_all", told):
        way.loss(*oracle.my_part(batch())).backward()  # opens connections
    with wire.sent() as found:
        way.loss(*oracle.my_part(batch())).backward()
    return away, found.program, found.system


def stretched(optimizer: str, ranks: int = 4, P: int = 2) -> float:
    """How much farther the first step moves experts where their gradient is divided by its copies
    than where it is divided by all ranks.
    """

    def run() -> list[float]:
        found = []
        for fault in ("", "divided by its copies"):
            model = modern.Modern(SHAPE).double()
            way = experts.ExpertParallel(model, oracle.OPTIMIZERS[optimizer], P, WEIGHT)
            before = [p.detach().clone() for p in way.own]
            FAULTS[fault](way)
            way.loss(*oracle.my_part(batch())).backward()
            way.step()
            moved = [(p - q).square().sum() for p, q in zip(way.own, before, strict=True)]
            found.append(torch.stack(moved).sum().sqrt().item())
        return found

    right, wrong = launch.run(run, ranks)[0]
    return wrong / right


def counts_sent(P: int, ranks: int, routed: int = 8) -> float:
    """Bytes beside the rows: how many there are, and each expert's share for the auxiliary loss."""
    E, L = routed, SHAPE.layers
    return L * (8 * E * (P - 1) / P + comm.sent("all-reduce", payload=NUMBER * E, ranks=ranks))


def counted(ranks: int, P: int, routed: int = 8) -> dict[str, tuple[float, float, float]]:
    """Bytes of a rank in a step's forward and backward, on average: formula, program, system."""
    found, model = {}, shape(routed)
    for name, balanced in (("even", True), ("as the router chose", False)):
        by_rank = launch.run(_sent, ranks, model, P, balanced)
        away, program, system = (sum(one) / ranks for one in zip(*by_rank, strict=True))
        rows = NUMBER * SHAPE.width * away
        if balanced:
            how: dict[str, Any] = {"micro_batch": SEQUENCES, "bytes_per_element": NUMBER}
            rows = volumes.expert_parallel(model, expert=P, **how).total
        found[name] = (rows + counts_sent(P, ranks, routed), program, system)
    return found


def _of_layout(model: Model, e: int, t: int) -> float:
    way = ExpertParallel(modern.Modern(model), expert=e, expert_tensor=t)
    evened(way.layers)
    for _ in range(2):  # the first opens connections
        with wire.sent() as found:
            way.loss(*oracle.my_part(batch())).backward()
    return found.system


def either(ranks: int, actives: tuple[int, ...]) -> dict[int, tuple[float, ...]]:
    """By experts that a token visits: bytes of all experts' rows by the formula, over these ranks
    whole and in parts, and bytes of the system.
    """

    def run() -> list[list[float]]:
        ways, models = ((ranks, 1), (1, ranks)), [shape(active=k, width=WIDE) for k in actives]
        return [[_of_layout(model, e, t) for e, t in ways] for model in models]

    by_rank, found = launch.run(run, ranks), {}
    for i, k in enumerate(actives):
        how: dict[str, Any] = {"micro_batch": SEQUENCES, "bytes_per_element": NUMBER}
        degrees: list[dict[str, Any]] = [{"expert": ranks}, {"expert": 1, "expert_tensor": ranks}]
        ways = [
            volumes.expert_parallel(shape(active=k, width=WIDE), **d, **how).total for d in degrees
        ]
        system = [sum(rank[i][w] for rank in by_rank) / ranks for w in (0, 1)]
        found[k] = (*ways, *system)
    return found


def matrices(ranks: int) -> dict[str, tuple[int, float, int]]:
    """What a rank multiplies with even loads, experts over these ranks whole and in parts: experts,
    rows of each, columns of the first matrix.
    """

    def run() -> dict[str, tuple[int, float, int]]:
        found = {}
        for name, e, t in (("whole", ranks, 1), ("parts", 1, ranks)):
            rows: list[int] = []

            def watch(n: int, rows: list[int] = rows) -> contextlib.nullcontext[None]:
                rows.append(n)
                return contextlib.nullcontext()

            way = ExpertParallel(modern.Modern(SHAPE), expert=e, expert_tensor=t, watch=watch)
            evened(way.layers)
            way.loss(*oracle.my_part(batch()))
            own: Any = way.layers[0].experts
            found[name] = (len(own), rows[0] / len(own), own[0].gate.weight.shape[0])
        return found

    return launch.run(run, ranks)[0]
