"""What the tests of all axes together share, in a module that ranks can import."""

import math
from functools import cache

import torch
from patience import PATIENCE
from pipelines import batch
from tensor_cases import GATED

from mathlib import launch
from mathlib.layout import Layout
from mathlib.model import gpt, modern, oracle
from mathlib.parallel.together.grid import Grid
from mathlib.parallel.together.hybrid_parallel import HybridParallel
from mathlib.specs import Experts, Latent

STEPS, SEQUENCES, TOKENS, WORDS = 2, 10, 11, 61
SIZES = {"width": 16, "heads": 4, "context": TOKENS, "vocab": WORDS, "padded_vocab": WORDS}
MODERN = GATED.but(
    **SIZES, layers=2, kv_heads=2, head_dim=4, ffn_width=24, query_key_norm="head", tied=True
)
MODELS = {
    "gpt": gpt.small(**SIZES, layers=2, ffn_width=24),
    "untied": gpt.small(**SIZES, layers=4, ffn_width=24, tied=False),
    "deep": gpt.small(**SIZES, layers=4, ffn_width=24),
    "modern": MODERN,
    "experts": MODERN.but(experts=Experts(4, 2, 12)),
    "shared": MODERN.but(experts=Experts(4, 2, 12, shared=1, dense_layers=1)),
    "latent": MODERN.but(
        query_key_norm="", latent=Latent(kv_rank=4, nope_dim=2, rope_dim=2, value_dim=4)
    ),
}
PIPELINE, DATA = {"pipeline": 2, "micro_batches": 3}, {"data": 2}
CONTEXT, TENSOR, EXPERT = {"context": 2}, {"tensor": 2}, {"expert": 2}
SEQUENCE, CLIP = {"sequence_parallel": True}, {"clip": 0.05}


def tokens(step):
    found = batch(step, SEQUENCES, context=TOKENS)
    return [t % WORDS if i == 0 else t.where(t < 0, t % WORDS) for i, t in enumerate(found)]


def whole(name):
    model = MODELS[name]
    kind = gpt.GPT if model.positions == "learned" else modern.Modern
    return kind(model).double()


@cache
def by_one(name, optimizer, clip=math.inf, steps=STEPS):
    """Loss and weights by name after each step of one process."""
    model, found = whole(name), []
    made = oracle.OPTIMIZERS[optimizer](model.parameters())
    for step in range(steps):
        loss = oracle.step(model, made, *tokens(step), clip=clip)
        found.append((loss, {n: p.detach().clone() for n, p in model.named_parameters()}))
    return found


GRIDS = {}


def make(case):
    """This rank's part of a case: (model, layout, optimizer, options)."""
    name, layout, optimizer, options = case
    lay = Layout(**layout)
    axes = tuple(getattr(lay, axis) for axis in ("tensor", "context", "data", "pipeline"))
    key = (*axes, lay.expert, lay.expert_split)
    if key not in GRIDS:
        GRIDS[key] = Grid(lay)
    make = oracle.OPTIMIZERS[optimizer]
    options = {"dtype": torch.float64, "grid": GRIDS[key]} | options
    return HybridParallel(MODELS[name], lay, make, **options)


def difference(way, weights):
    """How far this rank's parts are from one process's, and their names."""
    far, names = [torch.zeros(())], set()
    for name, held in way.held():
        names.add(name)
        for offsets, view in held.views.items():
            box = tuple(slice(o, o + n) for o, n in zip(offsets, view.shape, strict=True))
            far.append((view - weights[name][box]).abs().max())
    return torch.stack(far).max(), names


def trained_apart(way, wanted):
    """The largest distance of a loss or a weight from one process, after any step."""
    return trained(way, wanted)[0]


def trained(way, wanted):
    """The same, and the names of this rank's parameters."""
    far, seen = [], set()
    for step, (loss, weights) in enumerate(wanted):
        found = way.step(*way.my_sequences(*tokens(step)))
        off, names = difference(way, weights)
        far += [torch.tensor(found - loss).abs(), off]
        seen |= names
    return torch.stack(far).max().item(), seen


def all_apart(cases):
    found = []
    for case, wanted in cases:
        try:
            found.append(trained(make(case), wanted))
        except Exception as error:
            raise RuntimeError(f"in {case}") from error
    return found


def wanted(case):
    name, _, optimizer, options = case
    return by_one(name, optimizer, options.get("clip", math.inf))


def wrong(ranks, cases):
    """Cases in which a rank is not where one process is, or a parameter is nowhere."""
    given = [(case, wanted(case)) for case in cases]
    by_rank = launch.run(all_apart, ranks, given, timeout=PATIENCE)
    bad = []
    for (case, whole), found in zip(given, zip(*by_rank, strict=True), strict=True):
        far = torch.tensor([off for off, _ in found]).max().item()  # no number, if one is none
        missing = set(whole[0][1]) - set().union(*(names for _, names in found))
        if not far < oracle.EQUAL or missing:
            bad.append((far, missing, case))
    return bad
