"""The five axes of parallelism: what each cuts and sends, in words, drawings and numbers.

N ranks of an axis · D tokens of a step · e bytes of a number · P parameters · h width · L layers
k kv_heads of d numbers · E* experts a token visits
Each axis alone, on the same step; a model with experts stands in where experts are distributed.
"""

from typing import Any, NamedTuple

from mathlib.compute import flops, params
from mathlib.schedule import bubble
from mathlib.show import says
from mathlib.specs import find_cluster, find_device, find_model
from mathlib.traffic import volumes

DENSE, SPARSE, CLUSTER = "llama3-8b", "mixtral-8x7b", "p5.48xlarge"
N, SEQUENCES, TOKENS = 8, 64, 8192  # ranks of an axis, and the step they share
REACHED = 0.4  # of a device's peak, as good runs do
DRAWN = 4  # ranks, sequences, layers in a drawing

Cell = int | None  # the rank that has it; None: every rank


class Axis(NamedTuple):
    """One way: in words, in two drawings, and in the numbers of the step."""

    name: str
    cuts: str
    pays: str
    sends: str
    often: str
    formula: str
    sent: float  # bytes of a rank in the step
    arithmetic: float  # seconds of a rank in the step
    batch: list[list[Cell]]  # by sequence and token
    layer: list[list[Cell]]  # by layer and part of it
    arrows: list[tuple[int, int]]  # from rank to rank
    idle: float = 0.0  # seconds of the step in which a rank waits


RING = [(r, (r + 1) % DRAWN) for r in range(DRAWN)]
PAIRS = [(a, b) for a in range(DRAWN) for b in range(DRAWN) if a != b]
CHAIN = [pair for r in range(DRAWN - 1) for pair in ((r, r + 1), (r + 1, r))]


def dealt(columns: int, rank: str) -> list[list[Cell]]:
    """Which rank has each cell of a drawing that is cut by `rank`: row, column, or not at all."""
    each = columns // DRAWN
    of = {"row": lambda r, c: r, "column": lambda r, c: c // each}.get(rank, lambda r, c: None)
    return [[of(r, c) for c in range(columns)] for r in range(DRAWN)]


def arithmetic(model: str) -> float:
    """Seconds in which N devices compute the step at a usual share of their peak."""
    work = flops.training(model, sequences=SEQUENCES, tokens=TOKENS).total
    return work / N / (REACHED * find_device(find_cluster(CLUSTER).device).half)


def axes() -> list[Axis]:
    """The five, in the order in which one adds them."""
    return [_data(), _tensor(), _pipeline(), _context(), _experts()]


def _data() -> Axis:
    sent = volumes.zero(parameters=params.count(DENSE).total, data=N).total
    return Axis(
        "Data",
        "cuts the batch, with ZeRO the states too.",
        "Pays while every rank has sequences.",
        "gradients",
        "once a step",
        "2 e P (N−1)/N",
        sent,
        arithmetic(DENSE),
        dealt(8, "row"),
        dealt(8, ""),
        RING,
    )


def _tensor() -> Axis:
    of: dict[str, Any] = {"micro_batches": SEQUENCES, "tokens": TOKENS}
    return Axis(
        "Tensor",
        "cuts every matrix.",
        "Pays where matrices are wide and ranks share NVLink.",
        "activations",
        "4 times in each layer",
        "8 e h D L (N−1)/N",
        volumes.tensor_parallel(DENSE, tensor=N, **of).total,
        arithmetic(DENSE),
        dealt(8, ""),
        dealt(8, "column"),
        RING,
    )


def _pipeline() -> Axis:
    of: dict[str, Any] = {"micro_batches": SEQUENCES, "tokens": TOKENS}
    work = arithmetic(DENSE)
    return Axis(
        "Pipeline",
        "cuts between layers.",
        "Pays with many more micro-batches than stages.",
        "activations",
        "on, gradients back",
        "2 e h D",
        volumes.pipeline_parallel(DENSE, pipeline=N, stage=1, **of).total,
        work,
        dealt(8, ""),
        dealt(8, "row"),
        CHAIN,
        idle=work * bubble.over_ideal(stages=N, micro_batches=SEQUENCES),
    )


def _context() -> Axis:
    of: dict[str, Any] = {"micro_batches": SEQUENCES, "tokens": TOKENS}
    return Axis(
        "Context",
        "cuts every sequence.",
        "Pays where sequences are long.",
        "keys and values",
        "around, in each layer",
        "2 e k d D L (3N−2)/N",
        volumes.context_parallel(DENSE, context=N, **of).total,
        arithmetic(DENSE),
        dealt(8, "column"),
        dealt(8, ""),
        RING,
    )


def _experts() -> Axis:
    of: dict[str, Any] = {"micro_batches": SEQUENCES // N, "tokens": TOKENS}
    return Axis(
        "Expert",
        "distributes the experts of each layer.",
        "Pays where a model has them and links are fast.",
        "tokens",
        "to experts and back",
        "4 e h E* D L (N−1)/N²",
        volumes.expert_parallel(SPARSE, expert=N, **of).total,
        arithmetic(SPARSE),
        dealt(8, "row"),
        [[None, None, *range(DRAWN)]] * DRAWN,
        PAIRS,
    )


def links() -> dict[str, float]:
    """Bytes a second of a rank: inside its node, and out of it."""
    cluster = find_cluster(CLUSTER)
    own = cluster.node_bandwidth / cluster.devices_per_node
    return {"NVLink": find_device(cluster.device).link_bandwidth, "network": own}


def step() -> str:
    """What the numbers are of, and what the seconds assume."""
    fast, slow = (says.rate(rate) for rate in links().values())
    return (
        f"What a rank sends in a step of {SEQUENCES} sequences of {TOKENS:,} tokens, if the axis "
        f"has {N} ranks: {find_model(DENSE).title}, with experts {find_model(SPARSE).title}, in "
        f"bf16. Seconds have one scale: arithmetic at {says.percent(REACHED)} of an H100’s peak, "
        f"NVLink at {fast}, a network card at {slow}."
    )
