"""What a puzzle's picture shows: a row of parts for each rank, before and after.

A part is drawn as a box of its role, or as a sum: a slot for each rank whose term is in it.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple


class Part(NamedTuple):
    """A box."""

    role: str  # one of show.roles.ROLES: its colour and hatch
    text: str = ""
    size: float = 1.0  # of the usual width


Sum = frozenset[int]  # the ranks whose terms are in it
Row = Sequence[Part | Sum]


class Sketch(NamedTuple):
    """Two panels of rows."""

    titles: tuple[str, str]
    rows: tuple[list[Row], list[Row]]
    who: str  # of what there is a row: rank, stage
    terms: int  # slots of a sum


def of(*ranks: int) -> Sum:
    """A sum that has these ranks' terms."""
    return frozenset(ranks)


def parts(role: str, *texts: object) -> list[Part]:
    """Boxes of a role side by side."""
    return [Part(role, str(text)) for text in texts]


def sketch(
    ranks: int,
    before: Callable[[int], Row],
    after: Callable[[int], Row],
    *,
    titles: tuple[str, str] = ("before", "after"),
    who: str = "rank",
    later: int = 0,
) -> Sketch:
    """What each rank has; `later`: how many there are after, if not as many."""
    rows = [before(r) for r in range(ranks)], [after(r) for r in range(later or ranks)]
    return Sketch(titles, rows, who, ranks)


def fault(
    ranks: int, written: Callable[[int], Row], right: Callable[[int], Row], who: str = "rank"
) -> Sketch:
    """The same for a case of the clinic."""
    return sketch(ranks, written, right, titles=("as it is written", "as it should be"), who=who)


def words(drawn: Sketch) -> str:
    """What is to be seen, for whoever cannot see it."""
    said = []
    for title, rows in zip(drawn.titles, drawn.rows, strict=True):
        each = [
            f"{drawn.who} {r}: {', '.join(map(_named, row)) or 'nothing'}"
            for r, row in enumerate(rows)
        ]
        said.append(f"{title}: {'; '.join(each)}")
    return ". ".join(said)


def _named(part: Part | Sum) -> str:
    if isinstance(part, Part):
        return f"{part.role} {part.text}".strip()
    return f"a sum of {' + '.join(map(str, sorted(part)))}"
