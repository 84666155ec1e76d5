"""Schemes of the chapter after: an adapter beside a frozen matrix, roles by phase, and who sends
weights to whom before a reply.
"""

from functools import partial

from mathlib.checks import one_of, whole
from mathlib.memory.preference import METHODS, TRAINED, WRITES
from mathlib.show.figures import figure
from mathlib.show.kit import Canvas, Shape
from mathlib.show.roles import ROLES
from mathlib.show.tables import Shown

BESIDE = (
    "The input goes through the frozen matrix and through two narrow ones, and the results are "
    "added. Only A and B get gradients; the gradient of the input comes back through all three."
)
PHASES = (
    "A row is a role, a column a phase of a step. A role that writes or scores runs forward only; "
    "one that trains has gradients; all others rest, and still take memory."
)
SENT = (
    "Before a reply the weights leave their shards. Together, every rank gathers all of them. "
    "Apart, trainers gather, too, and send one copy to each writer."
)


def beside(*, caption: str = BESIDE, name: str = "") -> Shown:
    """A frozen matrix and its adapter."""
    return figure(_beside, caption=caption, name=name)


def _beside(width: float) -> str:
    page = Canvas(width, "A matrix with an adapter")
    looks = [("frozen", ROLES["weights"]), ("trained", ROLES["gradients"])]
    page.bottom = page.legend([*looks, ("activations", ROLES["activations"])], page.bottom)
    x = page.box("x", note="s × n_in", role="activations")
    frozen = page.box("W", note="n_out × n_in", role="weights", solid=True)
    down = page.box("A", note="r × n_in", role="gradients")
    up = page.box("B", note="n_out × r", role="gradients")
    y = page.box("x Wᵀ + (α/r) x Aᵀ Bᵀ", note="s × n_out", role="activations")
    page.row(x, above=10)
    page.row(frozen, page.space(30, 1), down, gap=24, above=36)
    page.row(page.space(110, 1), up, gap=24, above=36)
    page.row(y, above=36)
    for tail, tip in ((x, frozen), (x, down), (down, up), (frozen, y), (up, y)):
        page.arrow(tail, tip)
    return page.done("x goes to W and to A; A goes to B; W and B are added")


def roles(method: str = "ppo", *, caption: str = PHASES, name: str = "") -> Shown:
    """Who does what in each phase of a step."""
    one_of("method", method, METHODS)
    return figure(partial(_roles, method=method), caption=caption, name=name)


def acts(method: str) -> dict[str, list[str]]:
    """Of each role: what it does in every phase."""
    names = METHODS[method]
    trained = [role for role in names if role in TRAINED]
    found: dict[str, list[str]] = {role: [] for role in names}
    for role, did in found.items():
        if method in WRITES:
            did.append("writes" if role == "policy" else "rests")
        did.append("scores" if role != "policy" or method == "grpo" else _policy_scores(method))
        did += ["trains" if role == one else "rests" for one in trained]
    return found


def _policy_scores(method: str) -> str:
    """PPO keeps the probabilities with which the policy wrote; DPO's come in training."""
    return "scores" if method in WRITES else "rests"


LOOKS = {"writes": "cache", "scores": "forward", "trains": "gradients", "rests": "idle"}


def _roles(width: float, method: str) -> str:
    page = Canvas(width, f"A step of {method.upper()}")
    trained = [role for role in METHODS[method] if role in TRAINED]
    heads = (["write"] if method in WRITES else []) + ["score"]
    heads += [f"train {role}" for role in trained]
    cell = min(118.0, (width - 82) / len(heads))
    lines: list[Shape] = []
    for role, did in acts(method).items():
        grid = page.grid([[LOOKS[act] for act in did]], cell=cell, high=26, texts=[did])
        label = page.words(role, small=True)
        lines.append(page.beside(page.space(74 - label.wide, 1), label, grid, gap=4))
    page.row(page.stacked(*lines, gap=5), above=12)
    page.note("Phases: " + ", ".join(heads) + ".", above=8)
    told = "; ".join(f"{role}: {', '.join(did)}" for role, did in acts(method).items())
    return page.done(f"Phases {', '.join(heads)}. {told}")


def sent(trainers: int = 4, writers: int = 2, *, caption: str = SENT, name: str = "") -> Shown:
    """Weights on their way to those that write."""
    N, M = whole("trainers", trainers, least=2), whole("writers", writers)
    return figure(partial(_sent, N=N, M=min(M, N)), caption=caption, name=name)


def _sent(width: float, N: int, M: int) -> str:
    page = Canvas(width, "Weights before a reply")
    looks = [("weights", ROLES["weights"]), ("optimizer states", ROLES["optimizer"])]
    page.bottom = page.legend([*looks, ("cache", ROLES["cache"])], page.bottom)
    wide = min(96.0, (width - 12 * N) / N)
    for title, writers in (("Together", 0), ("Apart", M)):
        page.row(page.words(title, bold=True), above=16)
        page.row(page.words("each gathers all: K (N-1)/N sent", small=True), above=4)
        ranks = [_rank(page, f"rank {r}", not writers, wide) for r in range(N)]
        page.row(*ranks, gap=10, above=8)
        if writers:
            made = [_writer(page, f"writer {w}", wide) for w in range(writers)]
            page.row(*made, gap=10, above=40)
            for r, one in enumerate(made):
                page.arrow(ranks[r], one, "K" if not r else "")
    return page.done(
        f"Together {N} ranks gather and write; apart {N} gather and {M} of them send K to a writer"
    )


def _rank(page: Canvas, title: str, writes: bool, wide: float) -> Shape:
    shares = [("weights", 2), ("optimizer", 12)] + ([("cache", 8)] if writes else [])
    parts = [("", size, ROLES[role]) for role, size in shares]
    strip = page.strip(parts, wide=wide, high=20)
    return page.stacked(page.words(title, small=True), strip, gap=3)


def _writer(page: Canvas, title: str, wide: float) -> Shape:
    strip = page.strip([("", 8, ROLES["weights"]), ("", 14, ROLES["cache"])], wide=wide, high=20)
    return page.stacked(page.words(title, small=True), strip, gap=3)
