"""Schemes of the links chapter: what a code leaves out comes back, codes take two passes, and ranks
that meet every step, every few steps, or a fragment at a time.
"""

from functools import partial

from mathlib.checks import divides, whole
from mathlib.show.figures import figure
from mathlib.show.kit import Canvas, Shape
from mathlib.show.roles import ROLES, rank_look
from mathlib.show.tables import Shown

FEEDBACK = (
    "Error feedback: what the code leaves out of this step's gradient is added to the next one's."
)
PASSES = (
    "Codes cannot be added in flight. Each rank owns a chunk: it gets all codes of that chunk, "
    "and sends a code of their mean to everybody."
)
MEETINGS = (
    "Each cell is a step of one rank, each bar a meeting. Fewer meetings send less; fragments send "
    "less at a time, and a late one travels while the rank computes."
)


def feedback(*, caption: str = FEEDBACK, name: str = "") -> Shown:
    """The way of a gradient through a code."""
    return figure(_feedback, caption=caption, name=name)


def _feedback(width: float) -> str:
    page = Canvas(width, "A code with error feedback")
    gradient = page.box("gradient", note="of this step", role="gradients")
    whole_ = page.box("sum", note="to be sent", role="gradients")
    code = page.box("code", note="few bits", role="communication", solid=True)
    rest = page.box("left over", note="sum minus code", role="temporary")
    if page.narrow:
        page.column(gradient, whole_, code, rest)
    else:
        page.row(gradient, whole_, code, gap=70)
        page.row(rest, above=46)
    page.arrow(gradient, whole_)
    page.arrow(whole_, code)
    page.arrow(code, rest)
    if page.narrow:  # round the code
        page.arrow(rest, whole_, bend=-1.1)
    else:
        page.arrow(rest, whole_, "next step", side=-1)
    return page.done(
        "The gradient and what was left over are added; the code of the sum is sent; the sum minus "
        "its code is left over for the next step"
    )


def passes(ranks: int = 3, *, caption: str = PASSES, name: str = "") -> Shown:
    """Chunks of each rank before, at their owners, and after."""
    N = whole("ranks", ranks, least=2)
    return figure(partial(_passes, N=N), caption=caption, name=name)


def _passes(width: float, N: int) -> str:
    page = Canvas(width, f"Two passes over {N} ranks")
    cell = min(48.0, (width - 90) / N)
    looks = [(f"gradient of rank {r}", rank_look(r, N)) for r in range(N)]
    page.bottom = page.legend([*looks, ("mean", ROLES["gradients"])], page.bottom)
    chunks = [f"c{c}" for c in range(N)]
    own = [[[rank_look(r, N)] * N, chunks] for r in range(N)]
    owners = [[[rank_look(r, N) for r in range(N)], [f"c{r}"] * N] for r in range(N)]
    means = [[["gradients"] * N, chunks] for _ in range(N)]
    _stage(page, "each rank codes its gradient", own, cell)
    page.row(page.box("all-to-all of codes", role="communication", solid=True), above=12)
    _stage(page, "the owner of a chunk has all codes of it", owners, cell)
    page.row(page.box("all-gather of the means' codes", role="communication", solid=True), above=12)
    _stage(page, "everybody has every mean", means, cell)
    return page.done(f"{N} ranks: chunks go to their owners, means of chunks go to everybody")


def _stage(page: Canvas, head: str, lines: list, cell: float) -> None:
    rows: list[Shape] = []
    for r, (looks, texts) in enumerate(lines):
        grid = page.grid([looks], cell=cell, high=22, texts=[texts])
        rows.append(page.beside(page.words(f"rank {r}", small=page.narrow), grid, gap=8))
    page.row(page.words(head, bold=True, small=page.narrow), above=12)
    page.row(page.stacked(*rows, gap=4), above=6)


def meetings(
    steps: int = 4, fragments: int = 2, *, caption: str = MEETINGS, name: str = ""
) -> Shown:
    """Eight steps of a rank: data parallel, local steps, local steps in fragments."""
    H = whole("steps", steps)
    F = divides("fragments", fragments, "steps", H)
    return figure(partial(_meetings, H=H, F=F), caption=caption, name=name)


def _meetings(width: float, H: int, F: int) -> str:
    page = Canvas(width, f"Meetings every step, every {H}, and in {F} fragments")
    looks = [("a step", ROLES["forward"]), ("a meeting", ROLES["communication"])]
    page.bottom = page.legend(looks, page.bottom)
    long = f"every {H} steps"
    every = {"every step": 1, long: H, f"in {F} fragments": H // F}
    cell = (width - 20) / 24
    wide = 8 * 1.6 * cell + 8 * cell + 15  # of the first, which the others are as wide as
    for title, steps in every.items():
        meeting = cell / F if steps == H // F and title != long else cell
        shapes = []
        for step in range(1, 9):
            shapes.append(page.grid([["forward"]], cell=1.6 * cell, high=22))
            if step % steps == 0:
                size = cell if title == "every step" else meeting
                shapes.append(page.grid([["communication"]], cell=size, high=22))
        used = sum(shape.wide for shape in shapes) + len(shapes) - 1
        page.row(page.words(title, bold=True, small=page.narrow), above=12)
        page.row(page.beside(*shapes, page.space(wide - used, 1), gap=1), above=6)
    return page.done(
        f"Eight steps with eight meetings, with {8 // H} whole ones, with {8 * F // H} of a "
        f"fragment each, {F} times as short"
    )
