"""Fine-tuning of adapters beside frozen weights, as the planner has it: memory, work, messages.

n tokens of a micro-batch · r rank of an adapter · L layers
Layouts are replicas, or shards of ZeRO: what tensor, context or pipeline parallelism makes of
adapters is not counted.
"""

from collections.abc import Mapping

from mathlib.checks import InputError, one_of, whole
from mathlib.compute import params
from mathlib.memory import adapters, states
from mathlib.memory.adapters import TARGETS
from mathlib.parts import Parts
from mathlib.plan.room import Copies, Room
from mathlib.plan.work import HALF, HERE, Away, Way
from mathlib.records import dataclass, field
from mathlib.specs import Layout, Model, table

BITS = ("16", "4", "4 sharded")  # of the layers' matrices; stage 3 leaves 4 whole if nobody says
PASSING = ("activations", "gradients of logits", "recomputed layer")
PROGRAM = "fsdp-eager"  # whose rates count: torch without a compiler, as adapters run
NEEDS = "adapters"  # the row of what runs need beyond the formula
RECIPE = "mixed-adam"  # of adapters, if nobody says
ALONE: dict[str, tuple[object, ...]] = {  # axes, and the values that are counted
    **dict.fromkeys(("tensor", "context", "pipeline", "chunks", "expert"), (1,)),
    "recompute": ("none", "full"),
}


@dataclass(frozen=True)
class Adapters:
    """Adapters beside some matrices of frozen layers."""

    rank: int
    targets: tuple[str, ...] = TARGETS
    bits: str = "16"  # of the frozen matrices in the layers, one of BITS

    def __post_init__(self) -> None:
        whole("rank", self.rank)
        one_of("bits", self.bits, BITS)

    def __str__(self) -> str:
        on = "" if self.targets == TARGETS else f" on {', '.join(self.targets)}"
        return f"adapters of rank {self.rank}{on}" + (", matrices in 4 bits" if self.packed else "")

    @property
    def packed(self) -> bool:
        """Whether matrices have to be unpacked before they multiply."""
        return self.bits != "16"

    def parameters(self, model: Model) -> float:
        """That are trained."""
        return params.lora(model, rank=self.rank, targets=self.targets).total

    def gathered(self, model: Model) -> float:
        """Bytes of all that stage 3 gathers once: frozen weights, but 4 bits that stay whole."""
        body = sum(one.parameters for one in params.matrices(model)[:-1])
        ends = HALF * (params.total(model) - body)
        if self.bits == "4":
            return ends
        return ends + (_packed(body) if self.packed else HALF * body)

    def narrow(self, model: Model, n: int) -> tuple[float, float]:
        """FLOP of an average layer's adapters forward, and bytes that they move: an input, the r
        numbers between, a result and its sum with the frozen matrix's.
        """
        r, flop, moved = self.rank, 0.0, 0.0
        for m in params.matrices(model)[:-1]:
            if m.name in self.targets:
                share = m.layers * m.copies / model.layers
                wide = m.inputs + m.outputs
                flop += share * 2 * n * r * wide
                moved += share * HALF * (n * (wide + 2 * r + 3 * m.outputs) + r * wide)
        return flop, moved

    def unpacked(self, model: Model) -> float:
        """Bytes that would move in the time in which published runs unpack an average layer's
        matrices for a pass.
        """
        if not self.packed:
            return 0.0
        each = sum(one.parameters for one in params.matrices(model)[:-1]) / model.layers
        return float(table("calibrations")["unpack"]["times"]) * (_packed(each) + HALF * each)

    def launches(self, model: Model) -> float:
        """Kernels of matmuls to those without adapters: two more beside each that has one."""
        body = [m.name for m in params.matrices(model)[:-1]]
        return 1 + 2 * sum(name in self.targets for name in body) / len(body)


def _packed(parameters: float) -> float:
    """Bytes of so many in nf4, with their scales."""
    held = states.adapters(parameters, 1, base="nf4", block=64, second_block=256)
    return held.amount("frozen weights") + held.amount("scales")


@dataclass(frozen=True, eq=False)
class AdapterRoom(Room):
    """Memory of layouts with adapters, by `memory.adapters`, which counts PyTorch's own operations
    whatever the program.
    """

    adapters: Adapters = Adapters(16)
    asked: dict[tuple[object, ...], Parts] = field(default_factory=dict, repr=False)

    def passing(self, way: Layout | Way, away: Away = HERE) -> tuple[float, float, float]:
        """Activations, logits with their gradients, a layer computed again; linear in b."""
        found = self._needs(way.recompute, 0, 1)
        kept, b = found["activations"], way.micro_batch
        assert isinstance(kept, Parts)
        logits = kept.amount("probabilities")
        spike = found.amount("gradients of logits") if "gradients of logits" in found else 0
        again = found.amount("recomputed layer") if "recomputed layer" in found else 0
        return b * (kept.total - logits), b * (logits + spike), b * again

    def _standing(self, way: Layout | Way, zero: int, shard: int, away: Away = HERE) -> Copies:
        """Weights and adapters with their states; and what is gathered of them."""
        found = self._needs(way.recompute, zero, shard if zero else 1)
        gathered = sum(found.amount(name) for name in found if name.startswith("gathered"))
        return sum(found.amount(name) for name in found if name not in PASSING) - gathered, gathered

    def by_part(self, way: Layout) -> dict[str, float]:
        """Bytes of all that a device holds, as `memory.adapters` names it."""
        found = self._needs(way.recompute, way.zero, way.shard if way.zero else 1)
        times = {name: way.micro_batch if name in PASSING else 1 for name in found}
        return {name: found.amount(name) * times[name] for name in found}

    def _needs(self, recompute: str, zero: int, shard: int) -> Parts:
        """What a device holds of a micro-batch of one sequence; asked once."""
        key = recompute, zero, shard
        if key not in self.asked:
            own = self.adapters
            self.asked[key] = adapters.sharded(
                self.model,
                devices=shard,
                zero=zero,
                rank=own.rank,
                targets=own.targets,
                quantised=own.packed,
                whole_bits=own.bits == "4",
                recipe=self.recipe or RECIPE,
                tokens=self.tokens,
                recompute=recompute,
                dropout=self.dropout,
            )
        return self.asked[key]


def refuse_split(axes: Mapping[str, object]) -> None:
    """Refuse values of axes with which adapters are not counted.

    Chapter: after
    """
    for name, values in ALONE.items():
        if name in axes and axes[name] not in values:
            told = " or ".join(map(str, values))
            raise InputError(
                f"{name} = {axes[name]!r}: with adapters expected {told}; they are counted on "
                "replicas (data) and in ZeRO's shards alone"
            )
