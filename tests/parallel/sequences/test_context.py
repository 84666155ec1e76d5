"""Context parallelism by the oracle of one process: ring, Ulysses and both, odd lengths, grouped
heads, rotary places, whoever averages; its refusals.
"""

from functools import cache

import pytest
import torch
import torch.distributed as dist
from small_decoders import EXPERTS, LATENT, tiny
from torch import nn

from mathlib import launch
from mathlib.checks import InputError
from mathlib.memory import activations
from mathlib.meters import live
from mathlib.model import data, gpt, modern, oracle
from mathlib.parallel.ddp import DDP
from mathlib.parallel.sequences import block_kernels, context, ring, ulysses
from mathlib.parallel.zero.stage1 import Zero1
from mathlib.parallel.zero.stage3 import Zero3
from mathlib.schedule import ring_order
from mathlib.specs import Window

BATCH, STEPS = 3, 2
MODELS = {
    "gpt": gpt.small(width=16, heads=4, context=23, vocab=len(data.vocabulary()), tied=True),
    "selective": gpt.small(width=16, heads=4, context=23, vocab=len(data.vocabulary())),
    "full": gpt.small(width=16, heads=4, context=23, vocab=len(data.vocabulary())),
    "llama": tiny(layers=2, query_key_norm="head", context=21),
    "experts": tiny(layers=2, experts=EXPERTS, kv_heads=4, tied=True, context=24),
}


def build(name, seed=0):
    shape = MODELS[name]
    if not shape.gated:
        recompute = name if name in ("selective", "full") else "none"
        return gpt.GPT(shape, recompute=recompute, seed=seed).double()
    return modern.Modern(shape, seed).double()


def batch(name, step):
    """Of which the first tokens do not count: some ranks have none that do."""
    tokens, targets = data.batch(BATCH, MODELS[name].context, step)
    targets[:, :12] = -100
    return tokens, targets


def by_ranks(name, kinds, optimizer="SGD", averaging="zero 1"):
    """Weights after every step. `kinds`: ranks that exchange heads, order of the ring, kernel, and
    how many replicas of the model share the batch.
    """
    U, order, kernel, *replicas = kinds
    R = replicas[0] if replicas else 1
    model, make = build(name, seed=dist.get_rank()), oracle.OPTIMIZERS[optimizer]
    share = dist.get_world_size() // R  # every rank starts elsewhere
    pair = context.groups(share, U)
    way = context.ContextParallel(model, *pair, order=order, kernel=kernel)
    if averaging == "ddp":
        way.forward, zero = DDP(model), make(model.parameters())
    else:
        zero = Zero1(model, make) if averaging == "zero 1" else Zero3(model, make, model.blocks)
    history = []
    for step in range(STEPS):
        mine = [whole.tensor_split(R)[dist.get_rank() // share] for whole in batch(name, step)]
        (way.loss(*mine) * R * len(mine[0]) / BATCH).backward()  # replicas have unequal parts
        zero.step()
        zero.zero_grad()
        whole = zero.full_weights() if averaging == "zero 3" else dict(model.named_parameters())
        rows = [whole[n].detach().flatten() for n, _ in model.named_parameters()]
        history.append(torch.cat(rows))
    return history


@cache
def by_one(name, optimizer="SGD"):
    model = build(name)
    made = oracle.OPTIMIZERS[optimizer](model.parameters())
    return oracle.one_process(model, (batch(name, step) for step in range(STEPS)), made)


def far(ranks, cases):
    """How far any rank is from one process after any step, by case; one launch for all."""
    by_rank = launch.run(lambda: [by_ranks(*case) for case in cases], ranks)
    return {
        case: oracle.distance(
            [torch.cat(r[i]) for r in by_rank], torch.cat(by_one(case[0], *case[2:3]))
        )
        for i, case in enumerate(cases)
    }


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_weights_after_every_step_are_those_of_one_process(ranks):
    U = 2 if ranks % 2 == 0 else 1
    cases = [
        ("gpt", (1, "zigzag", "flash"), "SGD"),
        ("gpt", (1, "plain", "written"), "Adam", "zero 3"),
        ("gpt", (U, "zigzag", "flash"), "SGD", "ddp"),
        ("selective", (1, "zigzag", "written"), "Adam"),
        ("full", (U, "plain", "flash"), "SGD"),
        ("llama", (U, "zigzag", "written"), "SGD"),
        ("llama", (1, "zigzag", "flash"), "Adam", "zero 3"),
        ("experts", (ranks if ranks != 3 else 1, "plain", "flash"), "Adam"),
    ]
    if ranks == 4:
        cases += [
            ("gpt", (2, "plain", "flash", 2), "SGD"),
            ("llama", (1, "zigzag", "flash", 2), "Adam"),
        ]
    found = far(ranks, cases)
    assert all(distance < oracle.EQUAL for distance in found.values()), found


def left_out(what):
    """A step with one part of the mechanism left out."""
    look, add, places = ring_order.look, ring.add_block, context.ContextParallel.mine
    gradients, loss, exchange = ring.Ring.gradients, context.F.cross_entropy, ulysses.exchange

    def own_only(order, *, rank, source, own):
        return look(order, rank=rank, source=source, own=own) if rank == source else None

    def unmasked(order, **told):
        seen = look(order, **told)
        return seen and seen._replace(causal=False)

    def seen_by_all(order, *, rank, source, own):
        return look(order, rank=rank, source=source, own=own) or ring_order.Look(0, own, False)

    def unscaled(out, L, block, block_L):
        add(out, L, block, block_L)
        out.add_(block)

    def of_the_block(self, look, kv, arrived, q, out, L):  # with its own sum, not that of all
        return gradients(
            self, look, kv, arrived, q, *self.block(q, kv, look._replace(first_query=0))
        )

    broken = {
        "blocks of others": (ring_order, "look", own_only),
        "the mask": (ring_order, "look", unmasked),
        "what is skipped": (ring_order, "look", seen_by_all),
        "the scale of a block": (ring, "add_block", unscaled),
        "the sum of all": (ring.Ring, "gradients", of_the_block),
        "the way of heads back": (
            ulysses,
            "exchange",
            lambda x, give, get, group: exchange(x, give, get, group) * (1 if give == 1 else 0.5),
        ),
        "places": (
            context.ContextParallel,
            "mine",
            lambda self, tokens: places(self, tokens).roll(1),
        ),
        "sums of tokens": (context.F, "cross_entropy", lambda *a, **k: loss(*a, **k) * 0.5),
    }
    if what:
        setattr(*broken[what])
    return list(broken), by_ranks("llama", (2, "plain", "flash"))


def test_with_a_part_left_out_they_are_apart():
    (parts, _), *_ = launch.run(left_out, 4, "")
    wanted = torch.cat(by_one("llama"))
    found = {}
    for what in parts:
        runs = launch.run(left_out, 4, what)
        found[what] = oracle.distance([torch.cat(history) for _, history in runs], wanted)
    assert not any(distance <= 1e-6 for distance in found.values()), found


def test_what_it_does_not_compute_is_refused():
    def told():
        found = []

        def refusal(build, **options):
            with pytest.raises(InputError) as error:
                build(**options)
            found.append(str(error.value))

        ring_of_two, both = context.groups(2, 1), context.groups(2, 2)
        way = context.ContextParallel
        small = gpt.GPT(gpt.small(heads=3, width=24))
        refusal(lambda: way(small, *both))
        refusal(lambda: way(modern.Modern(tiny(kv_heads=1)), *both))
        refusal(lambda: way(modern.Modern(tiny(window=Window(6))), *ring_of_two))
        refusal(lambda: way(modern.Modern(tiny(latent=LATENT, kv_heads=4)), *ring_of_two))
        refusal(lambda: way(nn.Linear(2, 2), *ring_of_two))
        refusal(lambda: way(small, *ring_of_two, order="stripe"))
        refusal(lambda: way(small, *ring_of_two, kernel="flush"))
        refusal(lambda: context.groups(3))
        refusal(lambda: context.groups(2, 3))
        q, k = torch.zeros(1, 4, 6, 2), torch.zeros(1, 3, 6, 2)
        refusal(lambda: ring.Ring()(q, k, k))
        refusal(lambda: ring.Ring()(q, q.double(), q))
        refusal(lambda: ring.Ring("zigzag")(*torch.zeros(3, 1, 2, 3, 2)))
        return found

    (found, _) = launch.run(told, 2)
    wanted = [
        "ulysses = 2: does not divide heads = 3; expected a divisor of heads = 3 and of",
        "ulysses = 2: does not divide kv_heads = 1; expected a divisor of heads = 4 and of",
        "layer 0 looks 6 tokens back: expected all 24, without windows",
        "layer 0 has latent heads: expected ordinary or grouped ones",
        "model of type Linear: expected a GPT or a Modern",
        "order = 'stripe': expected one of plain, zigzag",
        "kernel = 'flush': did you mean flash?",
        "context = 3: does not divide ranks = 2",
        "ulysses = 3: does not divide context = 2",
        "keys, values of shape (1, 3, 6, 2), (1, 3, 6, 2): expected (1, a divisor of 4, 6, 2)",
        "queries, keys, values of torch.float32, torch.float64, torch.float32: expected one type",
        "halves = 2: does not divide own = 3",
    ]
    for refusal, beginning in zip(found, wanted, strict=True):
        assert refusal.startswith(beginning), refusal


def test_a_flash_kernel_that_is_not_there_is_refused():
    with pytest.raises(InputError, match="kernel = 'flash' on meta: expected tensors on cpu"):
        block_kernels.KERNELS["flash"].forward(*torch.zeros(3, 1, 1, 2, 2, device="meta"), True)


def held(layers, U, order):
    """Bytes that a loss leaves for its backward."""
    shape = gpt.small(layers, width=32, heads=4, context=48)
    model, batch = gpt.GPT(shape, "flash"), torch.zeros(2, BATCH, 48, dtype=torch.long)
    way = context.ContextParallel(model, *context.groups(4, U), order=order)
    return live.held_bytes(lambda: way.loss(*batch), model, *batch)


def test_a_layer_keeps_what_the_formula_says_of_its_own_tokens_and_with_ulysses_a_result_more():
    ways = [(1, "plain"), (1, "zigzag"), (2, "zigzag"), (4, "plain")]
    shape = gpt.small(1, width=32, heads=4, context=48)
    own = {"micro_batch": BATCH, "context": 4, "bytes_per_element": 4}
    layer = activations.layer(shape, attention="flash", small_tensors=True, **own).total
    for found in launch.run(lambda: [held(2, *way) - held(1, *way) for way in ways], 4):
        for (U, order), kept in zip(ways, found, strict=True):
            more = activations.ulysses(shape, **own) if U > 1 else 0
            assert kept == layer + more, (U, order)
    assert more == BATCH * 12 * 32 * 4 and not activations.ulysses(shape, context=1)
