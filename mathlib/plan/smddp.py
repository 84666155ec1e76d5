"""Which library gathers shards on Amazon SageMaker: SMDDP's own all-gather, or NCCL's.

S ranks ZeRO shards over
The rule as the page states it (Sharded data parallelism with SMDDP Collectives): the conditions of
a job, then two buffers of every gather.
"""

from mathlib.checks import InputError, non_negative, one_of, positive, whole
from mathlib.records import dataclass

INSTANCE = "ml.p4d.24xlarge"
MULTIPLE = 8192  # bytes: sizes that a buffer may have
SCRATCH = 16 * 2**20  # bytes: SMDDP_AG_SCRATCH_BUFFER_SIZE_BYTES unless set
SORT = 128 * 2**20  # bytes: SMDDP_AG_SORT_BUFFER_SIZE_BYTES unless set
BACK_ENDS = ("auto", "nccl")


@dataclass(frozen=True)
class BackEnd:
    """What runs the gather, and each reason against SMDDP; without one it is SMDDP."""

    reasons: tuple[str, ...]

    @property
    def name(self) -> str:
        return "nccl" if self.reasons else "smddp"

    def __str__(self) -> str:
        why = "; ".join(self.reasons) or "every condition is met"
        return f"{self.name}: {why}"


def _buffer(name: str, size: float) -> int:
    """A buffer's bytes, one of the sizes that the page accepts."""
    found = whole(name, size)
    if found % MULTIPLE:
        down = found // MULTIPLE * MULTIPLE
        near = [n for n in (down, down + MULTIPLE) if n]
        shown = " or ".join(map(str, near))
        raise InputError(f"{name} = {size}: expected a multiple of {MULTIPLE}, such as {shown}")
    return found


def sort_buffer(*, shard: int, gather_input: float) -> float:
    """Bytes that the sort buffer must have at least: 1/8 * S * the gather's input.

    On p4d.24xlarge, of 8 GPUs a node, the 8 is that of the page's formula.

    Chapter: mics
    """
    return whole("shard", shard) * non_negative("gather_input", gather_input) / 8


def back_end(
    *,
    shard: int,
    nodes: int,
    instance: str = INSTANCE,
    gather_input: float,
    scratch_buffer: float = SCRATCH,
    sort_buffer_bytes: float = SORT,
    asked: str = "auto",
) -> BackEnd:
    """SMDDP's all-gather runs when the degree is above 1, the nodes are more than 1, they
    are ml.p4d.24xlarge, the scratch buffer holds the gather's input, and the sort buffer
    holds 1/8 * S * input; else NCCL's.

    `gather_input`: bytes that a rank gives to one gather, its shard of what is gathered.
    Reduce-scatter and all else run on NCCL in any case. Source: the SageMaker page on
    sharded data parallelism, "Supported configurations" and "Performance and memory
    tuning"; versions of the container and the libraries are not asked here.

    Chapter: mics
    """
    S, given = whole("shard", shard), positive("gather_input", gather_input)
    scratch = _buffer("scratch_buffer", scratch_buffer)
    sort = _buffer("sort_buffer_bytes", sort_buffer_bytes)
    needed = sort_buffer(shard=S, gather_input=given)
    checks = {
        "ddp_dist_backend is nccl": one_of("asked", asked, BACK_ENDS) == "nccl",
        f"the sharding degree is {S}, not above 1": S == 1,
        "there is one node, not more": whole("nodes", nodes) == 1,
        f"the instance is {_named(instance)}, not {INSTANCE}": instance != INSTANCE,
        f"the scratch buffer of {scratch} bytes is below the input of {given:g}": scratch < given,
        f"the sort buffer of {sort} bytes is below 1/8 * {S} * {given:g}": sort < needed,
    }
    return BackEnd(tuple(reason for reason, holds in checks.items() if holds))


def _named(instance: str) -> str:
    if not isinstance(instance, str) or not instance.startswith("ml."):
        raise InputError(f"instance = {instance!r}: expected a SageMaker name such as {INSTANCE}")
    return instance
