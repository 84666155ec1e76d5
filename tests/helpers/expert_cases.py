"""What the tests of experts share, in a module that ranks can import."""

import contextlib
import copy
from functools import cache
from unittest import mock

import torch
import torch.distributed as dist
from torch import nn

from mathlib import launch, specs
from mathlib.meters import wire
from mathlib.model import data, modern, oracle
from mathlib.parallel.plain import experts as plain
from mathlib.traffic import comm, volumes

STEPS, MINE, TOKENS, WORDS, WEIGHT = 3, 4, 6, 61, 0.1  # sequences a rank, tokens of each


def shape(routed=6, active=2, **changes):
    """Experts 11 wide on a stream of 24, one shared besides."""
    small = {"layers": 2, "width": 24, "heads": 4, "kv_heads": 2, "head_dim": 6}
    words = {"context": TOKENS, "vocab": WORDS, "padded_vocab": WORDS}
    one = specs.Experts(**{"routed": routed, "active": active, "width": 11, "shared": 1} | changes)
    return specs.find_model("llama3-8b").but(**small, **words, experts=one)


MODELS = {"six": shape(), "eight": shape(8, 3, shared=0)}
DEGREES = [  # ranks, of which so many have all experts, of which model
    *((1, 1, "six"), (2, 1, "eight"), (2, 2, "eight"), (3, 1, "six"), (3, 3, "six")),
    *((4, 2, "eight"), (4, 4, "eight")),
]


def tokens(step, ranks):
    return [t % WORDS for t in data.batch(MINE * ranks, TOKENS, step)]


def whole_loss(model, *given, weight=WEIGHT, chosen=None):
    """Of one process: the auxiliary loss by what routers said; `chosen` is told the visits."""
    said, layers = [], [block.mlp for block in model.blocks]
    hooks = [e.router.register_forward_hook(lambda m, x, y: said.append(y)) for e in layers]
    loss = oracle.loss(model, *given)
    for logits, layer in zip(said, layers, strict=True):
        shares, E = logits.softmax(-1), logits.shape[1]
        picked = shares.topk(layer.active).indices
        visits = nn.functional.one_hot(picked, E).to(shares).sum((0, 1)) / picked.numel()
        loss = loss + weight * E * (visits * shares.mean(0)).sum()
        if chosen is not None:
            chosen.append(picked)
    for hook in hooks:
        hook.remove()
    return loss


@cache
def by_one(name, ranks, optimizer):
    """Loss and weights by name after each step of one process."""
    model, found = modern.Modern(MODELS[name]).double(), []
    made = oracle.OPTIMIZERS[optimizer](model.parameters())
    for step in range(STEPS):
        loss = oracle.step(model, made, *tokens(step, ranks), loss=whole_loss)
        found.append((loss, copy.deepcopy(model.state_dict())))
    return found


def build(name, P, optimizer="SGD"):
    model = modern.Modern(MODELS[name], seed=dist.get_rank()).double()  # each starts elsewhere
    return plain.ExpertParallel(model, oracle.OPTIMIZERS[optimizer], P, WEIGHT)


def numbered(name, first):
    """A rank's first expert is one of all."""
    head, found, tail = name.partition(".mlp.experts.")
    if not found:
        return name
    number, dot, rest = tail.partition(".")
    return head + found + str(first + int(number)) + dot + rest


def apart(name, P, optimizer, wanted):
    """How far this rank's weights, and all ranks' mean loss, are from what one process has."""
    way, N, far = build(name, P, optimizer), dist.get_world_size(), []
    first = dist.get_rank() % P * (MODELS[name].experts.routed // P)
    for step, (loss, weights) in enumerate(wanted):
        found = way.loss(*oracle.my_part(tokens(step, N)))
        found.backward()
        way.step()
        mean = found.detach() / N
        dist.all_reduce(mean)
        far += [(mean - loss).abs()]
        mine = way.model.named_parameters()
        far += [(p.detach() - weights[numbered(n, first)]).abs().max() for n, p in mine]
    return torch.stack(far).max().item()


def wrong(ranks):
    """The cases of so many ranks in which one is not where one process is; in one launch."""
    cases = [(n, P, o) for N, P, n in DEGREES if ranks == N for o in oracle.OPTIMIZERS]
    given = [(n, P, o, by_one(n, ranks, o)) for n, P, o in cases]
    found = launch.run(lambda: [apart(*case) for case in given], ranks)
    far = map(max, zip(*found, strict=True))
    return [(d, case) for d, case in zip(far, cases, strict=True) if not d < oracle.EQUAL]


def broken(name, P, wanted, faults):
    """How far this rank is after a step under each fault: (object, attribute, what it becomes)."""
    found = []
    for where, attribute, new in faults:
        with contextlib.ExitStack() as stack:
            stack.enter_context(mock.patch.object(where, attribute, new))
            found.append(apart(name, P, "SGD", wanted[:1]))
    return found


def even(router, logits):
    """A token's first expert is its place's, and the next ones follow: loads are balanced."""
    T, E = logits.shape
    ahead = (torch.arange(E) - torch.arange(T)[:, None]) % E
    return 0 * logits - ahead


def sent(name, P, balanced):
    """Bytes of this rank in a step, by its program, by the system."""
    way = build(name, P)
    if balanced:
        for layer in way.layers:
            layer.router.register_forward_hook(lambda m, x, y: even(m, y))
    given = oracle.my_part(tokens(0, dist.get_world_size()))
    for _ in range(2):  # connections are opened by the first
        with wire.sent() as found:
            way.loss(*given).backward()
            way.optimizer.step = lambda: None  # the same visits twice
            way.step()
    return found.program, found.system


def visits_elsewhere(name, ranks, P):
    """Visits that leave a rank, over all ranks and layers, by the routers of one process."""
    chosen, E, found = [], MODELS[name].experts.routed, 0
    whole_loss(modern.Modern(MODELS[name]).double(), *tokens(0, ranks), chosen=chosen)
    for picked in chosen:
        for r, mine in enumerate(picked.chunk(ranks)):
            found += (mine // (E // P) != r % P).sum().item()
    return found


def predicted(name, ranks, P, balanced):
    """Bytes of a step over all ranks."""
    shape, E = MODELS[name], MODELS[name].experts.routed
    whole = modern.Modern(shape)
    own = sum(p.numel() for n, p in whole.named_parameters() if ".experts." in n) // P
    dense = sum(p.numel() for p in whole.parameters()) - own * P
    to = volumes.expert_parallel(shape, expert=P, micro_batch=MINE, bytes_per_element=8).total
    if not balanced:
        to = 4 * 8 * shape.width * visits_elsewhere(name, ranks, P) / ranks
    counts = shape.layers * (P - 1) / P * 8 * E
    sums = [(8 * dense, ranks), (8 * own, ranks // P)] + shape.layers * [(8 * E, ranks)]
    reduced = sum(comm.sent("all-reduce", payload=K, ranks=n) for K, n in sums)
    return ranks * (to + counts + reduced)
