"""How many layers each stage takes: evenly, so that the slowest stage is quick, or the fullest is
not too full.

L layers · p stages · m micro_batches · s tokens

A split is a list of layers a stage, in the order of the stages.  The embedding is on the first
stage, head and loss on the last; early stages hold more micro-batches.  So even is seldom best.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

from mathlib.checks import InputError, instance, listed, non_negative, positive, whole
from mathlib.compute import flops, vision
from mathlib.compute.vision import Tower
from mathlib.layout import Layout, stage_layers
from mathlib.memory import fit
from mathlib.parts import Parts
from mathlib.specs import Model, find_model


def even(*, layers: int, stages: int) -> list[int]:
    """L / p layers for each stage, refused where p does not divide L.

    Chapter: schedules
    """
    p = whole("stages", stages)
    return [len(held) for held in stage_layers(layers, p)]


def by_time(
    *, times: Sequence[float], stages: int, embedding: float = 0.0, head: float = 0.0
) -> list[int]:
    """The split whose slowest stage is quickest: the least max over stages of the sum of their
    layers' times, with the ends' on the first and the last.

    Chapter: schedules (eq-split)
    """
    p, sums = whole("stages", stages), _sums(times)
    ends = non_negative("embedding", embedding), non_negative("head", head)

    def seconds(s: int, first: int, count: int) -> float:
        return sums[first + count] - sums[first] + _ends(s, p, ends)

    return _least_worst(seconds, len(sums) - 1, p)


def by_device(
    *,
    times: Sequence[float],
    speeds: Sequence[float],
    rooms: Sequence[float] = (),
    sizes: Sequence[float] = (),
    kept: Sequence[float] = (),
    head: float = 0.0,
) -> list[int]:
    """The split whose slowest stage is quickest on unequal devices: the least max over stages of
    their layers' times, with the head's on the last, over the device's speed.

    rooms: bytes that each device has for layers; a layer takes its `sizes`, and `kept` for each
    micro-batch in flight, of which stage s of p has p - s, as in 1F1B.

    Chapter: unequal (eq-unequal-stages)
    """
    sums, rates = _sums(times), [positive("speeds", one) for one in listed("speeds", speeds)]
    p, ends = len(rates), (0.0, non_negative("head", head))
    limits = [positive("rooms", one) for one in listed("rooms", rooms)]
    if limits and len(limits) != p:
        raise InputError(f"rooms = {limits}: expected {p}, one for each of the speeds")
    if not limits and (sizes or kept):
        raise InputError("sizes, kept: expected rooms beside them, one for each of the speeds")
    own, flying = (_of_layers(*one, sums) for one in (("sizes", sizes), ("kept", kept)))

    def seconds(s: int, first: int, count: int) -> float:
        states, activations = (of[first + count] - of[first] for of in (own, flying))
        if limits and states + (p - s) * activations > limits[s]:
            return math.inf
        return (sums[first + count] - sums[first] + _ends(s, p, ends)) / rates[s]

    if split := _least_worst(seconds, len(sums) - 1, p):
        return split
    least = own[-1] + flying[-1]
    raise InputError(
        f"rooms = {limits}: expected more, as no split fits; with one micro-batch in flight all "
        f"layers take {least:g} bytes"
    )


def stage_times(
    split: Sequence[int],
    *,
    times: Sequence[float],
    embedding: float = 0.0,
    head: float = 0.0,
) -> list[float]:
    """Seconds of each stage of a split.

    Chapter: schedules
    """
    sums, ends = _sums(times), (non_negative("embedding", embedding), non_negative("head", head))
    counts = _counts(split, len(sums) - 1)
    firsts = [sum(counts[:s]) for s in range(len(counts))]
    return [
        sums[first + count] - sums[first] + _ends(s, len(counts), ends)
        for s, (first, count) in enumerate(zip(firsts, counts, strict=True))
    ]


def work(
    model: str | Model, *, tokens: int | None = None, causal: bool = False
) -> tuple[list[float], float]:
    """FLOP of a forward pass of one sequence: in each layer, and in the head.

    What a split by time needs when nothing has been measured; the embedding computes nothing.

    Chapter: schedules
    """
    model = _uniform(find_model(model))
    every = flops.forward(model, tokens=tokens, causal=causal)
    head = every.amount("vocabulary")
    return [(every.total - head) / model.layers] * model.layers, head


def work_with_tower(
    tower: Tower, model: str | Model, *, images: int, tokens: int | None = None
) -> tuple[list[float], float, float]:
    """FLOP of a forward pass of one sequence with some images before it: in each layer of the
    tower, then of the text model, of the patches' embedding, and of the head.

    The projector stands behind the tower's last layer. Patches are among the `tokens`.

    Chapter: schedules
    """
    text = find_model(model)
    layers, head = work(text, tokens=tokens)
    found = vision.tower_flops(tower, text_width=text.width, images=images)
    ends = {name: found.amount(name) for name in ("patches", "projector")}
    own = [(found.total - sum(ends.values())) / tower.layers] * tower.layers
    own[-1] += ends["projector"]
    return own + layers, ends["patches"], head


def passed_with_tower(
    tower: Tower, model: str | Model, split: Sequence[int], *, tokens: int | None = None
) -> list[tuple[int, int]]:
    """Rows and columns of what passes between two stages of a split, for one sequence with one
    image: the tower's tokens inside the tower, patches as wide as the text behind it, and all
    `tokens`, the patches among them, from the first layer of the text model on.

    Chapter: schedules
    """
    text, L = find_model(model), instance("tower", tower, Tower).layers
    s = whole("tokens", text.context if tokens is None else tokens, least=tower.patches)
    counts, found = _counts(split, L + text.layers), list[tuple[int, int]]()
    for stage in range(1, len(counts)):
        done = sum(counts[:stage])
        rows = tower.tokens if done < L else tower.patches if done == L else s
        found.append((rows, tower.width if done < L else text.width))
    return found


def by_memory(model: str | Model, layout: Layout, **options: Any) -> list[int]:
    """The split whose fullest stage is least full: the least max over stages of
    `stage_bytes`.

    `options` go to `memory.fit.training`.

    Chapter: schedules (eq-split)
    """
    model = _uniform(find_model(model))
    p = instance("layout", layout, Layout).pipeline

    @cache
    def held(s: int, count: int) -> float:
        return _stage(model, layout, s, count, options).total

    return _least_full(held, model.layers, p)


def stage_bytes(
    model: str | Model, layout: Layout, split: Sequence[int], **options: Any
) -> list[Parts]:
    """Bytes of a device of each stage of a split, at the fullest moment of a step:
    weights, states, gradients, and the activations of all micro-batches in flight.

    Chapter: schedules
    """
    model = _uniform(find_model(model))
    counts = _counts(split, model.layers, instance("layout", layout, Layout).pipeline)
    return [_stage(model, layout, s, count, options) for s, count in enumerate(counts)]


def _stage(model: Model, layout: Layout, s: int, count: int, options: dict[str, Any]) -> Parts:
    """A stage of `count` layers holds what it would if all the others had as many."""
    if layout.chunks > 1:
        raise InputError(f"layout: chunks = {layout.chunks}: expected 1, a split has one a stage")
    as_many = replace(model, layers=count * layout.pipeline)
    return fit.training(as_many, layout, stage=s, **options)


def _least_full(held: Callable[[int, int], float], layers: int, p: int) -> list[int]:
    """The split with the least worst held(stage, layers), where more layers need more.

    From nearly equal numbers on, the fullest stage gives a layer to the one that is least full with
    one more, as long as that is less full then. Of splits that are as good, the one whose first
    stages have the fewest.
    """
    counts = _nearly_even(layers, p)
    while True:
        fullest = max(range(p), key=lambda s: held(s, counts[s]))
        least = min(range(p), key=lambda s: held(s, counts[s] + 1))
        if counts[fullest] == 1 or held(least, counts[least] + 1) >= held(fullest, counts[fullest]):
            break
        counts[fullest] -= 1
        counts[least] += 1
    worst, split = max(held(s, count) for s, count in enumerate(counts)), list[int]()
    for s in reversed(range(p)):
        most = layers - sum(split) - s  # each stage before needs a layer
        while counts[s] < most and held(s, counts[s] + 1) <= worst:
            counts[s] += 1
        split.insert(0, min(counts[s], most))
    return split


def _nearly_even(layers: int, p: int) -> list[int]:
    """Numbers of layers that differ by one at most; each stage needs one."""
    if p > layers:
        raise InputError(f"stages = {p}: expected at most one for each of {layers} layers")
    return [b - a for a, b in pairwise(s * layers // p for s in range(p + 1))]


def _least_worst(cost: Callable[[int, int, int], float], layers: int, p: int) -> list[int]:
    """The split with the least worst stage, cost(stage, first layer, layers); each has a layer.
    None, where each has an infinite cost.

    best[n] is the best way to give the first n layers to the stages so far: add a stage, and try
    all numbers of layers for it, fewest first, until it alone is worse than what was found, or
    than stages of nearly equal numbers.
    """
    counts = _nearly_even(layers, p)
    enough = max(cost(s, sum(counts[:s]), count) for s, count in enumerate(counts))
    best: dict[int, tuple[float, list[int]]] = {0: (0.0, [])}
    for s in range(p):
        longest = layers - (p - s - 1)  # the stages behind need one layer each
        grown: dict[int, tuple[float, list[int]]] = {}
        for n in range(s + 1, longest + 1):
            least: tuple[float, list[int]] = (math.inf, [])
            for first in range(n - 1 if s else 0, s - 1, -1):
                here = cost(s, first, n - first)
                if here > min(least[0], enough):
                    break
                if first in best:
                    worst, split = best[first]
                    least = min(least, (max(worst, here), [*split, n - first]))
            if least[1]:
                grown[n] = least
        best = grown
    return best[layers][1] if layers in best else []


def _sums(times: Sequence[float], name: str = "times") -> list[float]:
    """Sums of the first 0, 1, 2, ... layers' numbers."""
    sums = [0.0]
    for one in listed(name, times):
        sums.append(sums[-1] + non_negative(name, one))
    return sums


def _of_layers(name: str, given: Sequence[float], sums: Sequence[float]) -> list[float]:
    """Sums of a number for each layer, which is 0 if none is given."""
    layers = len(sums) - 1
    numbers = listed(name, given) or [0.0] * layers
    if len(numbers) != layers:
        raise InputError(f"{name} of {len(numbers)} layers: expected {layers}, as many as times")
    return _sums(numbers, name)


def _ends(s: int, p: int, ends: tuple[float, float]) -> float:
    return ends[0] * (s == 0) + ends[1] * (s == p - 1)


def _counts(split: Sequence[int], layers: int, stages: int = 0) -> list[int]:
    counts = [whole("split", count) for count in listed("split", split)]
    if sum(counts) != layers or stages and len(counts) != stages:
        of = f"{stages} numbers" if stages else "numbers"
        raise InputError(f"split = {counts}: expected {of} that add up to {layers} layers")
    return counts


def _uniform(model: Model) -> Model:
    """A model whose layers are all alike, as a split that only counts them takes for granted."""
    if 0 < model.expert_layers < model.layers:
        raise InputError(
            f"model = {model.name!r}: expected layers of one kind, but {model.expert_layers} of "
            f"{model.layers} have experts; split by measured times"
        )
    return model
