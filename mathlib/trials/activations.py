"""Recomputation run on two small models: what forward leaves, and what backward does again.

`old` has GPT-3's proportions: sixteen times as many scores a token as the model is wide, and no
kernel for attention. `new` has those of Llama 3 8B.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from itertools import count, product
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

from mathlib import specs
from mathlib.memory import activations, kept
from mathlib.meters import flop, live
from mathlib.model import gpt, llama, oracle, recompute
from mathlib.model.recompute import recomputed, these

OLD = gpt.small(layers=6, width=64, heads=4, context=256, vocab=262)
NEW = specs.find_model("llama3-8b").but(
    layers=6, width=64, heads=8, kv_heads=2, ffn_width=224, context=128, vocab=262
)
SHAPES = {"old": OLD, "new": NEW}
ATTENTION = {"old": "standard", "new": "flash"}
PLACES = {"old": recompute.GPT, "new": recompute.GATED}
POLICIES = ("none", "selective", "matmuls", "full")
TITLES = {"old": "GPT-3-like", "new": "Llama-like"}
B = 2  # sequences


class Run(NamedTuple):
    """What a way of recomputing costs."""

    bytes: float  # alive when forward is over, weights aside
    flop: float  # of matmuls in backward, beyond those of a run without recomputation


def build(which: str) -> nn.Module:
    return gpt.GPT(OLD) if which == "old" else llama.Llama(NEW)


model = lru_cache(build)


@lru_cache
def words(shape: specs.Model, sequences: int = B, seed: int = 0) -> tuple[Tensor, ...]:
    draw = torch.Generator().manual_seed(seed)
    return tuple(torch.randint(shape.vocab, (2, sequences, shape.context), generator=draw))


def options(which: str) -> dict[str, Any]:
    """How the formulas read this model."""
    return {"micro_batch": B, "attention": ATTENTION[which], "bytes_per_element": 4}


def loss(which: str, wrap: recompute.Wrap = recompute.plain, **how: Any) -> Tensor:
    return recompute.loss(model(which), *words(SHAPES[which]), wrap=wrap, **how)  # type: ignore[call-arg]


@lru_cache
def _backward(which: str) -> int:
    """FLOP of a backward that recomputes nothing."""
    return sum(flop.count_flop(partial(loss, which), model(which))[1].values())


def counted(which: str, wrap: recompute.Wrap = recompute.plain, **how: Any) -> Run:
    forward = partial(loss, which, wrap, **how)
    held = live.held_bytes(forward, model(which), *words(SHAPES[which]))
    _, behind = flop.count_flop(forward, model(which))
    return Run(held, sum(behind.values()) - _backward(which))


def gradient(which: str, wrap: recompute.Wrap = recompute.plain) -> Tensor:
    model(which).zero_grad()
    loss(which, wrap).backward()
    return oracle.flat_gradient(model(which))


_right = lru_cache(gradient)


def equal(which: str, wrap: recompute.Wrap) -> bool:
    """Whether the gradients are those of a run without recomputation, bit by bit."""
    return torch.equal(gradient(which, wrap), _right(which))


# Two forms of recomputation


def in_place_of_tensors(layer: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    hooks, numbers = torch.autograd.graph.saved_tensors_hooks, count()
    made: dict[int, Tensor] = {}

    def note(tensor: Tensor) -> None:  # of the second run
        made[len(made)] = tensor.detach()

    def back(number: int) -> Tensor:  # backward wants the tensor of this number
        if number not in made:
            with torch.enable_grad(), hooks(note, back):
                layer(x.detach().requires_grad_())
        return made[number]

    with hooks(lambda tensor: next(numbers), back):  # a number for the tensor
        return layer(x)


FORMS: dict[str, recompute.Wrap] = {
    "one node": recompute.again_whole,
    "torch, reentrant": partial(checkpoint, use_reentrant=True),
    "hooks": in_place_of_tensors,
    "library": recomputed,
    "torch, not reentrant": partial(checkpoint, use_reentrant=False),
}


def forms() -> dict[str, tuple[float, float]]:
    """FLOP that each form repeats, as planned and run: early stop spares the last matmul of a
    layer. All keep the planned bytes, and have the right gradients.
    """
    once = OLD.layers * kept.layer(OLD, keep=(), **options("old")).flop
    last = OLD.layers * 2 * B * OLD.context * OLD.width * OLD.ffn_width
    held, found = planned("old", "full").bytes, {}
    for name, wrap in FORMS.items():
        early = name in ("library", "torch, not reentrant")
        ran = counted("old", wrap)
        assert equal("old", wrap) and ran.bytes == held, name
        found[name] = once + (0 if early else last), ran.flop
    return found


# Policies


def keeps(which: str, policy: str) -> tuple[str, ...]:
    """The tensors that a policy keeps; by size, those of at most two numbers of width h a token."""
    shape = SHAPES[which]
    limit = 4 * B * shape.context * 2 * shape.width
    return kept.names(shape, policy=policy, limit=limit, **options(which))


def statistics(which: str, names: Iterable[str]) -> int:
    """Bytes of a layer that come with a kept result: of a LayerNorm, and of a flash kernel."""
    tokens, names = B * SHAPES[which].context, set(names)
    if which == "old":
        return 8 * tokens * len(names & {"attention input", "mlp input"})
    return 4 * tokens * NEW.heads * ("projection input" in names)


def planned(which: str, policy: str) -> Run:
    """Bytes and FLOP by the formulas: embedding, head and loss, and the layers' choice."""
    shape, names = SHAPES[which], keeps(which, policy)
    layout = specs.Layout(micro_batch=B, recompute="none" if policy == "none" else "full")
    given: dict[str, Any] = {"attention": ATTENTION[which], "bytes_per_element": 4}
    bare = activations.stage(shape, layout, small_tensors=True, **given).total
    bare -= 2 * 8 * B * shape.context  # the tokens' numbers
    if policy == "none":
        return Run(bare, 0)
    choice = kept.layer(shape, keep=names, **options(which))
    inputs = kept.layer(shape, keep=(), **options(which)).bytes
    more = choice.bytes - inputs + statistics(which, names)
    return Run(bare + shape.layers * more, shape.layers * choice.flop)


def by_policy(which: str, policy: str) -> recompute.Wrap:
    if policy == "none":
        return recompute.plain
    return partial(recomputed, keep=these(keeps(which, policy), PLACES[which]))


def by_torch(policy: recompute.Policy, function: recompute.Function, x: Tensor) -> Tensor:
    """torch's selective checkpoint with a policy of the library's."""
    before: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}

    def choose(context: Any, operation: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
        seen, name = before[context.is_recompute], operation.overloadpacket.__name__
        seen[name] += 1
        wanted = policy(name, seen[name] - 1, None)
        return CheckpointPolicy.MUST_SAVE if wanted else CheckpointPolicy.PREFER_RECOMPUTE

    contexts = partial(create_selective_checkpoint_contexts, choose)
    return checkpoint(function, x, use_reentrant=False, context_fn=contexts)


def every_policy() -> dict[str, tuple[float, float]]:
    """Bytes and FLOP of each policy as planned and run, in the library's program; torch's has the
    same, and both have the right gradients.
    """
    found = {}
    for which, policy in product(SHAPES, POLICIES):
        ours = by_policy(which, policy)
        theirs: recompute.Wrap = partial(by_torch, these(keeps(which, policy), PLACES[which]))
        theirs = ours if policy == "none" else theirs
        plan, ran = planned(which, policy), counted(which, ours)
        assert ran == counted(which, theirs) and equal(which, ours) and equal(which, theirs)
        found[f"{TITLES[which]}, {policy}, bytes"] = plan.bytes, ran.bytes
        found[f"{TITLES[which]}, {policy}, FLOP"] = plan.flop, ran.flop
    return found


def useless(wrap: recompute.Wrap) -> tuple[Run, Run]:
    """What a rule that keeps every matmul's result keeps beyond the policy: planned are the results
    of the layers' last ones.
    """
    last = 4 * B * NEW.layers * NEW.context * NEW.width
    exact, ran = counted("new", by_policy("new", "matmuls")), counted("new", wrap)
    return Run(last, 0), Run(ran.bytes - exact.bytes, ran.flop - exact.flop)


def in_turn(choice: kept.Choice, layers: int, places: dict[str, tuple[str, int]]) -> recompute.Wrap:
    """Layer i keeps the tensors that more than i layers keep."""
    turn = count()

    def wrap(layer: recompute.Function, x: Tensor) -> Tensor:
        number = next(turn) % layers
        names = [name for name, times in choice.layers.items() if number < times]
        return recomputed(layer, x, keep=these(names, places))

    return wrap


def within(share: float) -> tuple[Run, Run]:
    """The best choice for a share of what can be dropped, as planned and as it ran."""
    bare, everything = (planned("new", policy).bytes for policy in ("full", "none"))
    inputs = NEW.layers * kept.layer(NEW, keep=(), **options("new")).bytes
    choice = kept.best(NEW, budget=inputs + share * (everything - bare), **options("new"))
    more = statistics("new", choice.layers) * choice.layers.get("projection input", 0)
    held = bare + choice.bytes - inputs + more
    ran = counted("new", in_turn(choice, NEW.layers, PLACES["new"]))
    return Run(held, choice.flop), ran


def by_rule() -> dict[str, Run]:
    """Bytes and FLOP of two rules of one line, of a limit that spares matmuls, and of the best
    choice within the limit's bytes.
    """
    found = {name: counted("new", wrap) for name, wrap in RULES.items()}
    kindly, best = counted("new", by_policy("new", "size")), within(0.28)[1]
    assert best.bytes <= kindly.bytes
    dropped, matmuls = found.items()
    middle = {"no larger than X: kept": kindly, "best choice of these bytes": best}
    return dict([dropped]) | middle | dict([matmuls])


# Rules and steps


def is_matmul(operation: str, before: int, result: Any) -> bool:
    """A rule of one line: keep the results of matmuls and of the attention kernel."""
    return operation in ("mm", recompute.FLASH)


RULES: dict[str, recompute.Wrap] = {
    "larger than X: dropped": partial(recomputed, above=4 * B * NEW.context * 2 * NEW.width),
    "results of matmuls: kept": partial(recomputed, keep=is_matmul),
}


def three_steps() -> live.Timeline:
    """A step that keeps everything, one that keeps results of matmuls, one that keeps inputs."""
    fresh, turn = build("new"), iter(("none", "matmuls", "full"))
    fresh.loss = lambda *batch: recompute.loss(  # type: ignore[assignment]
        fresh, *batch, wrap=by_policy("new", next(turn))
    )
    sgd = torch.optim.SGD(fresh.parameters(), lr=0.0)
    return live.step_timeline(fresh, [words(NEW, 4, seed) for seed in range(3)], sgd)  # type: ignore[misc]
