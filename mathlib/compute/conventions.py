"""The same run as each source would print it: what Megatron, NeMo, PaLM, torchtitan count as FLOP.

P parameters · L layers · a heads · d head_dim · s tokens of a sequence · V padded vocabulary
h width · n devices
A row of conventions.toml says which weights a source charges 6 FLOP a token for, how much of
attention's 12 L a d s it counts, and what of that which is computed again. A sliding window changes
none of it.
"""

from collections.abc import Mapping

from mathlib.checks import one_of, positive, whole
from mathlib.compute import cost, flops, params
from mathlib.parts import Part, Parts
from mathlib.records import dataclass, field
from mathlib.specs import RECOMPUTE, Model, find_model, row_as, table

SHARES = {"none": 0, "half": 1, "full": 2}  # halves of the pairs of tokens


@dataclass(frozen=True)
class Convention:
    """What one source counts, in the words of conventions.toml."""

    name: str
    title: str
    weights: str
    router: bool
    attention: str
    again: str
    prints: str
    source: str = field(default="", compare=False)
    date: str = field(default="", compare=False)


@dataclass(frozen=True)
class Counted:
    """A run in one convention."""

    convention: Convention
    model_flop: float  # a token, of what the model needs
    hardware_flop: float | None  # and with what is computed again; None: the source never counts it
    rate: float  # model FLOP/s of a device
    mfu: float
    hfu: float | None

    @property
    def printed(self) -> float:
        """FLOP/s of a device as the source itself would print them."""
        if self.convention.prints == "hardware" and self.hardware_flop:
            return self.rate * self.hardware_flop / self.model_flop
        return self.rate


def names() -> list[str]:
    """All conventions, in the order of the data file.

    Chapter: compute
    """
    return list(table("conventions"))


def find_convention(name: str) -> Convention:
    """A convention by its name in conventions.toml.

    Chapter: compute
    """
    return row_as(Convention, "conventions", name, called="convention")


def training_flop(
    model: str | Model,
    *,
    convention: str,
    tokens: int | None = None,
    recompute: str = "none",
    pipeline: int = 1,
) -> Parts:
    """Training FLOP a token as a source counts them: 6 W + x 12 L a d s + what is computed again.

    W is P, or P less the input table, or the weights of the matmuls; x is 1, 1/2 or 0.

    Chapter: compute
    """
    model, how = find_model(model), find_convention(convention)
    s = model.context if tokens is None else whole("tokens", tokens)
    one_of("recompute", recompute, RECOMPUTE)
    forward = flops.forward(model, tokens=s)
    scores = forward.amount("attention scores") + forward.amount("attention values")
    seen = 3 * SHARES[how.attention] * scores / 2 / s
    parts: dict[str, Part] = {
        "weights": 6 * _weights(model, how, whole("pipeline", pipeline)),
        "attention": seen,
    }
    if how.again != "none":
        parts["recomputation"] = _again(model, how.again, s, recompute, parts)
    title = f"FLOP a token of {model.title}, as {how.title} counts"
    return Parts(title, "FLOP", parts)


def _weights(model: Model, how: Convention, pipeline: int) -> int:
    """W: what a token is charged for."""
    if how.weights == "matmuls":
        router = 0 if how.router else _router(model)
        return params.met(model) - router
    if how.weights == "no table":
        return int(params.active(model, embeddings="head").total)
    twice = how.weights == "copies" and model.tied and pipeline > 1
    copy = model.padded_vocab * model.width if twice else 0
    return int(params.active(model).total) + copy


def _router(model: Model) -> int:
    found = [m for m in params.matrices(model) if m.group == "router"]
    return sum(m.layers * m.used * m.inputs * m.outputs for m in found)


def _again(model: Model, again: str, s: int, recompute: str, parts: Mapping[str, Part]) -> float:
    """FLOP a token that are computed again, by the source's own rule."""
    if again == "third":
        needed = Parts("", "FLOP", dict(parts)).total
        return needed / 3 if recompute == "full" else 0
    convention = "korthikanti" if again == "thrice" else "counted"
    return (
        flops.recomputation(model, recompute=recompute, tokens=s, convention=convention).total / s
    )


def _needed(parts: Parts) -> float:
    """All but what is computed again."""
    return parts.amount("weights") + parts.amount("attention")


def counted(
    model: str | Model,
    *,
    tokens_per_second: float,
    devices: int,
    peak: float,
    tokens: int | None = None,
    recompute: str = "none",
    pipeline: int = 1,
) -> list[Counted]:
    """A run in every convention: FLOP a token, FLOP/s of a device, MFU and HFU.

    Chapter: compute
    """
    model, speed = find_model(model), positive("tokens_per_second", tokens_per_second)
    found = []
    for name in names():
        how = find_convention(name)
        parts = training_flop(
            model, convention=name, tokens=tokens, recompute=recompute, pipeline=pipeline
        )
        needed = _needed(parts)
        hardware = parts.total if "recomputation" in parts else None
        mfu = cost.utilization(flop=speed * needed, seconds=1, devices=devices, peak=peak)
        hfu = None
        if hardware is not None:
            hfu = cost.utilization(flop=speed * hardware, seconds=1, devices=devices, peak=peak)
        found.append(Counted(how, needed, hardware, speed * needed / devices, mfu, hfu))
    return found


def tokens_per_second(
    model: str | Model,
    *,
    rate: float,
    devices: int,
    convention: str,
    tokens: int | None = None,
    recompute: str = "none",
    pipeline: int = 1,
) -> float:
    """Tokens a second of all devices together, from the FLOP/s of one that a source prints: n X
    over what it counts a token.

    Chapter: compute
    """
    how, n = find_convention(convention), whole("devices", devices)
    parts = training_flop(
        model, convention=convention, tokens=tokens, recompute=recompute, pipeline=pipeline
    )
    hardware = how.prints == "hardware"
    each = parts.total if hardware else _needed(parts)
    return n * positive("rate", rate) / each
