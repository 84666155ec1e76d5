"""Experiments of the collectives chapter: the ring step by step, and what an all-reduce takes by
each algorithm.
"""

from functools import partial

from mathlib.parts import exact_sum
from mathlib.show import says, svg
from mathlib.show.equation import equation
from mathlib.show.experiments import Choice, Range, doubling, experiment
from mathlib.show.figures import both, figure_html
from mathlib.show.kit.sheet import Sheet, place
from mathlib.show.rank_grid import Held, Whose, held_after
from mathlib.show.roles import rank_look
from mathlib.traffic import comm

HIGH, BETWEEN = 24, 16

PAYLOADS = tuple(4**e * 1000 for e in range(1, 12))
MICROSECONDS = (0, 1, 2, 5, 10, 20, 50, 100, 1000)
BANDWIDTHS = (1.25e9, 12.5e9, 25e9, 50e9, 300e9, 450e9)


def _latency(default: int, least: int) -> Choice:
    options = tuple((f"{a} µs", a) for a in MICROSECONDS if a >= least)
    return Choice("microseconds", "Latency of a message", options, default, True)


def _piece(page: Sheet, x: float, y: float, wide: float, whose: Whose, n: int, hint: str) -> None:
    """One piece: a slot for each rank's numbers, filled where they are in; a heavy frame when all
    are.
    """
    for r in sorted(whose):
        page.rect(x + r * wide / n, y, wide / n, HIGH, rank_look(r, n))
    page.frame(x, y, wide, HIGH, hint=hint, heavy=len(whose) == n)


def ring_picture(held: Held, came: list[int], title: str) -> str:
    """A row for each rank, a column for each piece; what came in the last step has an arrow above
    it.
    """
    return figure_html(both(partial(_ring_picture, held=held, came=came, title=title)))


def _ring_picture(width: float, held: Held, came: list[int], title: str) -> str:
    page, n = Sheet(width), len(held)
    top = page.title(title) + 12
    left = page.wide("rank 0") + 34
    pitch = (width - left) / n
    for p in range(n):
        head = f"chunk {p}" if page.wide("chunk 0", page.small) < pitch - 8 else str(p)
        middle = left + (p + 0.5) * pitch - 3
        page.text(middle, top, head, anchor="middle", size=page.small, quiet=True)
    said = []
    for r, row in enumerate(held):
        y = top + 20 + r * (HIGH + BETWEEN)
        page.rect(1, y + 5, 14, 14, rank_look(r, n), radius=2)
        page.text(22, y + 17, f"rank {r}")
        for p, whose in enumerate(row):
            names = ", ".join(map(str, sorted(whose)))
            hint = f"Rank {r}, chunk {p}: numbers of ranks {names}"
            x = left + p * pitch
            _piece(page, x, y, pitch - 6, whose, n, hint)
            if p == came[r]:
                _arrow(page, x + pitch / 2 - 3, y)
        finished = sum(len(whose) == n for whose in row)
        said.append(f"rank {r} holds {finished} finished chunk{'s' * (finished != 1)}")
    return page.svg(title, ". ".join(said) + ".")


def _arrow(page: Sheet, x: float, y: float) -> None:
    """Down through the gap above a piece."""
    page.line(f"M{place(x, y - BETWEEN + 2)}v{BETWEEN - 5}m-4 -5l4 5l4 -5", width=2)


@experiment(
    "ring",
    "The ring, step by step",
    Range("ranks", "Ranks", 2, 8, 1, 4),
    Range("step", "Step", 0, 14, 1, 3),
    doubling("megabytes", "Payload of a rank", 1, 1024, 16, "MB"),
    code=(comm.ring_steps, held_after),
)
def ring(ranks: int, step: int, megabytes: int) -> str:
    n, k = ranks, megabytes * 1e6
    done = min(step, 2 * (n - 1))
    held, came = held_after(n, done)
    still = f" A ring of {n} is done after {done} steps." if step > done else ""
    say = f'<p class="mlx-say">{_ring_says(n, done, came[0])}{still}</p>'
    title = f"What {n} ranks hold after step {done}, in chunks of {says.size(k / n)}"
    picture = ring_picture(held, came, title)
    sent, whole = done * k / n, comm.sent("all-reduce", payload=k, ranks=n)
    so_far = (
        f"<p>Each rank has sent {says.size(sent) if done else 'nothing'} of {says.size(whole)}:</p>"
    )
    law = equation("Q = 2 * K * (N - 1) / N", Q=(whole, says.size(whole)), K=(k, says.size(k)), N=n)
    return say + picture + so_far + law


def _ring_says(n: int, done: int, piece: int) -> str:
    """Where the ring stands after so many steps, and what rank 0 did with the piece that came."""
    last = 2 * (n - 1)
    if done < n:
        what, took = "reduce-scatter", "added what came to its own"
    else:
        what, took = "all-gather", "keeps what came"
    moved = "Nothing has moved yet."
    if done:
        moved = f"Rank 0 has taken chunk {piece} from rank {n - 1}, and {took}."
    finished = ""
    if done == last:
        finished = " Every rank now holds the whole sum."
    elif done == n - 1:
        finished = " Every rank now holds one finished chunk."
    return f"<b>Step {done} of {last}, {what}.</b> {moved}{finished}"


@experiment(
    "all-reduce",
    "Which algorithm is fastest?",
    doubling("ranks", "Ranks", 2, 16384, 64),
    Choice(
        "payload",
        "Payload of a rank",
        tuple((says.size(k), k) for k in PAYLOADS),
        4**7 * 1000,
        True,
    ),
    _latency(10, least=1),
    Choice(
        "bandwidth",
        "Link, one direction",
        tuple((says.rate(w), w) for w in BANDWIDTHS),
        50e9,
        True,
    ),
    code=(comm.traffic, comm.time, comm.ring_balance),
)
def all_reduce(ranks: int, payload: int, microseconds: int, bandwidth: float) -> str:
    n, k, w = ranks, payload, bandwidth
    alpha = microseconds * 1e-6
    rows = []
    for algorithm in ("ring", "halving-doubling", "tree"):
        parts = comm.time(
            "all-reduce", payload=k, ranks=n, bandwidth=w, latency=alpha, algorithm=algorithm
        )
        rows.append((algorithm, {part: parts.amount(part) for part in parts}))
    took = {name: exact_sum(parts.values()) for name, parts in rows}
    least = min(took.values())
    best = " and ".join(name for name in took if took[name] < 1.0005 * least)
    balance = comm.ring_balance(payload=k, bandwidth=w, latency=alpha)
    more = "latency" if n > balance else "bytes"
    say = (
        f'<p class="mlx-say"><b>Fastest: {best}</b>, {says.time(least)}. In a ring of {n:,}, '
        f"most of the time goes into {more}.</p>"
    )
    chart = svg.bars(rows, title=f"Time of an all-reduce over {n:,} ranks", show=says.time)
    law = equation(
        "T = 2 * (N - 1) * alpha + 2 * K * (N - 1) / (N * W)",
        T=(took["ring"], says.time(took["ring"])),
        N=n,
        alpha=(alpha, says.time(alpha)),
        K=(k, says.size(k)),
        W=(w, says.rate(w)),
    )
    shown = f"{balance:,.0f}" if balance >= 10 else f"{balance:.2g}"
    even = f"<p>The two terms are equal at K / (&alpha; W) = {shown} ranks.</p>"
    return say + chart + "<p>For the ring:</p>" + law + even
