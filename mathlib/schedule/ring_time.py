"""When each rank of a causal ring computes, and when it waits for keys and values.

N ranks · s tokens · a heads · k kv_heads · d head_dim · e bytes an element · X FLOP/s of a device
W bandwidth of its link
A rank begins a step when it has computed the last one and its messages to and from both neighbours
are through; they set out when both ends have begun that last step.
"""

from typing import NamedTuple

from mathlib.checks import non_negative, one_of, positive, whole
from mathlib.schedule import ring_order
from mathlib.specs import Model, find_model


class Block(NamedTuple):
    """A step of a rank: whose keys it meets, when it begins, and for how long it computes."""

    source: int
    begin: float
    seconds: float


def timeline(
    order: str, *, ranks: int, tokens: int, block: float = 1.0, message: float = 0.0
) -> list[list[Block]]:
    """The steps of every rank, forward: a whole block of (s/N)^2 scores takes `block`
    seconds, a message with keys and values `message`; it travels while ranks compute.

    Chapter: sequences (eq-ring-hides)
    """
    N, s = whole("ranks", ranks), whole("tokens", tokens)
    whole_block, way = positive("block", block), non_negative("message", message)
    unit, way = whole_block / (s / N) ** 2, way if N > 1 else 0.0
    begins, steps = [0.0] * N, list[list[Block]]()
    for step, counts in enumerate(ring_order.step_scores(order, ranks=N, tokens=s)):
        rows = zip(range(N), begins, counts, strict=True)
        steps.append([Block((r - step) % N, begin, unit * n) for r, begin, n in rows])
        met = [max(begins[(r + near) % N] for near in (-1, 0, 1)) for r in range(N)]
        last = zip(steps[-1], met, strict=True)
        begins = [max(one.begin + one.seconds, at + way) for one, at in last]
    return [[row[r] for row in steps] for r in range(N)]


def hidden_tokens(
    model: str | Model,
    *,
    order: str = "zigzag",
    achieved: float,
    bandwidth: float,
    bytes_per_element: float = 2,
) -> float:
    """Tokens of a rank from which on a step computes as long as its message travels, forward:
    e k X / (a W) in zigzag, whose steps have half a block, and half as many in the plain order.

    2 c k d e / W is the message of c tokens, 4 c^2 a d / X the work of a whole block.

    Chapter: sequences (eq-ring-hides)
    """
    model, e = find_model(model), positive("bytes_per_element", bytes_per_element)
    X, W = positive("achieved", achieved), positive("bandwidth", bandwidth)
    half = 2 if one_of("order", order, ring_order.ORDERS) == "plain" else 1
    return e * model.kv_heads * X / (half * model.heads * W)
