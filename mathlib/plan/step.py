"""The time of one training step, by part.

L layers · p pipeline stages · v chunks a stage · m micro_batches · N data-parallel ranks
S ranks ZeRO shards over · P parameters · t tensor · s tokens · e bytes of an element
step = m (slowest stage) + (p - 1)/v (a stage) + what is exchanged and not hidden + update
"""

from math import ceil, log2, sqrt

from mathlib.checks import InputError, flag, instance, one_of
from mathlib.compute import flops, roofline
from mathlib.parts import Parts
from mathlib.plan import work
from mathlib.plan.machine import Forward, Host, Machine, Pass, machine
from mathlib.plan.work import HERE, Away
from mathlib.specs import Layout

__all__ = ["NAMES", "Host", "Machine", "machine", "step", "utilization"]

Way = Layout | work.Way
Shard = tuple[int, int]
NAMES = (
    *("products", "attention", "memory traffic", "waiting for launches", "recomputation"),
    *("tensor exchange", "context exchange", "expert exchange", "loss on the last stage"),
    *("messages between stages", "bubble", "exchange with the host", "data exchange"),
    *("optimizer", "crowding"),
)


def _seconds(on: Machine, way: Way, away: Away = HERE) -> tuple[float, ...]:
    """The parts of a step in the order of NAMES; a way is not checked, for a search's sake."""
    total, update = _shared(on, way, way.zero, way.shard, away)
    one = _pass(on, way)
    hidden = _hides(_computing(on, way, one), way.micro_batches)[way.zero]
    left = max(total * (1 - on.rates.data_hidden), total - hidden)
    parts = (*_stage(on, way, one), _waiting(on, way, one, away), left, update)
    return (*parts, _crowding(on, way) * sum(parts))


def _times(on: Machine, way: work.Way, shards: list[Shard], away: Away = HERE) -> list[float]:
    """Seconds of a step with each ZeRO stage and group of a family, all else as in `way`."""
    key = (*way[:3], way.micro_batches, *way[10:], away.states)
    exchanged = on.shared.get(key)
    if exchanged is None:
        exchanged = on.shared[key] = [_shared(on, way, *one, away) for one in shards]
    one = _pass(on, way)
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
    return each * (m * ceil(L / (p * v)) * v + (p - 1) / v * L / p)


def _stage(on: Machine, way: Way, one: Pass) -> tuple[float, ...]:
    """What ZeRO does not change: the slowest stage's work, messages between stages, the bubble."""
    m, p, v, L = way.micro_batches, way.pipeline, way.chunks, on.model.layers
    layers = ceil(L / (p * v)) * v  # of a stage; the last one has the rest
    last = max(0, L - (p - 1) * layers) * one.each + one.loss
    send = _send(on, way)
    each = m * layers
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


def _crowding(on: Machine, way: Way) -> float:
    nodes = way.data * way.context * way.tensor * way.pipeline / on.cluster.devices_per_node
    return on.rates.crowd * log2(nodes) if nodes > 1 else 0.0


def _pass(on: Machine, way: Way) -> Pass:
    """A layer and the loss; what is asked again is remembered."""
    key = (
        *(way.micro_batch, way.tensor, way.context, way.expert, way.expert_split),
        *(way.sequence_parallel, way.recompute),
    )
    found = on.passes.get(key)
    if found is None:
        found = on.passes[key] = _new_pass(on, way)
    return found


def _new_pass(on: Machine, way: Way) -> Pass:
    r, t, among = on.rates, way.tensor, way.context
    fused = r.fused or among > 1
    per, forward, loss = _forward(on, way, fused)
    twice = (3.0, 3.5 if fused else 3.0, 3.0)  # forward and backward
    whole = tuple(part * n for part, n in zip(forward, twice, strict=True))
    share = _again(way.recompute, r.again, fused)
    again = sum(part * n for part, n in zip(forward, share, strict=True))
    busy = sum(whole) + again
    more = r.launch_more if t * among * way.expert > 1 else 0.0
    computing = sqrt(busy**2 + ((r.launch + more) * (1 + share[0] / 3)) ** 2)
    parts = (*whole, computing - busy, again, *_exchanges(on, way, per))
    return Pass(parts, sum(parts), computing, loss)


def _forward(on: Machine, way: Way, fused: bool) -> Forward:
    """A layer's amounts, seconds of its products, attention and traffic, and those of the loss;
    recomputation changes none of them.
    """
    shape = (way.micro_batch, way.tensor, way.context, way.sequence_parallel, way.expert)
    found = on.forwards.get(shape)
    if found is None:
        b, t, among, split, ep = shape
        r, per = on.rates, work.layer(on.model, on.tokens, b, t, among, fused, split, ep)
        seconds = (
            _products(on, per.flop + per.grouped / r.grouped, per.moved, on.arithmetic),
            per.attention / on.scores,
            per.traffic * r.traffic / on.stream,
        )
        found = on.forwards[shape] = per, seconds, _loss(on, way)
    return found


def _again(recompute: str, share: float, fused: bool) -> tuple[float, float, float]:
    """What is computed a second time, of products, attention and the rest."""
    if recompute == "none":
        return 0.0, 0.0, 0.0
    if recompute == "full":
        return 1.0, 1.0, 1.0
    return share, 0.0 if share else 1.0, share if fused else 0.5


def _loss(on: Machine, way: Way) -> float:
    """Seconds of head and loss, forward and backward."""
    end = work.ends(on.model, on.tokens, way.micro_batch, way.tensor, way.context)
    products = _products(on, end.flop, end.moved, on.wide)
    return 3 * products + 2 * end.traffic * on.rates.traffic / on.stream


def _products(on: Machine, flop: float, moved: float, peak: float) -> float:
    """Seconds of products that read and write so many bytes, some of them more than once."""
    moved *= on.rates.reread
    return roofline.in_turn(flop=flop, moved=moved, peak=peak, bandwidth=on.stream)


def _exchanges(on: Machine, way: Way, per: work.Layer) -> tuple[float, float, float]:
    """Seconds that a layer waits for its tensor, context and expert ranks, both directions."""
    r, t, among, ep = on.rates, way.tensor, way.context, way.expert
    again = 1 if way.recompute == "full" else 0
    ring = on.ring(2 * (t - 1) / t * per.tensor, t, 1)
    tensor = (2 + again) * per.exchanges * ring * (1 - r.tensor_hidden)
    passed = (3 + again) * on.ring((among - 1) / among * per.keys, among, t)
    behind = (3.5 + again) * per.attention / on.scores
    context = max(passed * (1 - r.tensor_hidden), passed - behind)
    sent = r.visit_bytes / work.HALF * per.visits
    visits = (4 + 2 * again) * on.all_to_all((ep - 1) / ep * sent, ep, way.expert_split)
    return tensor, context, visits * (1 - r.expert_hidden)


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
    """Seconds of gradients and weights on their way, hidden or not, and of Adam's update."""
    N, has = way.data * way.context, _held(on, way)
    copies = N * way.tensor // (way.expert * way.expert_split)
    dense = has.dense + has.table * (2 if way.pipeline == 1 else 1)
    S, Se = shard, max(1, shard * copies // N)
    total = _exchanged(on, way, dense, N, S, zero, way.tensor)
    apart = way.expert * way.expert_split
    total += _exchanged(on, way, has.experts, copies, Se, zero, apart)
    own = (has.dense + has.experts + has.table) / (shard if zero else 1)
    if away.states and on.host:  # gradients go there, weights come back, none of it hidden
        travels = (on.rates.gradient_bytes + work.HALF) / on.host.link
        return total, own * (travels + work.STATE / on.host.bandwidth)
    return total, work.STATE * own / on.stream


def _exchanged(on: Machine, way: Way, P: float, size: int, S: int, zero: int, stride: int) -> float:
    """Seconds in which `size` ranks with the same parameters exchange them and their gradients."""
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
    if zero == 3:
        hops = 3 * on.rates.hop * min(S, 64) * on.model.layers / way.pipeline
        return m * (2 * on.ring(weights, S, stride) + once + hops) + across
    return (m if zero == 2 else 1) * once + on.ring(weights, S, stride) + across


def step(on: Machine, layout: Layout, *, offload: str = "none") -> Parts:
    """Seconds of a step: m (slowest stage) + (p-1)/v (a stage) + exchanges in sight + update.

    Products, attention and memory traffic by roofline with the shares that `on.rates` has;
    exchanges by alpha-beta on the link that each group crosses. `offload`: what waits in the host's
    memory, states, activations or both; states are updated there, activations travel while layers
    compute (no published run that was fitted does so).

    Chapter: planning (eq-plan-step)
    """
    lay, away = instance("layout", layout, Layout), _away(instance("on", on, Machine), offload)
    parts = dict(zip(NAMES, _seconds(on, lay, away), strict=True))
    title = f"A step of {on.model.title} on {lay.world:,} devices"
    return Parts(title, "second", {name: time for name, time in parts.items() if time})


def _away(on: Machine, offload: str) -> Away:
    """What waits in the host's memory, refused where nobody said what the host is."""
    away = work.OFFLOAD[one_of("offload", offload, work.OFFLOAD)]
    if away != HERE and on.host is None:
        raise InputError(f"offload = {offload!r}: expected a machine with a host to wait in")
    return away


def utilization(on: Machine, layout: Layout, *, executed: bool = False) -> float:
    """MFU, or HFU where what is computed twice counts: FLOP / (step time, devices, 16-bit peak).

    All query-key pairs count, those that a mask hides as well.

    Chapter: planning
    """
    time, lay = step(on, layout).total, layout
    again = lay.recompute if flag("executed", executed) else "none"
    done = flops.training(on.model, sequences=lay.sequences, tokens=on.tokens, recompute=again)
    return done.total / (time * lay.world * on.device.half)
