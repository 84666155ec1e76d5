"""The time of a layer in a training step, forward and backward, by part; and that of the loss.

t tensor · F FLOP of its matmuls · X FLOP/s · W bandwidth of the memory
The letters of a part are what its formula is given; `plan.step` adds those of a whole step.
"""

from math import sqrt

from mathlib.compute import roofline
from mathlib.plan import work
from mathlib.plan.machine import Forward, Machine, Pass
from mathlib.specs import Layout

Way = Layout | work.Way
Letters = dict[str, dict[str, float]]  # of a part: what its letters stand for
AGAIN = ("c_p", "c_a", "c_m", "t_p", "t_a", "t_m")  # shares and seconds: matmuls, attention, rest


def pass_seconds(on: Machine, way: Way) -> Pass:
    """A layer and the loss; what is asked again is remembered."""
    key = (
        *(way.micro_batch, way.tensor, way.context, way.expert, way.expert_split),
        *(way.sequence_parallel, way.recompute),
    )
    found = on.passes.get(key)
    if found is None:
        found = on.passes[key] = layer_seconds(on, way)[0]
    return found


def layer_seconds(on: Machine, way: Way) -> tuple[Pass, Letters]:
    """A layer's seconds by part, and the letters of their formulas."""
    fused = on.rates.fused or way.context > 1
    forward = _forward(on, way, fused)
    both = 3.5 if fused else 3.0  # forward and backward of attention
    matmuls = 2.0 if on.adapters else 3.0  # frozen weights have no gradients
    seconds = (*forward.seconds, forward.narrow)
    whole = [part * n for part, n in zip(seconds, (matmuls, both, 3.0, 3.0), strict=True)]
    share = _again(way.recompute, on.rates.again, fused)
    again = sum(part * n for part, n in zip(seconds, (*share, share[0]), strict=True))
    whole[0] += whole.pop()
    busy, launch = sum(whole) + again, _launch(on, way, share[0])
    computing = sqrt(busy**2 + launch**2)
    tensor, context, expert = _exchanges(on, way, forward.per, whole[0])
    parts = (
        *whole,
        computing - busy,
        again,
        max(
            tensor["n"] * tensor["t_r"] * (1 - tensor["o"]),
            tensor["n"] * tensor["t_r"] - tensor["t_p"],
        ),
        max(context["t_c"] * (1 - context["o"]), context["t_c"] - context["t_b"]),
        expert["n"] * expert["t_a"] * (1 - expert["o"]),
    )
    letters = {
        "matmuls": {"F": forward.flop, "X": on.arithmetic, "Q": forward.moved, "W": on.stream},
        "attention": {"c": both, "A": forward.per.attention, "Y": on.scores},
        "memory traffic": {"Q": forward.traffic, "W": on.stream},
        "waiting for launches": {"t_b": busy, "t_k": launch},
        "recomputation": dict(zip(AGAIN, (*share, *forward.seconds), strict=True)),
        **{"TP communication": tensor, "CP communication": context, "EP communication": expert},
    }
    return Pass(parts, sum(parts), computing, forward.loss), letters


def _forward(on: Machine, way: Way, fused: bool) -> Forward:
    """A layer forward and the loss; recomputation changes none of it."""
    shape = (way.micro_batch, way.tensor, way.context, way.sequence_parallel, way.expert)
    found = on.forwards.get(shape)
    if found is None:
        b, t, among, split, ep = shape
        r, per = on.rates, work.layer(on.model, on.tokens, b, t, among, fused, split, ep)
        F, Q = per.flop + per.grouped / r.grouped, per.moved * r.reread
        traffic, narrow = per.traffic * r.traffic, 0.0
        if on.adapters:
            Q += on.adapters.unpacked(on.model)
            flop, bytes_ = on.adapters.narrow(on.model, way.micro_batch * on.tokens)
            narrow = roofline.in_turn(
                flop=flop, moved=bytes_, peak=on.arithmetic, bandwidth=on.stream
            )
        seconds = (
            roofline.in_turn(flop=F, moved=Q, peak=on.arithmetic, bandwidth=on.stream),
            per.attention / on.scores,
            traffic / on.stream,
        )
        found = on.forwards[shape] = Forward(per, F, Q, traffic, seconds, _loss(on, way), narrow)
    return found


def _again(recompute: str, share: float, fused: bool) -> tuple[float, float, float]:
    """What is computed a second time, of matmuls, attention and the rest."""
    if recompute == "none":
        return 0.0, 0.0, 0.0
    if recompute == "full":
        return 1.0, 1.0, 1.0
    return share, 0.0 if share else 1.0, share if fused else 0.5


def _launch(on: Machine, way: Way, again: float) -> float:
    """Seconds in which a layer's kernels are launched, of matmuls some a second time."""
    r = on.rates
    more = r.launch_more if way.tensor * way.context * way.expert > 1 else 0.0
    beside = on.adapters.launches(on.model) if on.adapters else 1.0
    return (r.launch + more) * beside * (1 + again / 3)


def _loss(on: Machine, way: Way) -> float:
    """Seconds of head and loss, forward and backward."""
    end, r = work.ends(on.model, on.tokens, way.micro_batch, way.tensor, way.context), on.rates
    moved = end.moved * r.reread
    matmuls = roofline.in_turn(flop=end.flop, moved=moved, peak=on.wide, bandwidth=on.stream)
    return (2 if on.adapters else 3) * matmuls + 2 * end.traffic * r.traffic / on.stream


def _exchanges(
    on: Machine, way: Way, per: work.Layer, matmuls: float
) -> tuple[dict[str, float], ...]:
    """How often a layer's tensor, context and expert ranks exchange something, how long each time
    takes, and what of it hides; both directions. Tensor ranks hide no more than their matmuls
    take, and nothing on the network: Megatron Core's user buffers are those of a node. Keys and
    values go round three times, gradients in 16 bits and cp - 1 hops, as in Transformer Engine's
    ring; torch's and ours send gradients in 32 bits over cp hops, 4.3 times in all at cp = 8.
    """
    r, t, among, ep = on.rates, way.tensor, way.context, way.expert
    again = 1 if way.recompute == "full" else 0
    ring = on.ring(2 * (t - 1) / t * per.tensor, t, 1)
    passed = (3 + again) * on.ring((among - 1) / among * per.keys, among, t)
    behind = (3.5 + again) * per.attention / on.scores
    sent = r.visit_bytes / work.HALF * per.visits
    visit = on.all_to_all((ep - 1) / ep * sent, ep, way.expert_split)
    hidden = r.tensor_hidden if on.neighbours(t, 1) == t else 0.0
    return (
        {"n": (2 + again) * per.exchanges, "t_r": ring, "o": hidden, "t_p": matmuls},
        {"t_c": passed, "t_b": behind, "o": r.tensor_hidden},
        {"n": 4 + 2 * again, "t_a": visit, "o": r.expert_hidden},
    )
