"""What a layer keeps for its backward, what getting a tensor back costs, and the best choice.

L layers · h width · a heads · k kv_heads · d head_dim · f ffn_width · s tokens · b micro_batch
e bytes an element · X FLOP/s that one device achieves · W bandwidth of a link
Every tensor follows from the layer's input and from results of matmuls, by steps without a
matmul: so it costs the matmul that made it, or nothing. A dropout's mask counts as kept or
drawn again by itself; torch's comes with a result, so its last matmul is done again for it.
"""

from collections.abc import Iterable
from functools import lru_cache
from math import gcd
from typing import Any, NamedTuple

from mathlib.checks import InputError, ceil_div, instance, listed, one_of, positive, whole
from mathlib.compute import flops
from mathlib.memory import activations
from mathlib.specs import Model, find_model

POLICIES = ("none", "selective", "matmuls", "size", "full")
INPUT = "1. norm input"  # the layer's own, which every policy keeps
READ = {  # what the last step to a tensor reads, where that step is no matmul
    "attention input": (INPUT,),
    "softmax": ("softmax",),  # the scores: as large
    "softmax after dropout": ("softmax", "softmax mask"),
    "mlp input": ("2. norm input",),
    "activated gate": ("gate",),
}
STEPS = 4096  # sizes are counted in parts of the whole, where they have no common measure


class Saved(NamedTuple):
    """A tensor that a layer keeps for its backward."""

    name: str
    bytes: float
    flop: float  # of the matmul that makes it; 0: norms, softmax and the like
    core: bool  # between queries and values


class Choice(NamedTuple):
    """What all layers keep, and what they compute a second time."""

    bytes: float  # with the inputs of the layers
    flop: float
    layers: dict[str, int]  # in how many layers each tensor is kept


def _matmuls(model: Model, s: int, b: int, attention: str) -> dict[str, float]:
    """FLOP of the matmul behind a tensor; the others cost none."""
    h, a, k, d, f = model.width, model.heads, model.kv_heads, model.head_dim, model.ffn_width
    rows, normed = s * b, bool(model.query_key_norm)
    core = b * a * flops.matmul(rows=s, inner=d, columns=s)
    return {
        "before query and key norm": flops.matmul(rows=rows, inner=h, columns=(a + k) * d),
        "queries": 0 if normed else flops.matmul(rows=rows, inner=h, columns=a * d),
        "keys": 0 if normed else flops.matmul(rows=rows, inner=h, columns=k * d),
        "values": flops.matmul(rows=rows, inner=h, columns=k * d),
        "softmax": core,
        "projection input": 2 * core if attention == "flash" else core,
        "2. norm input": flops.matmul(rows=rows, inner=a * d, columns=h),
        "activation input": flops.matmul(rows=rows, inner=h, columns=f),
        "gate": flops.matmul(rows=rows, inner=h, columns=f),
        "up": flops.matmul(rows=rows, inner=h, columns=f),
    }


def tensors(
    model: str | Model,
    *,
    micro_batch: int = 1,
    tokens: int | None = None,
    attention: str | None = None,
    dropout: bool | None = None,
    bytes_per_element: float = 2,
) -> tuple[Saved, ...]:
    """A dense layer's tensors for backward but its input, and the FLOP behind each.

    A result of a matmul over `inner` numbers takes e bytes and cost 2 inner FLOP;
    everything else comes back without a matmul.

    Chapter: activations (eq-thirty-four, eq-price)
    """
    model = find_model(model)
    _refuse(model)
    s = activations.sequence_length(model, tokens)
    b = whole("micro_batch", micro_batch)
    how = activations.saving_of(model, attention, dropout, bytes_per_element)
    made = _matmuls(model, s, b, how.attention)
    found = []
    for one in activations.layer_tensors(model, s, b, 1, how, "none", 0):
        twice = one.name in ("input", "output mask")  # in attention and in the MLP
        name = f"{one.group} {one.name}" if twice else one.name
        if name != INPUT:
            found.append(Saved(name, one.bytes, made.get(name, 0), one.core))
    return tuple(found)


def _refuse(model: Model) -> None:
    """Only layers of one kind, one after the other."""
    for name in ("experts", "latent", "window", "parallel_block", "attention_sinks"):
        if getattr(model, name):
            raise InputError(f"model = {model.title}: expected one without {name}")
    if model.block_norms != 2:
        raise InputError(f"model = {model.title}: expected block_norms = 2")


def price(*, inner: float, bytes_per_element: float = 2) -> float:
    """FLOP to get a byte back: 2 inner / e, where `inner` numbers are summed for each result.

    Chapter: activations (eq-price)
    """
    return 2 * positive("inner", inner) / positive("bytes_per_element", bytes_per_element)


def names(
    model: str | Model, *, policy: str, limit: float | None = None, **options: Any
) -> tuple[str, ...]:
    """What a policy keeps besides the layer's input; `options` go to `tensors`.

    none: everything. selective: all but the attention's core. matmuls: results of matmuls.
    size: what has no more than `limit` bytes. full: nothing.

    Chapter: activations
    """
    one_of("policy", policy, POLICIES)
    if limit is None and policy == "size":
        raise InputError("limit = None: expected bytes, as the policy is by size")
    largest = 0.0 if limit is None else positive("limit", limit)
    keeps = {
        "none": lambda one: True,
        "selective": lambda one: not one.core,
        "matmuls": lambda one: one.flop > 0,
        "size": lambda one: one.bytes <= largest,
        "full": lambda one: False,
    }[policy]
    return tuple(one.name for one in tensors(model, **options) if keeps(one))


def layer(model: str | Model, *, keep: Iterable[str], **options: Any) -> Choice:
    """Bytes that one layer keeps and FLOP that it does again, if it keeps these of its tensors.

    e s b h for its input, and what is named; each matmul whose result is not is done again.

    Chapter: activations (eq-again)
    """
    found, model = tensors(model, **options), find_model(model)
    kept = {one_of("keep", name, [one.name for one in found]) for name in listed("keep", keep)}
    sizes = [one.bytes for one in found if one.name in kept]
    again = [one.flop for one in found if one.name not in kept]
    return Choice(_input(model, options) + sum(sizes), sum(again), dict.fromkeys(sorted(kept), 1))


def again_seconds(
    model: str | Model,
    *,
    keep: Iterable[str],
    flops_per_second: float,
    bytes_per_second: float,
    **options: Any,
) -> float:
    """Seconds to have back what one layer does not keep: FLOP / X, and for the steps without a
    matmul, the bytes that they read and write over W, here the bandwidth of the device's memory.

    Chapter: activations (eq-again-time)
    """
    X = positive("flops_per_second", flops_per_second)
    W = positive("bytes_per_second", bytes_per_second)
    keep = tuple(listed("keep", keep))
    flop = layer(model, keep=keep, **options).flop
    sizes = {one.name: one.bytes for one in tensors(model, **options)}
    sizes[INPUT] = _input(find_model(model), options)
    gated = "gate" in sizes
    read = READ | {"second input": ("activated gate", "up") if gated else ("activation input",)}
    dropped = [name for name in sizes if name not in (INPUT, *keep)]
    stepped = [name for name in dropped if name in read or name.endswith("mask")]
    moved = sum(sizes[name] + sum(sizes[one] for one in read.get(name, ())) for name in stepped)
    return flop / X + moved / W


def _input(model: Model, options: dict[str, Any]) -> float:
    """Bytes of a layer's input."""
    asked = ("micro_batch", "tokens", "bytes_per_element")
    return activations.hidden_state(
        model, **{name: options[name] for name in asked if name in options}
    )


def curve(model: str | Model, *, points: int | None = None, **options: Any) -> list[Choice]:
    """Least FLOP done again for every number of bytes that all layers may keep: from nothing but
    their inputs to all matmul results. With `points`, so many of them, evenly.

    A knapsack: bytes are the weight of a tensor, FLOP that need not be done again its value.
    Exact where sizes have a common measure of at least 1/4096 of the whole; else they are rounded
    up to it.

    Chapter: activations (eq-knapsack)
    """
    found = _knapsack(find_model(model), options)
    last = len(found.sizes) - 1
    steps = last if points is None else whole("points", points, least=2) - 1
    return [found.choice(round(i * last / steps)) for i in range(steps + 1)]


class Knapsack(NamedTuple):
    """The best choices, by size; what is in one is read back from the parcels."""

    sizes: list[float]  # bytes kept
    again: list[float]  # FLOP done again
    units: list[int]  # the sizes as they were counted
    parcels: list[tuple[str, int, int, bytes]]  # tensor, layers, units, where it is taken: 0 or 1

    def choice(self, place: int) -> Choice:
        """One of them, with what it keeps."""
        layers: dict[str, int] = {}
        left = self.units[place]
        for name, n, weight, taken in reversed(self.parcels):
            if left >= weight and taken[left - weight]:
                layers[name] = layers.get(name, 0) + n
                left -= weight
        return Choice(self.sizes[place], self.again[place], layers)


def _knapsack(model: Model, options: dict[str, Any]) -> Knapsack:
    made = tuple(one for one in tensors(model, **options) if one.flop)
    return _packed(made, model.layers, model.layers * _input(model, options))


@lru_cache(16)
def _packed(made: tuple[Saved, ...], L: int, inputs: float) -> Knapsack:
    weights = [round(one.bytes) for one in made]
    unit = max(gcd(*weights), ceil_div(L * sum(weights), STEPS))
    spared, sizes = [0.0], [inputs]  # most FLOP with so many units, and the bytes that it takes
    parcels = []
    for one, n in [(one, n) for one in made for n in _parcels(L)]:
        weight, gain = n * ceil_div(round(one.bytes), unit), n * one.flop
        without = (spared + spared[-1:] * weight)[weight:]
        taken = bytes([low + gain > high for low, high in zip(spared, without, strict=True)])
        spared = _grown(spared, taken, weight, gain)
        sizes = _grown(sizes, taken, weight, n * one.bytes)
        parcels.append((one.name, n, weight, taken))
    rises = [i for i, most in enumerate(spared) if not i or most > spared[i - 1]]
    everything = L * sum(one.flop for one in made)
    return Knapsack(
        [sizes[i] for i in rises], [everything - spared[i] for i in rises], rises, parcels
    )


def _grown(sums: list[float], taken: bytes, weight: int, more: float) -> list[float]:
    """Sums for each number of units, with another parcel where it is taken."""
    without = sums + sums[-1:] * weight
    pairs = zip(taken, sums, without[weight:], strict=True)
    return without[:weight] + [low + more if yes else high for yes, low, high in pairs]


def _parcels(n: int) -> list[int]:
    """1, 2, 4, ... and a rest: any number up to n is a sum of some of them."""
    found: list[int] = []
    while n:
        found.append(min(n, 2 ** len(found)))
        n -= found[-1]
    return found


def best(model: str | Model, *, budget: float, **options: Any) -> Choice:
    """The choice with least FLOP done again that keeps no more than `budget` bytes.

    Chapter: activations (eq-knapsack)
    """
    found = _knapsack(find_model(model), options)
    least = found.sizes[0]
    if positive("budget", budget) < least:
        accepted = f"{least:g} or more, the layers' inputs alone"
        raise InputError(f"budget = {budget}: expected {accepted}")
    within = [place for place, size in enumerate(found.sizes) if size <= budget]
    return found.choice(within[-1])


def grouped(model: str | Model, *, every: int, **options: Any) -> tuple[float, float]:
    """Bytes kept where `every` layers in a row keep one input and are recomputed together: after
    forward, and at the most in backward, when one group is whole again.

    ceil(L / every) e s b h, and with it the tensors of `every` layers.

    Chapter: activations (eq-groups)
    """
    model, together = find_model(model), whole("every", every)
    L, x = model.layers, _input(model, options)
    rest = sum(one.bytes for one in tensors(model, **options))
    after = ceil_div(L, together) * x
    last = L - (ceil_div(L, together) - 1) * together  # layers of the last group: it is first back
    most = after - x + last * (x + rest)
    if together < L:  # by then the last group's input is gone
        most = max(most, after - 2 * x + together * (x + rest))
    return after, most


def even_bandwidth(*, inner: float, flops_per_second: float, bytes_per_element: float = 2) -> float:
    """Bytes/s of a link over which a tensor comes back from the host as quickly as its matmul is
    done again: W = e X / (2 inner).

    Chapter: activations (eq-link)
    """
    X = positive("flops_per_second", flops_per_second)
    return X / price(inner=inner, bytes_per_element=bytes_per_element)


def hiding_bandwidth(model: str | Model, *, flops_per_second: float, **options: Any) -> float:
    """Bytes/s of a link that takes all that a layer keeps to the host while the next one's forward
    is computed: W = X A / F, with A bytes and F FLOP of a layer.

    Chapter: activations (eq-hidden-copy)
    """
    X = positive("flops_per_second", flops_per_second)
    whole_layer = layer(model, keep=names(model, policy="none", **options), **options)
    return X * whole_layer.bytes / forward_flop(model, **options)


def forward_flop(model: str | Model, **options: Any) -> float:
    """FLOP of one layer's forward: all its matmuls, the last one too, whose result nobody keeps.

    Chapter: activations
    """
    found, model = tensors(model, **options), find_model(model)
    rows = options.get("micro_batch", 1) * activations.sequence_length(model, options.get("tokens"))
    last = flops.matmul(rows=rows, inner=model.ffn_width, columns=model.width)
    return last + sum(one.flop for one in found)


def overhead(choice: Choice, model: str | Model, **options: Any) -> float:
    """FLOP done again over those of a step without recomputation, of the layers alone: again / 3F.

    Chapter: activations
    """
    model = find_model(model)
    return instance("choice", choice, Choice).flop / (
        3 * model.layers * forward_flop(model, **options)
    )
