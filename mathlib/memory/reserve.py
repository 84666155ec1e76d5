"""What a program needs of a device besides what the formulas count.

M bytes of a device
"""

from mathlib.checks import InputError, non_negative, one_of, positive
from mathlib.records import dataclass, field
from mathlib.specs import table

USUAL = "usual"


@dataclass(frozen=True)
class Reserve:
    """Left free of a device: context, libraries, buffers of collectives, fragments."""

    bytes: float  # so many on every device
    share: float  # of its memory
    source: str = field(default="", compare=False)
    date: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        non_negative("bytes", self.bytes)
        if non_negative("share", self.share) >= 1:
            raise InputError(f"share = {self.share!r}: expected less than 1")

    def of(self, memory: float) -> float:
        """Bytes of a device of M that stay free."""
        return self.bytes + self.share * positive("memory", memory)


def find_reserve(program: str = USUAL) -> Reserve:
    """What a row of reserves.toml leaves free; the usual where nobody told of a program.

    Chapter: memory
    """
    rows = table("reserves")
    one_of("program", program, (*rows, *table("calibrations")["programs"]))
    return Reserve(**rows.get(program, rows[USUAL]))
