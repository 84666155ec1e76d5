"""What 6PD leaves out, counted: the studies of the compute chapter and of C01, C02 and C04.

P parameters · D tokens · s tokens of a sequence
"""

from collections.abc import Sequence

from mathlib import specs
from mathlib.compute import flops, params, reported
from mathlib.model.dry_run import dry_run, dry_run_layers
from mathlib.records import dataclass

GPTS = ("gpt2", "gpt2-xl", "gpt3-13b", "gpt3-175b")
TODAY = (
    *("llama3-8b", "llama3-70b", "qwen3-8b", "gemma3-27b"),
    *("mixtral-8x7b", "qwen3-30b-a3b", "deepseek-v3"),
)
NAMED = {"attention core": "attention (QKᵀ and AV)", "vocabulary": "LM head", "mlp": "MLP"}
SWEPT = {
    **{"sequence length": "context", "vocabulary": "vocab"},
    **{"width": "width", "layers": "layers"},
}


@dataclass(frozen=True)
class Rule:
    """A model's FLOP to train on one token, beside what six times its parameters say."""

    title: str
    total: int  # parameters
    active: float  # of them, those that one token uses
    met: int  # of these, those that it is multiplied with
    body: int  # without tables for tokens and positions
    forward: float  # FLOP of a token, counted, all pairs
    backward: float
    attention: float  # of forward, scores and values
    causal: float  # FLOP to train, by the formula, if only pairs that the mask keeps count

    @property
    def counted(self) -> float:
        return self.forward + self.backward

    @property
    def over(self) -> float:
        """FLOP counted over six times the active parameters, all pairs."""
        return self.counted / (6 * self.active)

    @property
    def over_causal(self) -> float:
        return self.causal / (6 * self.active)

    @property
    def over_body(self) -> float:
        """The same with both embedding tables left out of P."""
        return self.counted / (6 * self.body)

    @property
    def over_met(self) -> float:
        """FLOP over six times the weights that a token is multiplied with."""
        return self.counted / (6 * self.met)


def count(model: specs.Model) -> Rule:
    """A training step of one sequence, every matmul counted on torch's meta device."""
    run = dry_run if model.name in GPTS else dry_run_layers
    s, passes = model.context, run(model)
    forward, backward = (sum(parts.values()) / s for parts in passes)
    return Rule(
        title=model.title,
        total=params.total(model),
        active=params.active(model).total,
        met=params.met(model),
        body=params.non_embedding(model),
        forward=forward,
        backward=backward,
        attention=passes[0]["attention core"] / s,
        causal=flops.per_token(model, tokens=s, causal=True),
    )


def gpts() -> dict[str, Rule]:
    """GPT-2 and GPT-3 at the sequence length that they were trained with."""
    return {name: count(specs.find_model(name)) for name in GPTS}


def today(tokens: int = 4096) -> dict[str, Rule]:
    """Seven models of today."""
    return {name: count(specs.find_model(name).but(context=tokens)) for name in TODAY}


def swept(base: str = "gpt2") -> dict[str, list[tuple[float, float]]]:
    """FLOP over 6P without embeddings by the formula, one number of a model changed at a time."""
    spec = specs.find_model(base)
    lines: dict[str, list[tuple[float, float]]] = {}
    for name, what in SWEPT.items():
        lines[name] = []
        for times in (0.25, 0.5, 1, 2, 4, 8, 16):
            one = spec.but(**{what: int(times * getattr(spec, what))})
            ratio = flops.per_token(one) / (6 * params.non_embedding(one))
            lines[name].append((times, ratio))
    return lines


def at_lengths(names: Sequence[str], lengths: Sequence[int]) -> dict[str, list[tuple[int, float]]]:
    """FLOP over 6P by the formula, only pairs that the mask keeps, against sequence length."""
    lines = {}
    for spec in map(specs.find_model, names):
        six = 6 * params.active(spec).total
        over = [flops.per_token(spec, tokens=s, causal=True) / six for s in lengths]
        lines[spec.title] = list(zip(lengths, over, strict=True))
    return lines


def doubles_at(model: str) -> float:
    """The sequence length at which attention, all pairs, costs as much as all weights."""
    spec = specs.find_model(model)
    width: float = spec.head_dim
    if spec.latent:
        width = (spec.latent.nope_dim + spec.latent.rope_dim + spec.latent.value_dim) / 2
    return params.met(spec) / (2 * spec.layers * spec.heads * width)


@dataclass(frozen=True)
class LargeRun:
    """A large run as reported: shares of the devices' peak."""

    title: str
    devices: int
    device: str
    reported: float | None  # as its source prints it
    mfu: float
    hfu: float | None  # None where the source does not say what was recomputed


def large_run(name: str) -> LargeRun | None:
    """A run of runs.toml; nothing where its source leaves open which FLOP it counts."""
    run = reported.find_run(name)
    shares = reported.utilizations(run)
    if not shares["mfu"] or name == "GPT-3 175B, V100":
        return None
    told = name.partition(",")[0], run.devices, run.device.partition("-")[0].upper()
    return LargeRun(*told, shares["of peak"], shares["mfu"], shares["hfu"])


def large_runs() -> list[LargeRun]:
    """Reported runs whose MFU can be told."""
    return [run for run in map(large_run, reported.names()) if run]


def smallest_fleets() -> list[LargeRun]:
    """Of each model on each kind of device, the run on the fewest."""
    found: dict[tuple[str, str], LargeRun] = {}
    for run in large_runs():
        before = found.setdefault((run.title, run.device), run)
        if run.devices < before.devices:
            found[run.title, run.device] = run
    return list(found.values())


def shortcut_misses() -> dict[str, float]:
    """By how much 8PD falls short of the full formula, all recomputed, for the models of the paper
    that gives it (Narayanan et al. 2021).
    """
    missing = {}
    for size in ("1.7b", "7.5b", "39.1b", "145.6b", "1008b"):
        spec = specs.find_model(f"megatron-{size}")
        whole = flops.training(spec, recompute="full").total / spec.context
        missing[size.upper()] = whole / (8 * params.count(spec).total) - 1
    return missing
