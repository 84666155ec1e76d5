"""The formulas behind a planned step, each with its numbers, for every part of its time.

A formula is shown only where its numbers give the part that the planner gives.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import ceil

from mathlib.checks import InputError
from mathlib.plan import step, work
from mathlib.show import says
from mathlib.show.equation import Number, equation
from mathlib.specs import Layout

LAWS = {  # part: its formula, and what its letters are
    "products": (
        "T = 3 * m * l * (F / X + Q / W)",
        "A layer's products, once forward and twice backward, for m micro-batches in l layers of a "
        "stage: F FLOP at the X that the device reaches, Q bytes at W.",
    ),
    "attention": (
        "T = c * m * l * A / Y",
        "A FLOP of scores and values at the Y that the kernel reaches; forward and backward are c "
        "forwards.",
    ),
    "memory traffic": (
        "T = 3 * m * l * Q / W",
        "Norms, sums and activation functions: Q bytes forward at W.",
    ),
    "waiting for launches": (
        "T = m * l * (sqrt(t_b ** 2 + t_k ** 2) - t_b)",
        "A layer's kernels take t_k to launch; t_b is what they compute.",
    ),
    "recomputation": (
        "T = m * l * (c_p * t_p + c_a * t_a + c_m * t_m)",
        "The shares c of a layer's forward that are computed again: products, attention, the rest.",
    ),
    "tensor exchange": (
        "T = m * l * n * t_r * (1 - o)",
        "n times a layer, tensor ranks add up their parts of the stream, each time in t_r; a share "
        "o hides behind products.",
    ),
    "context exchange": (
        "T = m * l * max(t_c * (1 - o), t_c - t_b)",
        "Keys and values go round in t_c; a share o hides, or as much as attention takes, t_b.",
    ),
    "expert exchange": (
        "T = m * l * n * t_a * (1 - o)",
        "Tokens go to their experts and back, n times, each time in t_a; a share o hides.",
    ),
    "loss on the last stage": (
        "T = m * (n * t + t_h - l * t)",
        "Head and loss take t_h; the last stage, with n layers of t each, is so much slower than "
        "one with l.",
    ),
    "messages between stages": (
        "T = m * v * t_s",
        "A micro-batch waits t_s for its activations and gradients, once for each of v chunks.",
    ),
    "bubble": (
        "T = (p - 1) / v * (L / p * t + t_h / p + t_s)",
        "A micro-batch passes p stages, of L layers in all, before every stage is busy.",
    ),
    "data exchange": (
        "T = max(t_x * (1 - o), t_x - t_b)",
        "Gradients and weights take t_x in all; a share o hides, or as much as is computed then, "
        "t_b.",
    ),
    "optimizer": (
        "T = 30 * P / (S * W)",
        "Adam reads and writes 30 bytes for each parameter: of the P of a device it keeps one in "
        "S, at W.",
    ),
    "crowding": (
        "T = c * log2(n) * t_0",
        "All else, t_0, takes a share c longer for each doubling of the n nodes.",
    ),
}


@dataclass(frozen=True)
class Law:
    """A part of a sum: its amount, its formula as MathML ("" where none is known), in words."""

    name: str
    amount: float
    formula: str
    words: str


def law(name: str, amount: Number, words: str, text: str, numbers: dict[str, Number]) -> Law:
    """A law that holds; without its formula where the numbers do not satisfy it."""
    left = text.partition("=")[0].strip()
    try:
        formula = equation(text, **{left: amount}, **numbers)
    except InputError:
        formula = ""
    value = amount[0] if isinstance(amount, tuple) else amount
    return Law(name, value, formula, words if formula else "")


def timed(value: float) -> Number:
    """Seconds, as an equation shows them."""
    return value, says.time(value)


def sized(value: float) -> Number:
    """Bytes, as an equation shows them."""
    return value, says.size(value)


def seconds(on: step.Machine, layout: Layout) -> list[Law]:
    """The parts of a step with their formulas, in the order in which the planner adds them."""
    of = _Step(on, layout)
    numbers = dict([*_computed(of), *_exchanged(of), *_waited(of)])
    found = []
    for name, amount in of.parts.items():
        text, words = LAWS.get(name, ("T = 0", ""))
        found.append(law(name, timed(amount), words, text, numbers.get(name, {})))
    return found


@dataclass(frozen=True, eq=False)
class _Step:
    """A step of a layout, taken apart: what its parts have in common."""

    on: step.Machine
    layout: Layout

    @cached_property
    def parts(self) -> dict[str, float]:
        """Seconds by part, as the planner has them."""
        found = step.step(self.on, self.layout)
        return {name: found.amount(name) for name in found}

    def sum(self, names: tuple[str, ...]) -> float:
        return sum(self.parts.get(name, 0.0) for name in names)

    @cached_property
    def layers(self) -> int:
        """Of a stage; the last one has the rest."""
        lay, L = self.layout, self.on.model.layers
        return ceil(L / (lay.pipeline * lay.chunks)) * lay.chunks

    @cached_property
    def each(self) -> int:
        """How often a stage computes a layer."""
        return self.layout.micro_batches * self.layers

    @property
    def times(self) -> dict[str, Number]:
        return {"m": self.layout.micro_batches, "l": self.layers}

    @property
    def reached(self) -> dict[str, Number]:
        return {"W": (self.on.stream, says.rate(self.on.stream))}

    @cached_property
    def fused(self) -> bool:
        return self.on.rates.fused or self.layout.context > 1

    @cached_property
    def per(self) -> work.Layer:
        """Amounts of a layer forward."""
        lay, on = self.layout, self.on
        shape = (on.model, on.tokens, lay.micro_batch, lay.tensor, lay.context)
        return work.layer(*shape, self.fused, lay.sequence_parallel, lay.expert)

    @cached_property
    def held(self) -> work.Held:
        """Parameters of a device."""
        lay = self.layout
        return work.held(self.on.model, lay.tensor, lay.pipeline, lay.expert, lay.expert_split)

    @cached_property
    def layer(self) -> float:
        """Seconds of a layer in all, for one micro-batch."""
        return self.sum(step.NAMES[:8]) / self.each

    @cached_property
    def head(self) -> float:
        """Seconds of head and loss, for one micro-batch."""
        lay, on, r = self.layout, self.on, self.on.rates
        end = work.ends(on.model, on.tokens, lay.micro_batch, lay.tensor, lay.context)
        products = end.flop / on.wide + end.moved * r.reread / on.stream
        return 3 * products + 2 * end.traffic * r.traffic / on.stream

    @cached_property
    def again(self) -> tuple[float, float, float]:
        """Shares of products, attention and the rest that are computed a second time."""
        if self.layout.recompute == "none":
            return 0.0, 0.0, 0.0
        if self.layout.recompute == "full":
            return 1.0, 1.0, 1.0
        share = self.on.rates.again
        return share, 0.0 if share else 1.0, share if self.fused else 0.5


Numbers = tuple[str, dict[str, Number]]  # a part, and the letters of its formula


def _computed(of: _Step) -> Iterator[Numbers]:
    """What a device computes."""
    on, per, r, lay = of.on, of.per, of.on.rates, of.layout
    flop, moved = per.flop + per.grouped / r.grouped, per.moved * r.reread
    traffic, X = per.traffic * r.traffic, (on.arithmetic, says.speed(on.arithmetic))
    work_: dict[str, Number] = {"F": (flop, says.flop(flop)), "Q": sized(moved), "X": X}
    yield "products", work_ | of.times | of.reached
    Y, A = (on.scores, says.speed(on.scores)), (per.attention, says.flop(per.attention))
    scores: dict[str, Number] = {"c": 3.5 if of.fused else 3, "A": A, "Y": Y}
    yield "attention", scores | of.times
    yield "memory traffic", {"Q": sized(traffic)} | of.times | of.reached

    c_p, c_a, c_m = of.again
    busy = of.sum((*step.NAMES[:3], step.NAMES[4])) / of.each
    more = r.launch_more if lay.tensor * lay.context * lay.expert > 1 else 0.0
    t_k = timed((r.launch + more) * (1 + c_p / 3))
    yield "waiting for launches", {"t_b": timed(busy), "t_k": t_k} | of.times

    shares: dict[str, Number] = {"c_p": c_p, "c_a": c_a, "c_m": c_m}
    forward = {"t_p": flop / on.arithmetic + moved / on.stream, "t_a": per.attention / on.scores}
    forward["t_m"] = traffic / on.stream
    shares |= {letter: timed(time) for letter, time in forward.items()}
    yield "recomputation", shares | of.times

    P = of.held.dense + of.held.experts + of.held.table
    S = lay.shard if lay.zero else 1
    states: dict[str, Number] = {"P": (P, says.count(P)), "S": S}
    yield "optimizer", states | of.reached


def _exchanged(of: _Step) -> Iterator[Numbers]:
    """What ranks send each other inside of a layer, and at the end of a step."""
    on, lay, per, r = of.on, of.layout, of.per, of.on.rates
    t, among, ep = lay.tensor, lay.context, lay.expert
    again = 1 if lay.recompute == "full" else 0
    hidden: dict[str, Number] = {"o": r.tensor_hidden}
    ring = timed(on.ring(2 * (t - 1) / t * per.tensor, t, 1))
    yield "tensor exchange", {"n": (2 + again) * per.exchanges, "t_r": ring} | hidden | of.times

    passed = timed((3 + again) * on.ring((among - 1) / among * per.keys, among, t))
    behind = timed((3.5 + again) * per.attention / on.scores)
    yield "context exchange", {"t_c": passed, "t_b": behind} | hidden | of.times

    visit = timed(on.all_to_all((ep - 1) / ep * per.visits, ep, lay.expert_split))
    yield "expert exchange", {"n": 4 + 2 * again, "t_a": visit, "o": r.expert_hidden} | of.times

    tables = of.held.table * (2 if lay.pipeline == 1 else 1)
    sent = _states_sent(of, of.held.dense + tables, lay.replicas, lay.shard, t)
    apart = (lay.expert_replicas, lay.expert_shard, ep * lay.expert_split)
    sent += _states_sent(of, of.held.experts, *apart)
    computing = on.model.layers / lay.pipeline * of.sum(step.NAMES[:5]) / of.layers
    hides = computing if lay.zero == 3 else computing * 2 / 3 / lay.micro_batches
    yield "data exchange", {"t_x": timed(sent), "t_b": timed(hides), "o": r.data_hidden}


def _states_sent(of: _Step, P: float, N: int, S: int, stride: int) -> float:
    """Seconds in which N ranks with the same P parameters exchange them and their gradients."""
    on, lay, r, m = of.on, of.layout, of.on.rates, of.layout.micro_batches
    if N == 1 or not P:
        return 0.0
    S = S if lay.zero else N
    gradients, weights = (S - 1) / S * P * r.gradient_bytes, (S - 1) / S * P * work.HALF
    if not lay.zero:
        return on.ring(2 * gradients, S, stride)
    once, back = on.ring(gradients, S, stride), on.ring(weights, S, stride)
    copies = N // S
    across = on.ring(2 * (copies - 1) / copies * P / S * r.gradient_bytes, copies, stride * S)
    if lay.zero == 3:
        hops = 3 * r.hop * min(S, 64) * on.model.layers / lay.pipeline
        return m * (2 * back + once + hops) + across
    return (m if lay.zero == 2 else 1) * once + back + across


def _waited(of: _Step) -> Iterator[Numbers]:
    """What stages wait for, and what grows with the nodes."""
    lay, L = of.layout, of.on.model.layers
    p, m, v = lay.pipeline, lay.micro_batches, lay.chunks
    t, t_h = timed(of.layer), timed(of.head)
    t_s = timed(of.parts.get("messages between stages", 0.0) / (m * v))
    last = max(0, L - (p - 1) * of.layers)
    yield "loss on the last stage", {"n": last, "t": t, "t_h": t_h} | of.times
    yield "messages between stages", {"m": m, "v": v, "t_s": t_s}
    yield "bubble", {"p": p, "v": v, "L": L, "t": t, "t_h": t_h, "t_s": t_s}
    others = timed(of.sum(step.NAMES[:-1]))
    nodes = lay.world / of.on.cluster.devices_per_node
    yield "crowding", {"c": of.on.rates.crowd, "n": nodes, "t_0": others}
