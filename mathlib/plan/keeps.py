"""What a program keeps in memory that others do not, read in its code.

t tensor · V padded vocabulary
"""

from mathlib.checks import flag, non_negative, one_of, positive
from mathlib.records import dataclass, field
from mathlib.specs import table

USUAL = "usual"


@dataclass(frozen=True)
class Keeps:
    """Conventions of a program, as far as they weigh."""

    recipe: str = "mixed-adam-fp32-gradients"  # copies of a parameter, a row of recipes.toml
    logit: float = 6  # bytes of a logit while the loss and its gradient are computed
    whole_logits: bool = False  # a tensor rank holds those of all V words, not a t-th
    fused_gate: bool = True  # a gate's product keeps three tensors instead of four
    norm: float = 0  # bytes that a norm keeps for each number besides its input
    source: str = field(default="", compare=False)
    date: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        one_of("recipe", self.recipe, table("recipes"))
        positive("logit", self.logit)
        non_negative("norm", self.norm)
        for name in ("whole_logits", "fused_gate"):
            flag(name, getattr(self, name))


def find_keeps(program: str = "megatron-core") -> Keeps:
    """What a program of calibrations.toml keeps; the usual where nobody read its code.

    Chapter: planning
    """
    one_of("program", program, table("calibrations")["programs"])
    rows = table("keeps")
    return Keeps(**rows.get(program, rows[USUAL]))
