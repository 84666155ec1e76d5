"""What a device does in a training step, in amounts: FLOP, bytes through memory, bytes sent.

L layers · h width · a heads · k kv_heads · d head_dim · f ffn_width · V vocabulary · s tokens
b micro_batch · t tensor · e bytes of an element
Amounts are of one micro-batch forward, on one device of a stage, averaged over the layers; how long
they take is `plan.calibration` and `plan.step`.
"""

from operator import attrgetter
from typing import NamedTuple

from mathlib.compute import params
from mathlib.compute.flops import attention_pairs
from mathlib.specs import Model

HALF = 2  # bytes of an activation or a weight in a matmul
STREAM = 10  # passes over the residual stream a layer: two norms, two sums
SCORES = 6  # passes over the scores that are not fused: matmul, softmax, mask, matmul
LOGIT = 12  # bytes moved for a logit forward: written, read wide, probabilities
STATE = 30  # bytes moved for a parameter in Adam's update: three wide numbers in and out, and more


class Way(NamedTuple):
    """A Layout that nobody has checked: a search makes very many."""

    data: int
    tensor: int
    pipeline: int
    chunks: int
    zero: int
    shard: int
    sequence_parallel: bool
    micro_batch: int
    micro_batches: int
    recompute: str
    context: int
    expert: int
    expert_tensor: int

    @property
    def world(self) -> int:
        """Devices."""
        return self.data * self.tensor * self.pipeline * self.context

    @property
    def expert_split(self) -> int:
        """As a Layout's."""
        return self.expert_tensor or self.tensor


# Which weights a device holds, and who exchanges them: what families of layouts are known by.
split = attrgetter("data", "tensor", "pipeline", "context", "expert", "expert_tensor")


class Away(NamedTuple):
    """What waits in the host's memory."""

    states: bool = False  # master weights and optimizer states, which the host updates
    kept: bool = False  # activations
    weights: bool = False  # weights and gradients, too: a layer's at a time are on the device


HERE = Away()
OFFLOAD = {
    "none": HERE,
    "states": Away(states=True),
    "activations": Away(kept=True),
    "both": Away(states=True, kept=True),
}
UNTIMED = {  # how long a step takes then, nobody models here; its bytes are known
    "parameters": Away(states=True, weights=True),
    "all": Away(states=True, kept=True, weights=True),
}


class Layer(NamedTuple):
    """An average layer forward, one micro-batch, on one device."""

    flop: float  # of matmuls with weights, experts apart
    grouped: float  # FLOP of the experts' matmuls
    moved: float  # bytes that these read and write
    attention: float  # FLOP of scores and values, pairs that are computed
    traffic: float  # bytes through memory of all that is no matmul
    tensor: float  # bytes of one exchange of the residual stream, all of a tensor group
    exchanges: float  # such all-reduces, or pairs of gather and scatter
    keys: float  # bytes of the keys and values of a whole sequence
    visits: float  # bytes of tokens that go to experts


class Ends(NamedTuple):
    """Head and loss forward."""

    flop: float
    moved: float
    traffic: float


class Held(NamedTuple):
    """Parameters on a device of an average stage."""

    dense: float
    experts: float
    table: float  # embedding or head


def layer(
    model: Model, s: int, b: int, t: int, among: int, fused: bool, split: bool, ep: int
) -> Layer:
    """An average layer of a model; `among` ranks share a sequence, `split` is sequence parallel.

    Chapter: planning
    """
    n = b * s // among
    flop = grouped = moved = 0.0
    for m in params.matrices(model)[:-1]:
        share = m.layers / model.layers
        own = share * 2 * n * m.used * m.inputs * m.outputs / t
        flop, grouped = (flop, grouped + own) if m.group == "experts" else (flop + own, grouped)
        rows, dealt = n * m.used, ep if m.group == "experts" else 1
        wide = m.outputs / t if m.outputs >= m.inputs else m.outputs
        deep = m.inputs if m.outputs >= m.inputs else m.inputs / t
        weights = m.copies * m.inputs * m.outputs / t / dealt
        moved += share * HALF * (rows * (deep + wide) + weights)
    pairs = _pairs(model, s, fused) * b / among
    scored, valued = _head_numbers(model)
    return Layer(
        flop,
        grouped,
        moved,
        2 * pairs * model.heads / t * (scored + valued),
        _traffic(model, n, t, pairs, fused, split),
        HALF * n * model.width if t > 1 else 0.0,
        1 if model.parallel_block else 2,
        HALF * b * s * _keys(model, t) if among > 1 else 0.0,
        _visits(model, n / t) if ep > 1 else 0.0,
    )


def _pairs(model: Model, s: int, fused: bool) -> float:
    """Query-key pairs of a layer; a fused kernel skips those that the mask hides."""
    near = model.windowed_layers / model.layers
    wide = attention_pairs(tokens=s, causal=fused)
    if not near:
        return wide
    return (1 - near) * wide + near * attention_pairs(tokens=s, causal=fused, window=model.window)


def _head_numbers(model: Model) -> tuple[int, int]:
    if not model.latent:
        return model.head_dim, model.head_dim
    return model.latent.nope_dim + model.latent.rope_dim, model.latent.value_dim


def _keys(model: Model, t: int) -> float:
    if model.latent:
        return model.heads / t * sum(_head_numbers(model))
    return 2 * max(1.0, model.kv_heads / t) * model.head_dim


def _visits(model: Model, n: float) -> float:
    """Bytes of the copies that a device's own tokens send to experts, by average layer."""
    if not model.experts:
        return 0.0
    sparse = model.expert_layers / model.layers
    return sparse * HALF * n * model.experts.active * model.width


def _traffic(model: Model, n: int, t: int, pairs: float, fused: bool, split: bool) -> float:
    """Bytes of norms, sums, activation functions, rotations, copies to experts, open scores."""
    sparse, x = model.expert_layers / model.layers, model.experts
    inner = (1 - sparse) * model.ffn_width
    inner += sparse * x.width * (x.active + x.shared) if x else 0
    stream = STREAM * model.width / (t if split else 1)
    copies = 4 * sparse * x.active * model.width / (t if split else 1) if x else 0
    heads = 2 * (model.heads + model.kv_heads) * model.head_dim / t
    scores = 0 if fused else SCORES * HALF * pairs * model.heads / t
    return HALF * n * (stream + copies + (3 if model.gated else 2) * inner / t + heads) + scores


def ends(model: Model, s: int, b: int, t: int, among: int) -> Ends:
    """Head and loss, on the stage that has them.

    Chapter: planning
    """
    n, V, h = b * s // among, model.padded_vocab, model.width
    return Ends(2 * n * h * V / t, HALF * (n * h + h * V / t + n * V / t), LOGIT * n * V / t)


def held(model: Model, t: int, p: int, ep: int, et: int) -> Held:
    """Parameters by what shards them.

    Chapter: planning
    """
    every = params.matrices(model)
    experts = sum(m.parameters for m in every if m.group == "experts")
    dense = sum(m.parameters for m in every[:-1]) - experts
    return Held(dense / t / p, experts / ep / et / p, every[-1].parameters / t)
