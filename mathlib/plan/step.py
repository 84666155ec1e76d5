"""The time of one training step, by part.

L layers · p pipeline stages · v chunks a stage · m micro_batches · N data-parallel ranks
S ranks ZeRO shards over · P parameters · t tensor · s tokens · e bytes of an element
step = m (slowest stage) + (p - 1)/v (a stage) + what is exchanged and not hidden + update
"""

from math import log2

from mathlib.checks import InputError, flag, instance, one_of
from mathlib.compute import flops, params
from mathlib.parts import Parts
from mathlib.plan import calibration, work
from mathlib.plan.adapted import ALONE, Adapters, refuse_split
from mathlib.plan.calibration import Interval
from mathlib.plan.laws import ON_HOST
from mathlib.plan.layer_time import Letters, Way, layer_seconds, pass_seconds
from mathlib.plan.machine import Host, Machine, Pass, machine
from mathlib.plan.work import HERE, Away
from mathlib.specs import Layout, table

__all__ = ["NAMES", "Host", "Machine", "interval", "letters", "machine", "step", "utilization"]

Shard = tuple[int, int]
NAMES = (
    *("matmuls", "attention", "memory traffic", "waiting for launches", "recomputation"),
    *("TP communication", "CP communication", "EP communication", "loss on the last stage"),
    *("messages between stages", "bubble", "offloading", "DP communication"),
    *("optimizer", "crowding"),
)


def seconds_of(on: Machine, way: Way, away: Away = HERE) -> tuple[float, ...]:
    """The parts of a step in the order of NAMES; a way is not checked, for a search's sake."""
    total, update = _shared(on, way, way.zero, way.shard, away)
    one = pass_seconds(on, way)
    hidden = _hides(_computing(on, way, one), way.micro_batches)[way.zero]
    left = max(total * (1 - on.rates.data_hidden), total - hidden)
    parts = (*_stage(on, way, one), _waiting(on, way, one, away), left, update)
    return (*parts, _crowding(on, way) * sum(parts))


def times_of(on: Machine, way: work.Way, shards: list[Shard], away: Away = HERE) -> list[float]:
    """Seconds of a step with each ZeRO stage and group of a family, all else as in `way`."""
    key = (*work.split(way), way.micro_batches, away.states)
    exchanged = on.shared.get(key)
    if exchanged is None:
        exchanged = on.shared[key] = [_shared(on, way, *one, away) for one in shards]
    one = pass_seconds(on, way)
    stage, computing = sum(_stage(on, way, one)), _computing(on, way, one)
    stage += _waiting(on, way, one, away)
    shown, m = 1 - on.rates.data_hidden, way.micro_batches
    grown, hides = 1 + _crowding(on, way), _hides(computing, m)
    return [
        grown * (stage + max(total * shown, total - hides[zero]) + update)
        for (zero, _), (total, update) in zip(shards, exchanged, strict=True)
    ]


def _waiting(on: Machine, way: Way, one: Pass, away: Away) -> float:
    """Seconds in which a stage waits for its activations on their way to the host and back, where
    they take longer than a layer computes: a third of its time forward, the rest backward.
    """
    if not away.kept or on.host is None:
        return 0.0
    sent = on.room.layer(way) / on.host.link
    each = max(0.0, sent - one.computing / 3) + max(0.0, sent - one.computing * 2 / 3)
    m, p, v, L = way.micro_batches, way.pipeline, way.chunks, on.model.layers
    return each * (m * _layers(way, L)[0] + (p - 1) / v * L / p)


def _layers(way: Way, L: int) -> tuple[int, int]:
    """Layers of a stage, and of the last one, which has one fewer where p does not divide L."""
    return -(-L // way.pipeline), L // way.pipeline  # layout.stage_sizes, in a search's hurry


def _stage(on: Machine, way: Way, one: Pass) -> tuple[float, ...]:
    """What ZeRO does not change: the slowest stage's work, messages between stages, the bubble."""
    m, p, v, L = way.micro_batches, way.pipeline, way.chunks, on.model.layers
    (layers, rest), send = _layers(way, L), _send(on, way)
    each, last = m * layers, rest * one.each + one.loss
    return (
        *[each * part for part in one.parts],
        m * max(0.0, last - layers * one.each),
        m * v * send,
        (p - 1) / v * (L / p * one.each + one.loss / p + send),
    )


def _computing(on: Machine, way: Way, one: Pass) -> float:
    """Seconds in which a device computes."""
    return way.micro_batches * on.model.layers / way.pipeline * one.computing


def _hides(computing: float, m: int) -> tuple[float, float, float, float]:
    """Seconds behind which an exchange can hide, by ZeRO stage: in stage 3 every micro-batch's,
    else the last one's backward.
    """
    last = computing * 2 / 3 / m
    return last, last, last, computing


def _nodes(on: Machine, way: Way) -> float:
    return way.data * way.context * way.tensor * way.pipeline / on.cluster.devices_per_node


def _crowding(on: Machine, way: Way) -> float:
    nodes = _nodes(on, way)
    return on.rates.crowd * log2(nodes) if nodes > 1 else 0.0


def _send(on: Machine, way: Way) -> float:
    """Seconds that a stage waits for a micro-batch's activations and gradients, a chunk."""
    if way.pipeline == 1:
        return 0.0
    size = work.HALF * on.tokens * way.micro_batch * on.model.width / way.context
    size /= way.tensor if way.sequence_parallel else 1
    near = way.tensor * way.context * way.data < on.cluster.devices_per_node
    return on.rates.sends * 2 * (size * (on.inside if near else on.outside) + on.rates.hop)


def _held(on: Machine, way: Way) -> work.Held:
    """Parameters of a device; what is asked again is remembered."""
    key = (way.tensor, way.pipeline, way.expert, way.expert_split)
    found = on.held.get(key)
    if found is None:
        found = on.held[key] = work.held(on.model, *key)
    return found


def _shared(on: Machine, way: Way, zero: int, shard: int, away: Away = HERE) -> tuple[float, float]:
    """Seconds of gradients and weights in flight, hidden or not, and of Adam's update."""
    if on.adapters:
        return _shared_beside(on, on.adapters, way, zero, shard)
    N, has = way.data * way.context, _held(on, way)
    copies = N * way.tensor // (way.expert * way.expert_split)
    dense = has.dense + has.table * (2 if way.pipeline == 1 else 1)
    S, Se = shard, max(1, shard * copies // N)
    total = _exchanged(on, way, dense, N, S, zero, way.tensor)
    apart = way.expert * way.expert_split
    total += _exchanged(on, way, has.experts, copies, Se, zero, apart)
    P, kept = _updated(has, zero, shard)
    own = P / kept
    if away.states and on.host:  # gradients go there, weights come back, none of it hidden
        travels = (on.rates.gradient_bytes + work.HALF) / on.host.link
        return total, own * (travels + work.STATE / _host_rate(on.host, way))
    return total, work.STATE * own / on.stream


def _shared_beside(
    on: Machine, own: Adapters, way: Way, zero: int, shard: int
) -> tuple[float, float]:
    """The same where adapters are trained: their gradients, their update; stage 3 gathers frozen
    weights as well.
    """
    P = own.parameters(on.model)
    weights = work.HALF * P + own.gathered(on.model)
    total = _exchanged(on, way, P, way.data, shard, zero, 1, weights)
    return total, work.STATE * P / (shard if zero else 1) / on.stream


def _host_rate(host: Host, way: Way | Layout) -> float:
    """Bytes/s at which the host updates the weights of a device."""
    return host.bandwidth * host.shares(way.world)


def _updated(has: work.Held, zero: int, shard: int) -> tuple[float, int]:
    """Parameters of a device; it updates one in so many."""
    return has.dense + has.experts + has.table, shard if zero else 1


def _exchanged(
    on: Machine, way: Way, P: float, size: int, S: int, zero: int, stride: int, whole: float = 0.0
) -> float:
    """Seconds in which `size` ranks with the same parameters exchange them and their gradients;
    `whole`: bytes that stage 3 gathers, if not those of P.
    """
    m = way.micro_batches
    if size == 1 or not P:
        return 0.0
    S = S if zero else size
    gradients = (S - 1) / S * P * on.rates.gradient_bytes
    weights = (S - 1) / S * P * work.HALF
    if zero == 0:
        return on.ring(2 * gradients, S, stride)
    once = on.ring(gradients, S, stride)
    replicas = size // S
    left = 2 * (replicas - 1) / replicas * P / S * on.rates.gradient_bytes
    across = on.ring(left, replicas, stride * S)
    if zero == 1 and on.rates.whole_parameters:  # a broadcast for each rank that owns some
        matrices = sum(one.layers * one.copies for one in params.matrices(on.model))
        across += min(S, matrices / way.pipeline) * (S - 1) * on.rates.hop
    if zero == 3:
        hops = 3 * on.rates.hop * min(S, 64) * on.model.layers / way.pipeline
        gathered = (S - 1) / S * whole if whole else weights
        return m * (2 * on.ring(gathered, S, stride) + once + hops) + across
    return (m if zero == 2 else 1) * once + on.ring(weights, S, stride) + across


def step(on: Machine, layout: Layout, *, offload: str = "none") -> Parts:
    """Seconds of a step: m (slowest stage) + (p-1)/v (a stage) + exchanges in sight + update.

    Matmuls, attention and memory traffic by roofline with the shares that `on.rates` has;
    exchanges by alpha-beta on the link that each group crosses. `offload`: what waits in the host's
    memory, states, activations or both; states are updated there, activations travel while layers
    compute (no published run that was fitted does so).

    Chapter: planning (eq-plan-step)
    """
    lay, away = _counted(on, layout), _away(instance("on", on, Machine), offload)
    parts = dict(zip(NAMES, seconds_of(on, lay, away), strict=True))
    title = f"A step of {on.model.title} on {lay.world:,} device{'s' if lay.world > 1 else ''}"
    return Parts(title, "second", {name: time for name, time in parts.items() if time})


def interval(on: Machine, layout: Layout, *, offload: str = "none") -> Interval:
    """The 80% prediction interval of such a step's time; none is less than its matmuls and
    attention take where both reach what the device's largest matmuls do.

    Chapter: planning
    """
    lay, away = _counted(on, layout), _away(instance("on", on, Machine), offload)
    parts = seconds_of(on, lay, away)
    name = on.device.name if on.device.name in table("devices") else None  # one's own
    least = least_seconds(on, parts, calibration.reach(name, precision=on.rates.precision))
    return calibration.interval(sum(parts), device=name, least=least)


def least_seconds(on: Machine, parts: tuple[float, ...], reach: float) -> float:
    """Seconds of matmuls and attention at that share of the peak, and nothing else."""
    matmuls, attention, *_ = parts
    return (matmuls * on.rates.matmul + attention * on.rates.attention) / reach


def letters(on: Machine, layout: Layout, *, offload: str = "none") -> Letters:
    """What the letters of each part's formula stand for, as the step was worked out.

    Chapter: planning
    """
    lay, away = _counted(on, layout), _away(instance("on", on, Machine), offload)
    if on.adapters:
        raise InputError(
            f"on.adapters = {on.adapters!r}: expected None; the laws are full training's"
        )
    m, p, v, L = lay.micro_batches, lay.pipeline, lay.chunks, on.model.layers
    layers, last = _layers(lay, L)
    one, of_a_layer = layer_seconds(on, lay)
    t, t_h, t_s = one.each, one.loss, _send(on, lay)
    t_x, _ = _shared(on, lay, lay.zero, lay.shard)
    t_b = _hides(_computing(on, lay, one), m)[lay.zero]
    P, S = _updated(_held(on, lay), lay.zero, lay.shard)
    t_0 = sum(seconds_of(on, lay, away)[:-1])
    return {
        **{name: given | {"m": m, "l": layers} for name, given in of_a_layer.items()},
        "loss on the last stage": {"m": m, "l": layers, "n": last, "t": t, "t_h": t_h},
        "messages between stages": {"m": m, "v": v, "t_s": t_s},
        "bubble": {"p": p, "v": v, "L": L, "t": t, "t_h": t_h, "t_s": t_s},
        "DP communication": {"t_x": t_x, "t_b": t_b, "o": on.rates.data_hidden},
        "optimizer": {"P": P, "S": S, "W": on.stream},
        "crowding": {"c": on.rates.crowd, "n": _nodes(on, lay), "t_0": t_0},
        **_host_letters(on, lay, away, one, {"P": P, "S": S}),
    }


def _host_letters(
    on: Machine, lay: Layout, away: Away, one: Pass, updated: dict[str, float]
) -> Letters:
    """Of what goes to the host's memory and back, where anything does."""
    if on.host is None:
        return {}
    found: Letters = {}
    W, m, p, v, L = on.host.link, lay.micro_batches, lay.pipeline, lay.chunks, on.model.layers
    if away.states:
        e = on.rates.gradient_bytes + work.HALF
        found[ON_HOST] = updated | {"e": e, "W": W, "W_h": _host_rate(on.host, lay)}
    if away.kept:
        kept = {"K": on.room.layer(lay), "W": W, "t_b": one.computing}
        where = {"m": m, "l": _layers(lay, L)[0], "p": p, "v": v, "L": L}
        found["offloading"] = kept | where
    return found


def _counted(on: Machine, layout: Layout) -> Layout:
    """A layout whose time is counted."""
    lay = instance("layout", layout, Layout)
    if instance("on", on, Machine).adapters:
        refuse_split({axis: getattr(lay, axis) for axis in ALONE})
    return lay


def _away(on: Machine, offload: str) -> Away:
    """What waits in the host's memory, refused where nobody said what the host is."""
    away = work.OFFLOAD[one_of("offload", offload, work.OFFLOAD)]
    if away != HERE and on.host is None:
        raise InputError(f"offload = {offload!r}: expected a machine with a host to wait in")
    return away


def utilization(
    on: Machine, layout: Layout, *, executed: bool = False, offload: str = "none"
) -> float:
    """MFU, or HFU where what is computed twice counts: FLOP / (step time, devices, peak).

    The peak is of the number type that the layers' matmuls are computed in. All query-key pairs
    count, those that a mask hides as well. With adapters no gradients of frozen weights count, and
    the adapters' own matmuls do not.

    Chapter: planning
    """
    time, lay = step(on, layout, offload=offload).total, layout
    again = lay.recompute if flag("executed", executed) else "none"
    done = flops.training(
        on.model,
        sequences=lay.sequences,
        tokens=on.tokens,
        recompute=again,
        frozen=on.adapters is not None,
    )
    return done.total / (time * lay.world * on.peak)
