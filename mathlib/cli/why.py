"""mathlib why: the formula behind an answer with its numbers put in, and what it leaves out.

P parameters · L layers · h width · a heads · k kv_heads · d head_dim · f ffn_width · V vocabulary
s tokens · D tokens of a run · b micro_batch · m micro_batches · p stages · t tensor · S shard
e bytes an element · B sequences · K payload · N ranks · C FLOP · X FLOP/s of a device
n devices · T seconds
"""

import math
import re
from argparse import REMAINDER, ArgumentParser
from collections.abc import Callable, Iterator
from typing import Any

from mathlib.checks import InputError, whole
from mathlib.cli.options import layout_of, model_of
from mathlib.cli.registry import command
from mathlib.cli.steps import machine_of
from mathlib.cli.text import show, wrapped
from mathlib.cli.typed import Typed
from mathlib.parts import Parts
from mathlib.records import dataclass
from mathlib.specs import Layout, Model, find_device
from mathlib.units import KINDS
from mathlib.units import show as shown

FUNCTIONS = {"max": max, "sqrt": math.sqrt, "log2": math.log2}  # that a formula may call
LETTER = re.compile(rf"\b(?!(?:{'|'.join(FUNCTIONS)})\b)[A-Za-z]\w*")  # with its index


@dataclass(frozen=True)
class Formula:
    """One line of arithmetic, and the library's own value beside it."""

    what: str
    text: str  # of letters, such as 2 * L * B * s * k * d * e
    letters: dict[str, float]
    value: float  # as the library counts it
    unit: str
    place: str  # the function, and its equation

    @property
    def result(self) -> float:
        """What the line comes to; the texts all stand in this file."""
        known = {"__builtins__": {}, **FUNCTIONS}
        return float(eval(self.text.replace("^", "**"), known, dict(self.letters)))

    @property
    def numbers(self) -> str:
        """The line with its numbers."""
        return LETTER.sub(lambda m: f"{self.letters[m[0]]:.10g}", self.text)


def why_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "words", nargs=REMAINDER, metavar="command ...", help="another command, as typed"
    )


@command(
    "why",
    "the formula behind params, flops, memory, kv, comm, time or cost, with the numbers put in",
    "why kv llama3-70b --tokens 8k --sequences 4",
    "why memory llama2-7b --zero 3 --data 8",
    "why time llama3-8b --cluster p5.48xlarge --data 8 --zero 3 --micro-batches 16",
    "why comm all-reduce --payload 1GB --ranks 8 --bandwidth 300GB/s",
    options=why_options,
)
def why_command(args: Typed) -> None:
    from mathlib.cli.parser import typed_of

    words = [word for word in args.words if word != "--json"]
    if not words or words[0] not in FORMULAS:
        raise InputError(f"why: expected a command of {', '.join(FORMULAS)}, and its options")
    inner = typed_of(words)
    found = list(FORMULAS[words[0]](inner))
    inner.refuse_unused()
    args.as_json(args.json or "--json" in args.words)
    text = wrapped("\n\n".join(_block(one) for one in found))
    show(args, text, {"of": " ".join(words), "formulas": [_data(one) for one in found]})


def _said(n: float, unit: str) -> str:
    return shown(n, unit) if unit in KINDS else f"{n:,.4g} {unit}".strip()


def _tokens(args: Typed, model: Model) -> int:
    """Of a sequence."""
    return whole("tokens", model.context if args.tokens is None else args.tokens)


def _block(one: Formula) -> str:
    lines = [one.what, f"  {one.text}", f"  = {one.numbers}", f"  = {_said(one.result, one.unit)}"]
    if abs(one.value - one.result) > 1e-9 * abs(one.value):
        more = one.value / one.result - 1 if one.result else 0.0
        lines.append(f"  counted in full: {_said(one.value, one.unit)} ({more:+.2%})")
    return "\n".join([*lines, f"  {one.place}"])


def _data(one: Formula) -> dict[str, Any]:
    kept = {"what": one.what, "formula": one.text, "letters": one.letters, "numbers": one.numbers}
    return kept | {"result": one.result, "value": one.value, "unit": one.unit, "place": one.place}


def _shape(model: Model) -> dict[str, float]:
    names = {"L": "layers", "h": "width", "a": "heads", "k": "kv_heads", "d": "head_dim"}
    names |= {"f": "ffn_width", "V": "padded_vocab"}
    return {letter: getattr(model, name) for letter, name in names.items()}


def _of_params(args: Typed) -> Iterator[Formula]:
    from mathlib.compute import params

    model = model_of(args)
    parts, size = params.count(model), _shape(model)
    place = "compute.params.count"
    tables = 1 if model.tied else 2
    table = parts.amount("embedding") + (parts.amount("head") if "head" in parts else 0)
    yield line("tables", "n * V * h", size | {"n": tables}, table, "parameter", place)
    attention = parts.amount("attention")
    text = "L * h * d * (2 * a + 2 * k)"
    yield line("attention", text, size, attention, "parameter", place)
    if "mlp" in parts:
        size["j"] = 3 if model.gated else 2
        text = "L * j * h * f"
        yield line("MLP", text, size, parts.amount("mlp"), "parameter", place)
    inner = params.non_embedding(model)
    short = "12 * L * h^2"
    yield line("in short", short, size, inner, "parameter", "compute.params.shorthand")


def line(
    what: str, text: str, letters: dict[str, float], value: float, unit: str, place: str
) -> Formula:
    """A formula with the letters that occur in it."""
    named = {letter: letters[letter] for letter in LETTER.findall(text)}
    return Formula(what, text, named, value, unit, place)


def _of_flops(args: Typed) -> Iterator[Formula]:
    from mathlib.compute import flops, params

    model = model_of(args)
    s, B = _tokens(args, model), args.sequences
    met = params.active(model, embeddings="head").total
    size = _shape(model) | {"s": s, "B": B, "P": met}
    how: dict[str, Any] = {"sequences": B, "tokens": s, "causal": args.causal}
    whole = flops.training(model, **how, attention_backward=args.attention_backward)
    forward = whole["forward"]
    assert isinstance(forward, Parts)
    core = forward.amount("attention scores") + forward.amount("attention values")
    rest = 3 * (forward.total - core)
    place = "compute.flops.training (eq-train, eq-6pd)"
    text = "6 * P * B * s"
    yield line("matmuls with weights", text, size, rest, "FLOP", place)
    half = "6" if args.causal else "12"
    back = args.attention_backward
    text = f"{half} * L * B * s^2 * a * d"
    yield line("attention", text, size, core * (1 + back), "FLOP", "compute.flops (eq-forward)")


def _of_memory(args: Typed) -> Iterator[Formula]:
    from mathlib.memory import fit, precision, states

    if args.program or args.offload != "none":
        told = "the formulas here are of PyTorch's own operations"
        raise InputError(f"--program {args.program}: {told}, expected none, and no launch line")
    model = model_of(args)
    lay = layout_of(args, model, uneven=True)
    recipe = args.recipe or "mixed-adam"
    if precision.recipe(recipe).elsewhere:
        raise InputError(
            f"--recipe {recipe}: expected one whose copies are the same for every parameter"
        )
    own = states.stage_parameters(model, lay, 0).total
    yield _copies(recipe, lay)
    kappa = states.per_parameter(recipe, zero=lay.zero, shard=lay.shard).total
    letters = {"P": own, "kappa": kappa}
    place = "memory.states (eq-states); P of a device of the first stage"
    yield line("states", "kappa * P", letters, kappa * own, "byte", place)
    how: dict[str, Any] = {
        "attention": args.attention,
        "dropout": args.dropout,
        "tokens": args.tokens,
    }
    yield from _layer(model, lay, {name: how[name] for name in how if how[name] is not None})
    total = fit.training(model, lay, recipe=recipe, stage=args.pipeline_stage, **how)
    title = f"in all, with logits and what is in flight ({total.title.partition(', ')[2]})"
    parts = [total.amount(name) for name in total]
    letters = {chr(ord("A") + i): part for i, part in enumerate(parts)}
    text = " + ".join(letters)
    yield line(title, text, letters, total.total, "byte", f"memory.fit: {', '.join(total)}")


def _copies(recipe: str, lay: Layout) -> Formula:
    """Bytes a parameter, by ZeRO stage."""
    from mathlib.memory import states

    each = states.per_parameter(recipe)
    rest = each.amount("master weights") + each.amount("optimizer states")
    letters = {"w": each.amount("weights"), "g": each.amount("gradients"), "o": rest}
    texts = ("w + g + o", "w + g + o / S", "w + (g + o) / S", "(w + g + o) / S")
    value = states.per_parameter(recipe, zero=lay.zero, shard=lay.shard).total
    what = f"kappa, bytes a parameter of {recipe} with ZeRO {lay.zero}"
    letters["S"] = lay.shard
    place = "memory.states.per_parameter (eq-copies)"
    return line(what, texts[lay.zero], letters, value, "", place)


def _layer(model: Model, lay: Layout, how: dict[str, Any]) -> Iterator[Formula]:
    """Activations of a layer and a micro-batch."""
    from mathlib.memory import activations

    shared: dict[str, Any] = {
        "tensor": lay.tensor,
        "context": lay.context,
        "micro_batch": lay.micro_batch,
    }
    spread: dict[str, Any] = {
        "sequence_parallel": lay.sequence_parallel,
        "recompute": lay.recompute,
    }
    value = activations.layer(model, **shared, **spread, **how).total
    size = _shape(model) | {"b": lay.micro_batch, "t": lay.tensor, "cp": lay.context}
    size["s"] = how.get("tokens", model.context)
    text = _layer_text(model, lay, how)
    place = "memory.activations.layer (eq-activations, eq-gated)"
    yield line("activations of a layer, one micro-batch", text, size, value, "byte", place)


def _layer_text(model: Model, lay: Layout, how: dict[str, Any]) -> str:
    """Korthikanti's line for what GPT-3 is, the general one for all others."""
    standard = how.get("attention", model.attention) == "standard"
    drops = how.get("dropout", model.dropout)
    if lay.recompute == "full":
        text = "2 * s * b * h / cp"
    elif model.gated or not standard or not drops or model.experts:
        wide = "4 * f" if model.gated else "2 * f"
        text = f"2 * s * b * (4 * h + 2 * a * d + 2 * k * d + {wide}) / cp"
    elif lay.recompute == "selective":
        text = "34 * s * b * h / cp"
    else:
        text = "s * b * h * (34 + 5 * a * s / h) / cp"
    return f"{text} / t" if lay.tensor > 1 and lay.sequence_parallel else text


def _of_kv(args: Typed) -> Iterator[Formula]:
    from mathlib.memory import inference

    model = model_of(args)
    s, B, t = _tokens(args, model), args.sequences, args.tensor
    how = {"bytes_per_element": args.bytes, "tensor": t, "rolling": args.rolling}
    value = inference.kv_cache(model, tokens=s, sequences=B, **how).total
    size = _shape(model) | {"s": s, "B": B, "e": args.bytes, "t": min(t, model.kv_heads)}
    text = "2 * L * B * s * k * d * e / t"
    if model.latent:
        size |= {"r": model.latent.kv_rank, "q": model.latent.rope_dim}
        text = "L * B * s * (r + q) * e"
    place = "memory.inference.kv_cache (eq-kv-cache)"
    yield line("keys and values", text, size, value, "byte", place)


def _of_comm(args: Typed) -> Iterator[Formula]:
    from mathlib.traffic import comm

    texts = {
        "all-reduce": ("2 * (N - 1) / N * K", "2 * (N - 1)"),
        "reduce-scatter": ("(N - 1) / N * K", "(N - 1)"),
        "all-gather": ("(N - 1) / N * K", "(N - 1)"),
        "all-to-all": ("(N - 1) / N * K", "(N - 1)"),
    }
    if args.collective not in texts or args.payload is None or args.ranks is None:
        raise InputError(f"why comm: expected one of {', '.join(texts)}, with --payload, --ranks")
    given = {"payload": args.payload, "ranks": args.ranks, "algorithm": args.algorithm}
    bytes_, rounds = texts[args.collective]
    letters = {"K": args.payload, "N": args.ranks}
    sent = comm.sent(args.collective, **given)
    place = "traffic.comm.sent (eq-sent)"
    yield line("a rank sends", bytes_, letters, sent, "byte", place)
    if args.bandwidth is None:
        return
    letters |= {"W": args.bandwidth, "alpha": args.latency}
    how = {"bandwidth": args.bandwidth, "latency": args.latency}
    took = comm.time(args.collective, **given, **how).total
    text, place = f"{bytes_} / W + {rounds} * alpha", "traffic.comm.time (eq-time, eq-ring-time)"
    yield line("time", text, letters, took, "second", place)


def _of_cost(args: Typed) -> Iterator[Formula]:
    from mathlib.cli.costs import prices_of
    from mathlib.cli.options import named, peak_of
    from mathlib.compute import cost, flops

    if args.devices is None:
        raise InputError("why cost: expected --devices")
    model = model_of(args)
    device = find_device(named("devices", "device", args.device))
    peak = peak_of(args, device)
    C = flops.run(model, total_tokens=args.train, tokens=args.tokens).total
    letters = {"C": C, "n": args.devices, "u": args.utilization, "X": peak}
    rate = peak * args.utilization
    T = cost.training_time(flop=C, devices=args.devices, achieved=rate)
    place = "compute.cost.training_time"
    yield line("time", "C / (n * u * X)", letters, T, "second", place)
    hours = cost.device_hours(devices=args.devices, seconds=T)
    letters |= {"T": T}
    yield line("device-hours", "n * T / 3600", letters, hours, "hours", "compute.cost")
    for mode, each in prices_of(args, device).items():
        letters |= {"H": hours, "g": each}
        paid = cost.price(device_hours=hours, price_per_hour=each)
        what = mode if mode == "price" else f"price {mode}"
        yield line(what, "H * g", letters, paid, "", "compute.cost.price")


def _of_time(args: Typed) -> Iterator[Formula]:
    """A line for each part, one for their sum, and one for a whole run where that was asked."""
    from mathlib.plan import step
    from mathlib.plan.laws import LAWS, ON_HOST

    model = model_of(args)
    lay, on = layout_of(args, model, uneven=True), machine_of(args, model)
    parts = step.step(on, lay, offload=args.offload)
    letters = step.letters(on, lay, offload=args.offload)
    place = "plan.step.letters (eq-plan-step)"
    for name in parts:
        part = ON_HOST if name == "optimizer" and ON_HOST in letters else name
        text, words = LAWS[part]
        right = text.partition("=")[2].strip().replace("**", "^")
        yield line(f"{name}. {words}", right, letters[part], parts.amount(name), "second", place)
    terms = {chr(ord("A") + i): parts.amount(name) for i, name in enumerate(parts)}
    title = f"a step of {args.program} on {on.cluster.title}: {', '.join(parts)}"
    yield line(title, " + ".join(terms), terms, parts.total, "second", "plan.step.step")
    if args.train is not None:
        of_step = {"B": lay.sequences, "s": on.tokens, "T": parts.total}
        took = args.train / (lay.sequences * on.tokens) * parts.total
        of_run = of_step | {"D": args.train}
        what = "a whole run of so many tokens"
        yield line(what, "D / (B * s) * T", of_run, took, "second", "mathlib time")


FORMULAS: dict[str, Callable[[Typed], Iterator[Formula]]] = {
    "params": _of_params,
    "flops": _of_flops,
    "memory": _of_memory,
    "kv": _of_kv,
    "comm": _of_comm,
    "time": _of_time,
    "cost": _of_cost,
}
