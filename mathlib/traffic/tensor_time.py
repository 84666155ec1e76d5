"""Time of a layer whose matrices are cut over tensor ranks, and where cutting stops paying.

t tensor ranks · b sequences · s tokens · h width · e bytes an element
F FLOP of a layer's forward pass · X FLOP/s of a device · W bandwidth · alpha latency
Nothing is hidden: a rank computes, then waits for the sum, four times in a layer.
"""

from mathlib.checks import InputError, instance, non_negative, positive, whole
from mathlib.compute import flops
from mathlib.parts import Parts
from mathlib.specs import Cluster, Model, find_device, find_model
from mathlib.traffic import comm, volumes

REDUCTIONS = 4  # all-reduces of a layer and micro-batch: two forward, two backward


def layer(
    model: str | Model,
    *,
    tensor: int,
    achieved: float,
    bandwidth: float,
    micro_batch: int = 1,
    tokens: int | None = None,
    latency: float = 0.0,
    bytes_per_element: float = 2,
) -> Parts:
    """Seconds of a layer, forward and backward: compute 3 F / (t X), transfer
    8 e b s h (t-1)/t / W, and the latency of four rings (Shoeybi et al. 2019).

    Chapter: tensor (eq-tensor-time)
    """
    model, t = find_model(model), whole("tensor", tensor)
    X, W = positive("achieved", achieved), positive("bandwidth", bandwidth)
    alpha, b = non_negative("latency", latency), whole("micro_batch", micro_batch)
    forward = flops.forward(model, sequences=b, tokens=tokens)
    F = (forward.total - forward.amount("vocabulary")) / model.layers
    sent = volumes.tensor_parallel(
        model,
        tensor=t,
        micro_batch=b,
        tokens=tokens,
        layers=1,
        bytes_per_element=bytes_per_element,
    ).total
    waits = REDUCTIONS * comm.traffic("all-reduce", payload=1, ranks=t).rounds * alpha
    parts = {"compute": 3 * F / (t * X), "transfer": sent / W, "latency": waits}
    return Parts(f"A layer on {t} tensor ranks", "second", parts)


def even_degree(
    *, width: int, achieved: float, bandwidth: float, bytes_per_element: float = 2
) -> float:
    """The degree at which a GPT sends as long as it computes: 1 + 9 h W / (e X).

    Sequences and tokens cancel: twice as many are twice the work and twice the bytes.
    The pairs of attention are left out; they add work and nothing to send.

    Chapter: tensor (eq-tensor-even, eq-tensor-ratio)
    """
    h, X = whole("width", width), positive("achieved", achieved)
    W = positive("bandwidth", bandwidth)
    e = positive("bytes_per_element", bytes_per_element)
    return 1 + 9 * h * W / (e * X)


def ring_bandwidth(cluster: Cluster, tensor: int) -> float:
    """Bytes/s of a ring over so many neighbours: their link in a node, else at most what all
    cards of the ranks of a node send together, for a ring leaves a node once.

    Chapter: tensor (eq-tensor-border)
    """
    t, on = whole("tensor", tensor), instance("cluster", cluster, Cluster)
    link = on.link_bandwidth or find_device(on.device).link_bandwidth
    node = on.devices_per_node
    if t <= node:
        return link
    if t % node:
        raise InputError(f"tensor = {t}: expected whole nodes of {node}")
    return min(link, on.node_bandwidth)
