"""What a program keeps in memory that others do not, read in its code.

t tensor · V padded vocabulary
"""

from mathlib.checks import InputError, flag, non_negative, one_of, positive
from mathlib.records import dataclass, field
from mathlib.specs import table

USUAL = "usual"


@dataclass(frozen=True)
class Keeps:
    """Conventions of a program, as far as they weigh."""

    recipe: str = "mixed-adam-fp32-gradients"  # copies of a parameter, a row of recipes.toml
    logit: float = 6  # bytes of a logit while the loss and its gradient are computed
    shared_logit: float = 0  # bytes more of a logit where tensor ranks share the vocabulary
    whole_logits: bool = False  # a tensor rank holds those of all V words, not a t-th
    fused_gate: bool = True  # a gate's product keeps three tensors instead of four
    norm: float = 0  # bytes that a norm keeps for each number besides its input
    rounded: bool = True  # layers keep their inputs in the 8 or 4 bits in which they multiply them
    expert_results: bool = False  # experts' results are kept, and weighted after the last product
    selective: tuple[str, ...] = ()  # what selective recomputation keeps; (): all but the core
    gathered: bool = False  # a stage of a pipeline holds weights and gradients that ZeRO shards
    source: str = field(default="", compare=False)
    date: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        one_of("recipe", self.recipe, table("recipes"))
        positive("logit", self.logit)
        for name in ("norm", "shared_logit"):
            non_negative(name, getattr(self, name))
        for name in ("whole_logits", "fused_gate", "rounded", "expert_results", "gathered"):
            flag(name, getattr(self, name))
        if not isinstance(self.selective, tuple):
            raise InputError(f"selective = {self.selective!r}: expected a tuple of names")


def find_keeps(program: str = "megatron-core") -> Keeps:
    """What a program of calibrations.toml keeps; the usual where nobody read its code.

    Chapter: planning
    """
    one_of("program", program, table("calibrations")["programs"])
    rows = table("keeps")
    row = rows.get(program, rows[USUAL])
    return Keeps(**row | {"selective": tuple(row.get("selective", ()))})
