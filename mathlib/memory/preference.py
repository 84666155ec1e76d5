"""Preference tuning, several models on the same devices: who is trained, who only scores, who
writes; bytes of a device in each phase of a step.

P parameters · n devices · b sequences of a micro-batch · s tokens
e bytes of a number in frozen weights and cache
All roles are sharded over the n devices as FSDP does.  A role that rests keeps its weights, and a
trained one its optimizer states; offloaded, it keeps nothing on the device.
"""

from collections.abc import Mapping
from typing import Any

from mathlib.checks import InputError, ceil_div, flag, one_of, positive, whole
from mathlib.compute import params
from mathlib.memory import activations, fit, inference, states
from mathlib.memory.precision import Recipe
from mathlib.memory.saved_tensors import FP32
from mathlib.parts import Part, Parts
from mathlib.specs import Model, find_model, table

# Rafailov et al. 2023; Shao et al. 2024; Ouyang et al. 2022
METHODS = {
    "dpo": ("policy", "reference"),
    "grpo": ("policy", "reference"),
    "ppo": ("policy", "critic", "reference", "reward"),
}
TRAINED = ("policy", "critic")
SCORERS = ("critic", "reward")  # a number a sequence or token, and no logits
WRITES = ("grpo", "ppo")  # from prompts; DPO's two replies to each are given


def phases(
    model: str | Model,
    *,
    method: str,
    devices: int,
    scorer: str | Model | None = None,
    micro_batch: int = 1,
    tokens: int | None = None,
    sequences: int = 1,
    tensor: int = 1,
    recipe: str | Recipe = "mixed-adam",
    recompute: str = "full",
    bytes_per_element: float = 2,
    offload: bool = False,
) -> dict[str, Parts]:
    """Bytes of one of n devices in each phase: writing, scoring, and training of each trained role.

    `scorer`: the shape of critic and reward model, the policy's own if not given; a critic has one
    output instead of V logits. `tokens` of prompt and reply; `sequences` that are written at once,
    by `tensor` devices that share the weights they write with, gathered for it. DPO's micro-batch
    counts pairs. `bytes_per_element`: of frozen weights, of those to write with, of the cache.

    Chapter: after (eq-roles-at-rest)
    """
    policy = find_model(model)
    if one_of("method", method, METHODS) not in WRITES and (sequences, tensor) != (1, 1):
        raise InputError(
            f"sequences = {sequences}, tensor = {tensor}: no effect on {method}, whose replies are "
            f"given; expected 1, or a method of {', '.join(WRITES)}"
        )
    own = _roles(policy, method, scorer)
    n, s = whole("devices", devices), policy.context if tokens is None else whole("tokens", tokens)
    b = whole("micro_batch", micro_batch) * (2 if method == "dpo" else 1)
    e = positive("bytes_per_element", bytes_per_element)
    away = flag("offload", offload)
    rest = {role: _resting(m, role, n, recipe, e) for role, m in own.items()}

    def phase(name: str, role: str, more: Mapping[str, Part]) -> None:
        kept = {f"{r} at rest": size for r, size in rest.items() if r != role and not away}
        found[name] = Parts(f"{name}, on one of {n} devices", "byte", kept | dict(more))

    found = dict[str, Parts]()
    if method in WRITES:
        how = {"sequences": sequences, "tensor": tensor, "bytes_per_element": e}
        cache = inference.kv_cache(policy, tokens=s, **how)  # type: ignore[arg-type]
        weights = e * params.total(policy) / whole("tensor", tensor)
        phase("writing", "", {"weights to write with": weights, "cache": cache})
    scores = [_scoring(m, role, n, b, s, e, away) for role, m in own.items()]
    widest = max(scores, key=lambda one: one.total)
    phase("scoring", "", widest)
    layout = {"devices": n, "micro_batch": b, "recompute": recompute}
    for role in (r for r in own if r in TRAINED):
        critic = {"logits_bytes": 0} if role == "critic" else {}
        step = fit.sharded(own[role], **layout, tokens=s, recipe=recipe, **critic)  # type: ignore[arg-type]
        phase(f"training the {role}", role, step)
    return found


def split(
    model: str | Model,
    *,
    method: str,
    devices: int,
    writers: int,
    sequences: int = 1,
    tensor: int = 1,
    **options: Any,
) -> dict[str, Parts]:
    """The phases where some of n devices only write, and the others only score and
    train: a writer keeps its weights and a cache of more sequences, and nobody rests
    beside it.

    `sequences` counts those of a device if all n wrote. All else goes to `phases`.

    Chapter: after (eq-writer)
    """
    policy, n = find_model(model), whole("devices", devices, least=2)
    one_of("method", method, METHODS)
    if whole("writers", writers) >= n or method not in WRITES:
        raise InputError(
            f"writers = {writers}, method = {method!r}: expected fewer than "
            f"devices = {n}, and a method of {', '.join(WRITES)}"
        )
    e = positive("bytes_per_element", options.get("bytes_per_element", 2))
    of = {"tensor": tensor, "bytes_per_element": e}
    of |= {"sequences": ceil_div(whole("sequences", sequences) * n, writers)}
    tokens = policy.context if options.get("tokens") is None else options["tokens"]
    parts: dict[str, Part] = {
        "weights to write with": e * params.total(policy) / whole("tensor", tensor),
        "cache": inference.kv_cache(policy, tokens=tokens, **of),  # type: ignore
    }
    found = {"writing": Parts(f"writing, on one of {writers} devices", "byte", parts)}
    rest = phases(policy, method=method, devices=n - writers, **options)
    return found | {name: phase for name, phase in rest.items() if name != "writing"}


def apart(
    model: str | Model,
    *,
    devices: int,
    tokens: int | None = None,
    sequences: int = 1,
    recipe: str | Recipe = "mixed-adam",
    bytes_per_element: float = 2,
) -> dict[str, Parts]:
    """Bytes where others write: of one of n devices that train GRPO's policy, while it hands its
    weights over as one row, and of a writer, who keeps them beside the cache.

    Chapter: after (eq-writer)
    """
    policy, n = find_model(model), whole("devices", devices)
    e = positive("bytes_per_element", bytes_per_element)
    own = e * params.total(policy)
    roles = _roles(policy, "grpo", None)
    kept: dict[str, Part] = {
        f"{role} at rest": _resting(m, role, n, recipe, e) for role, m in roles.items()
    }
    more: dict[str, Part] = {"gathered weights": own, "the row that is sent": own}
    cache = inference.kv_cache(
        policy,
        tokens=policy.context if tokens is None else tokens,
        sequences=sequences,
        bytes_per_element=e,
    )
    there: dict[str, Part] = {"weights to write with": own, "cache": cache}
    return {
        "handing over": Parts(f"Handing over, on one of {n} devices", "byte", kept | more),
        "writing": Parts("Writing, on a device of its own", "byte", there),
    }


def _roles(policy: Model, method: str, scorer: str | Model | None) -> dict[str, Model]:
    """The model of each role; PPO's critic and reward model may have another shape."""
    if scorer is not None and method != "ppo":
        raise InputError(
            f"scorer = {scorer!r}: no effect on {method}, which has neither critic nor "
            "reward model; expected none, or method = 'ppo'"
        )
    if not isinstance(scorer, Model | None):
        one_of("scorer", scorer, table("models"))
    other = policy if scorer is None else find_model(scorer)
    return {role: other if role in SCORERS else policy for role in METHODS[method]}


def _resting(model: Model, role: str, n: int, recipe: str | Recipe, e: float) -> float:
    """The shard of frozen weights, or of all that lives from step to step in training."""
    if role not in TRAINED:
        return e * params.total(model) / n
    return states.checkpoint(params.total(model), recipe=recipe).total / n


def _scoring(model: Model, role: str, n: int, b: int, s: int, e: float, away: bool) -> Parts:
    """What a forward pass that keeps nothing adds: weights gathered, what is alive within a layer,
    and of those that score tokens, the logits as they are and in 32 bits; offloaded, its weights.
    """
    parts: dict[str, Part] = {
        "weights": e * params.total(model) / n if away else 0,
        **fit.gathered(model, e),
        "working tensors": activations.layer(
            model, micro_batch=b, tokens=s, bytes_per_element=e
        ).total,
        "logits": 0 if role in SCORERS else (e + FP32) * b * s * model.padded_vocab,
    }
    return Parts(role, "byte", {name: size for name, size in parts.items() if size})
