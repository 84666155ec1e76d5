"""Every operation of a model with its FLOP and its bytes: matmuls, and passes over numbers.

L layers · h width · a heads · k kv_heads · d head_dim · f ffn_width · V padded vocabulary
b micro_batch · s tokens of a sequence · c cached tokens · t tensor · P parameters
r, i, o rows, inputs and outputs of a matmul · e bytes of a number

A matmul reads its two matrices and writes the third, each once. A pass reads and writes each
number of a tensor as often as PASSES says. Left out: biases, norms on heads, copies, and
messages between devices, which have chapters of their own.
"""

from typing import NamedTuple

from mathlib.checks import flag, one_of, positive, whole
from mathlib.compute.flops import all_pairs, head_dims
from mathlib.compute.params import Matrix, matrices
from mathlib.compute.roofline import Operation
from mathlib.records import dataclass, replace
from mathlib.specs import ATTENTION, Model, find_model, tensor_degree

Pair = tuple[Operation, Operation]  # forward, backward
WAYS = ("forward", "backward", "both")
PARTS = {"attention": "attention projections", "head": "vocabulary"}
INPUT_SPLIT = ("output", "down")  # a tensor-parallel device has a part of their inputs
NOT_SPLIT = ("query down", "key-value down", "router", "output gate")
TOGETHER = {  # matrices that read the same input are one matmul
    "query": "queries, keys, values",
    "key": "queries, keys, values",
    "value": "queries, keys, values",
    "gate": "gate and up",
}
MASK, STATISTIC = 1, 4  # bytes of a number of a dropout mask, of a row's log-sum-exp


class Pass(NamedTuple):
    """How often each number of a tensor is read or written, forward and backward; and roughly how
    many additions, multiplications and functions it takes forward.
    """

    eager: tuple[int, int]  # a kernel for each line of the program
    fused: tuple[int, int]  # one kernel for what stands between two matmuls
    arithmetic: int
    kernels: tuple[int, int] = (1, 1)  # of the eager ones


PASSES = {
    "norm": Pass((2, 3), (1, 3), 7),  # fused with the residual sum before it
    "residual": Pass((3, 3), (3, 1), 1),
    "softmax": Pass((6, 7), (2, 3), 6, (3, 3)),  # eager: scale, mask and softmax
    "GELU": Pass((2, 3), (2, 3), 10),
    "gate": Pass((5, 9), (3, 5), 6, (2, 3)),  # eager: SiLU and the product with it, each apart
    "rotary": Pass((2, 2), (2, 2), 3),
    "dropout": Pass((2, 2), (0, 0), 1),  # fused: what is left is its mask
    "loss": Pass((2, 4), (1, 2), 4, (2, 2)),
    "embedding": Pass((2, 2), (2, 2), 1),
}


@dataclass(frozen=True)
class Shape:
    """What is asked for: a micro-batch, its conventions, and this device's part of it."""

    sequences: int
    tokens: int
    past: int
    tensor: int
    sequence_parallel: bool
    flash: bool
    dropout: bool
    fused: bool
    bytes_per_element: float
    causal: bool

    @property
    def rows(self) -> int:
        """Tokens of the micro-batch."""
        return self.sequences * self.tokens

    @property
    def stream(self) -> float:
        """Rows of the residual stream that this device norms and adds."""
        return self.rows / self.tensor if self.sequence_parallel else self.rows


def _shape(
    model: Model,
    micro_batch: int,
    tokens: int | None,
    past: int,
    tensor: int,
    sequence_parallel: bool,
    attention: str | None,
    dropout: bool | None,
    fused: bool,
    bytes_per_element: float,
    causal: bool,
) -> Shape:
    kernel = model.attention if attention is None else one_of("attention", attention, ATTENTION)
    return Shape(
        sequences=whole("micro_batch", micro_batch),
        tokens=model.context if tokens is None else whole("tokens", tokens),
        past=whole("past", past, least=0),
        tensor=tensor_degree(model, tensor),
        sequence_parallel=flag("sequence_parallel", sequence_parallel),
        flash=kernel == "flash",
        dropout=model.dropout if dropout is None else flag("dropout", dropout),
        fused=flag("fused", fused),
        bytes_per_element=positive("bytes_per_element", bytes_per_element),
        causal=flag("causal", causal),
    )


def _matmul(name: str, part: str, r: float, i: float, o: float, e: float, times: float) -> Pair:
    """Backward does two matmuls of the same three matrices: one for each factor's gradient."""
    ahead = Operation(name, part, 2 * r * i * o, e * (r * i + i * o + r * o), times)
    return ahead, replace(ahead, times=2 * times)


def _weights(model: Model, shape: Shape) -> list[Pair]:
    """Matmuls with weights; an expert has the rows that visit it, if the router deals evenly."""
    sizes: dict[tuple[str, str], tuple[float, float, float, float]] = {}
    for m in matrices(model):
        name = "gate and up" if m.name == "up" and model.gated else m.name
        key = (PARTS.get(m.group, m.group), TOGETHER.get(m.name, name))
        visits = shape.rows * m.used
        busy = min(m.copies, visits)
        i, o = _share(m, shape.tensor)
        before = sizes[key][2] if key in sizes else 0
        sizes[key] = (visits / busy, i, o + before, m.layers * busy)
    e = shape.bytes_per_element
    return [_matmul(n, part, *size[:3], e, size[3]) for (part, n), size in sizes.items()]


def _share(m: Matrix, t: int) -> tuple[float, float]:
    """Inputs and outputs of a matrix on one of t devices."""
    if m.name in NOT_SPLIT:
        return m.inputs, m.outputs
    return (m.inputs / t, m.outputs) if m.name in INPUT_SPLIT else (m.inputs, m.outputs / t)


def _core(model: Model, shape: Shape) -> list[Pair]:
    """Scores and values: two matmuls with the scores between them, or one fused kernel; each is
    one kernel for all heads of all sequences.
    """
    L, b, n, e = model.layers, shape.sequences, shape.tokens, shape.bytes_per_element
    a, k = model.heads / shape.tensor, max(1.0, model.kv_heads / shape.tensor)
    scored, valued = head_dims(model)
    keys = shape.past + n
    if shape.flash:
        pairs = all_pairs(model, n, shape.past, shape.causal) / L
        moved = b * (e * (scored + valued) * (a * n + k * keys) + STATISTIC * a * n)
        flop = b * 2 * (scored + valued) * a * pairs
        ahead = Operation("flash attention", "attention core", flop, moved, L)
        # five matmuls for two, three of them as wide as a key; and a gradient to each tensor
        five = b * 2 * (3 * scored + 2 * valued) * a * pairs
        return [(ahead, replace(ahead, flop=five, moved=2 * moved))]
    found = []
    for name, wide in (("scores", scored), ("values", valued)):
        moved = b * a * e * (n * wide + keys * wide * k / a + n * keys)
        one = Operation(name, "attention core", b * a * 2 * n * keys * wide, moved, L)
        found.append((one, replace(one, times=2 * one.times)))
    return found


def _pass(
    kind: str, part: str, numbers: float, shape: Shape, times: float, mask: float = 0
) -> Pair:
    """A pass over a tensor, forward and backward; backward counts twice the arithmetic."""
    rule = PASSES[kind]
    flop, e = rule.arithmetic * numbers, shape.bytes_per_element
    there, back = (
        numbers * (often * e + mask) for often in (rule.fused if shape.fused else rule.eager)
    )
    first, second = (1, 1) if shape.fused else rule.kernels
    ahead = Operation(kind, part, flop, there, times, matmul=False, kernels=first)
    return ahead, replace(ahead, flop=2 * flop, moved=back, kernels=second)


def _passes(model: Model, shape: Shape) -> list[Pair]:
    """What a layer does besides matmuls, over all layers."""
    L, n, t, stream = model.layers, shape.rows, shape.tensor, shape.stream * model.width
    scores = model.heads / t * n * (shape.past + shape.tokens)
    found = [
        _pass("norm", "norms", stream, shape, L * model.block_norms),
        _pass("residual", "residual", stream, shape, 2 * L),
    ]
    if model.positions == "rotary":
        turned = n * (model.heads + model.kv_heads) * model.head_dim / t
        found.append(_pass("rotary", "positions", turned, shape, L))
    if not shape.flash:
        found.append(_pass("softmax", "softmax", scores, shape, L))
    if shape.dropout:
        found.append(_pass("dropout", "residual", stream, shape, 2 * L, MASK))
        if not shape.flash:  # a kernel of its own: the values' matmul reads what it writes
            alone = replace(shape, fused=False)
            found.append(_pass("dropout", "softmax", scores, alone, L, MASK))
    kind = "gate" if model.gated else "GELU"
    each = n * _inside(model) / L / t
    return [*found, _pass(kind, "activation function", each, shape, L)]


def _inside(model: Model) -> int:
    """Numbers between the matmuls of the MLP for one token, over all layers."""
    return sum(
        m.layers * m.used * m.inputs
        for m in matrices(model)
        if m.name == "down" and m.group in ("mlp", "experts", "shared experts")
    )


def _ends(model: Model, shape: Shape, logits_bytes: float) -> list[Pair]:
    """What stands in no layer, but for the head's matmul: the look-up, the last norm, the loss."""
    h, n, t = model.width, shape.rows, shape.tensor
    wide = replace(shape, bytes_per_element=logits_bytes)
    found = [_pass("embedding", "embedding", n * h, shape, 1)]
    if model.final_norm:
        found.append(_pass("norm", "norms", shape.stream * h, shape, 1))
    return [*found, _pass("loss", "loss", n * model.padded_vocab / t, wide, 1)]


def _asked(way: str, pairs: list[Pair]) -> list[Operation]:
    ahead, back = [one for one, _ in pairs], [two for _, two in pairs]
    return {"forward": ahead, "backward": back, "both": ahead + back}[one_of("way", way, WAYS)]


def layer(
    model: str | Model,
    *,
    micro_batch: int = 1,
    tokens: int | None = None,
    past: int = 0,
    tensor: int = 1,
    sequence_parallel: bool = False,
    attention: str | None = None,
    dropout: bool | None = None,
    fused: bool = True,
    bytes_per_element: float = 2,
    causal: bool = False,
    way: str = "both",
) -> list[Operation]:
    """Operations of one layer on one device, an average one where layers differ; `times` says how
    often.

    A matmul with weights has r = b s rows and moves e (r i + i o + r o) bytes; scores are
    s (c + s) numbers a head, which a flash kernel never moves.
    tokens: new ones of a sequence, the model's context if not given; past: those in its cache,
    so that tokens=1 is a step of decoding and micro_batch its batch.
    fused: one kernel for all that stands between two matmuls, else one for each line.
    causal: a flash kernel computes only the pairs that the mask keeps.

    Chapter: roofline (eq-moved)
    """
    model = find_model(model)
    asked = (micro_batch, tokens, past, tensor, sequence_parallel, attention, dropout, fused)
    shape = _shape(model, *asked, bytes_per_element, causal)
    matmuls = [pair for pair in _weights(model, shape) if pair[0].part != "vocabulary"]
    found = _asked(way, [*matmuls, *_core(model, shape), *_passes(model, shape)])
    return [replace(one, times=one.times / model.layers) for one in found]


def step(
    model: str | Model,
    *,
    micro_batch: int = 1,
    tokens: int | None = None,
    past: int = 0,
    tensor: int = 1,
    sequence_parallel: bool = False,
    attention: str | None = None,
    dropout: bool | None = None,
    fused: bool = True,
    bytes_per_element: float = 2,
    logits_bytes: float = 4,
    causal: bool = False,
    way: str = "both",
) -> list[Operation]:
    """Operations of all layers and both ends for one micro-batch on one device, no pipeline; the
    optimizer's stands apart. Arguments as of `layer`.

    way: "forward" alone is a step of inference, with its loss left in the part of that name.

    Chapter: roofline (eq-moved)
    """
    model = find_model(model)
    asked = (micro_batch, tokens, past, tensor, sequence_parallel, attention, dropout, fused)
    shape = _shape(model, *asked, bytes_per_element, causal)
    pairs = [*_weights(model, shape), *_core(model, shape), *_passes(model, shape)]
    return _asked(way, [*pairs, *_ends(model, shape, positive("logits_bytes", logits_bytes))])


def adam(
    *, parameters: float, weight_bytes: float = 2, gradient_bytes: float = 4
) -> list[Operation]:
    """One fused update of P parameters, P (24 + gradient_bytes + weight_bytes): fp32 weights and
    both moments read and written, the gradient read, the copy that is multiplied written.

    With weights of 4 bytes there is no copy: P (24 + gradient_bytes).

    Chapter: roofline (eq-update-bytes)
    """
    P, wide = positive("parameters", parameters), positive("weight_bytes", weight_bytes)
    each = 24 + positive("gradient_bytes", gradient_bytes) + (wide if wide < 4 else 0)
    return [Operation("update", "optimizer", 14 * P, each * P, matmul=False)]
