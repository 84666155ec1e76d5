"""What the tests of experts share, in a module that ranks can import."""

import contextlib
import copy
import math
from functools import cache
from unittest import mock

import torch
import torch.distributed as dist
from torch import nn

from mathlib import launch, specs
from mathlib.meters import wire
from mathlib.model import data, modern, oracle
from mathlib.parallel.experts import router
from mathlib.parallel.experts.expert_parallel import ExpertParallel
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


class Whole(nn.Module):
    """All experts of a layer in one process: each computes all tokens, and those that did not
    choose it, or found no room, are left out; a rank's part of the batch is a group of `parts`.
    """

    def __init__(self, of, routing, factor=0.0, parts=1):
        super().__init__()
        self.router, self.experts, self.shared = of.router, of.experts, of.shared
        self.active, self.how, self.factor, self.parts = of.active, routing, factor, parts
        self.bias = torch.zeros(len(of.experts), dtype=of.router.weight.dtype)

    def weights(self, logits):  # T E, zero where a token does not go
        scores = logits.sigmoid() if self.how.score == "sigmoid" else logits.softmax(-1)
        chosen, E = (scores + self.bias).topk(self.active).indices, logits.shape[1]
        picked = nn.functional.one_hot(chosen, E)  # T k E
        mask = picked.sum(1) * scores
        if self.how.normalised:
            mask = mask / mask.sum(1, keepdim=True)
        self.visits, shares = picked.sum((0, 1)).to(scores), scores / scores.sum(1, keepdim=True)
        self.balance = E * (self.visits / picked.sum() * shares.mean(0)).sum()
        if self.factor:
            mask = mask * torch.cat([self.room(one) for one in picked.chunk(self.parts)])
        return mask

    def room(self, picked):  # T k E of a group -> T E: all first choices before the second ones
        room, kept = math.ceil(self.factor * picked[..., 0].numel() / picked.shape[2]), 0
        before = torch.zeros(picked.shape[2])
        for one in picked.unbind(1):
            kept = kept + one * (before + one.cumsum(0) <= room)
            before = before + one.sum(0)
        return kept

    def forward(self, x):
        tokens = x.flatten(0, 1)
        mask = self.weights(self.router(tokens))
        made = torch.stack([expert(tokens) for expert in self.experts], 1)  # T E h
        y = (mask[..., None] * made).sum(1)
        return (y + self.shared(tokens) if self.shared else y).view_as(x)


BIASED = router.Routing("sigmoid", normalised=True, balance=0.05, bias_rate=0.03)
SOFTMAX = router.Routing(balance=WEIGHT)
STURDY = {  # what, model, ranks, over how many, of how many parts, routing, capacity, states
    "dropless": ("dense first", 4, 2, 1, SOFTMAX, 0.0, ""),
    "biased": ("eight", 4, 4, 1, BIASED, 0.0, ""),
    "parts": ("parts", 4, 2, 2, SOFTMAX, 0.0, ""),
    "only parts": ("parts", 4, 1, 4, SOFTMAX, 0.0, ""),
    "dropping": ("eight", 4, 2, 1, BIASED, 0.7, ""),
    "dropping parts": ("parts", 4, 2, 2, SOFTMAX, 0.7, ""),
    "room for all": ("eight", 4, 4, 1, SOFTMAX, 8 / 3, ""),
    "sharded": ("eight", 4, 2, 1, SOFTMAX, 0.0, "sharded"),
    "sharded parts": ("parts", 4, 1, 2, SOFTMAX, 0.0, "sharded"),
    "clipped": ("parts", 4, 1, 2, BIASED, 0.0, "clipped"),
    "three": ("six", 3, 3, 1, BIASED, 0.7, ""),
    "three parts": ("three", 3, 1, 3, SOFTMAX, 0.0, ""),
    "one": ("dense first", 1, 1, 1, BIASED, 0.7, ""),
    "two": ("six", 2, 2, 1, SOFTMAX, 0.0, "clipped"),
}
WIRED = {  # over how many, of how many parts, capacity
    "exact": (4, 1, 0.0),
    "boxes": (2, 1, 1.5),
    "parts": (2, 2, 0.0),
    "parts in boxes": (1, 4, 0.7),
}
MODELS |= {
    "wide": shape(24, 3, width=12),
    "dense first": shape(dense_layers=1),
    "parts": shape(8, 3, width=12),
    "three": shape(6, width=12),
}
CLIP = 0.05


def unequal(step, ranks, t):
    """This batch, and which sequences each rank has: unlike numbers, and targets that do not count;
    alike for t neighbours, who gather theirs.
    """
    found = data.batch(MINE * ranks, TOKENS, step)
    given = [x % WORDS for x in found]
    given[1][: MINE + 1, : step + 2] = -100
    sizes = [MINE + (1 if i == 0 else -1 if i == ranks // t - 1 else 0) for i in range(ranks // t)]
    if ranks == t:
        sizes = [MINE]
    sizes = [size for size in sizes for _ in range(t)]
    return given, sizes


def whole_of(case):
    """Loss, weights and biases after each step of one process."""
    (name, N, _, t, routing, factor, how), optimizer = case
    model, found = modern.Modern(MODELS[name]).double(), []
    layers = []
    for block in model.blocks:
        if isinstance(block.mlp, modern.Experts):
            block.mlp = Whole(block.mlp, routing, factor, parts=N // t)
            layers.append(block.mlp)
    made = oracle.OPTIMIZERS[optimizer](model.parameters())

    def loss_of(model, *given):
        loss = oracle.loss(model, *given)
        return loss + routing.balance * sum(layer.balance for layer in layers)

    for step in range(STEPS):
        given, _ = unequal(step, N, t)
        clip = CLIP if how == "clipped" else math.inf
        loss = oracle.step(model, made, *given, loss=loss_of, clip=clip)
        for layer in layers:
            move = (layer.visits.mean() - layer.visits).sign()
            layer.bias = layer.bias + routing.bias_rate * move
        biases = torch.stack([layer.bias for layer in layers])
        found.append((loss, copy.deepcopy(dict(model.state_dict())), biases))
    return found


def train(case, watch=contextlib.nullcontext):
    """A rank's model, and what makes a step of it on tokens and targets."""
    (name, _, e, t, routing, factor, how), optimizer = case
    model = modern.Modern(MODELS[name], seed=dist.get_rank()).double()
    way = ExpertParallel(
        model, expert=e, expert_tensor=t, capacity=factor, routing=routing, watch=watch
    )
    make = oracle.OPTIMIZERS[optimizer]
    made = way.sharded(make) if how == "sharded" else [make(model.parameters())]

    def step(*given):
        loss = way.loss(*given)
        loss.backward()
        if how != "sharded":
            way.average()
        if how == "clipped":
            way.clip(CLIP)
        for one in made:
            one.step()
            one.zero_grad()
        way.move_bias()
        return loss.detach()

    return way, step


def sturdy_apart(case, wanted):
    """How far all ranks' mean loss, the joined weights and the biases are from one process."""
    (way, step), (_, N, _, t, _, factor, _) = train(case), case[0]
    far, r = [], dist.get_rank()
    for number, (loss, weights, biases) in enumerate(wanted):
        given, sizes = unequal(number, N, t)
        if factor:
            sizes = [MINE] * N
        mean = step(*(x.split(sizes)[r] for x in given)) / N
        dist.all_reduce(mean)
        found = way.whole_weights()
        assert found.keys() == weights.keys()
        bias = torch.stack([x.bias for x in way.layers])
        far += [(mean - loss).abs(), (bias - biases).abs().max()]
        far += [(p - weights[n]).abs().max() for n, p in found.items()]
    return torch.stack(far).max().item()


def sturdy_wrong(ranks):
    cases = [(one, o) for one in STURDY.values() if one[1] == ranks for o in oracle.OPTIMIZERS]
    given = [(case, whole_of(case)) for case in cases]
    found = launch.run(lambda: [sturdy_apart(*case) for case in given], ranks)
    far = map(max, zip(*found, strict=True))
    return [(d, case) for d, case in zip(far, cases, strict=True) if not d < oracle.EQUAL]


def sturdy_sent(e, t, factor):
    """Bytes of this rank in a loss, its backward and the average, by its program, by the system."""
    way, _ = train((("wide", 4, e, t, SOFTMAX, factor, ""), "SGD"))
    for layer in way.layers:
        layer.router.register_forward_hook(lambda m, x, y: even(m, y[0])[None])
    given = oracle.my_part(tokens(0, 4))
    for _ in range(2):
        with wire.sent() as found:
            way.loss(*given).backward()
            way.average()
    return found.program, found.system


def sturdy_predicted(e, t, factor):
    """The same by the formula."""
    shape, E, T = MODELS["wide"], 24, MINE * TOKENS
    of = {"expert": e, "expert_tensor": t, "capacity": factor}
    to = volumes.expert_parallel(shape, **of, micro_batch=MINE, bytes_per_element=8).total
    if not factor:  # how many visits come
        to += shape.layers * 8 * E * (e - 1) / e
    to += shape.layers * 8 * 3 * T * (t - 1)  # which experts a token chose
    to += comm.sent("all-reduce", payload=16, ranks=t)  # whether all have as many
    whole = modern.Modern(shape)
    own = sum(p.numel() for n, p in whole.named_parameters() if ".experts." in n) // (e * t)
    dense = sum(p.numel() for p in whole.parameters()) - own * e * t
    sums = [(dense, 4), (own, 4 // (e * t)), (shape.layers * E + 2, 4)]
    return to + sum(comm.sent("all-reduce", payload=8 * K, ranks=n) for K, n in sums)
