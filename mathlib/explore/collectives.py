"""Experiments of the collectives chapter: the ring step by step, and what an all-reduce takes by
each algorithm.
"""

from math import fsum

from mathlib import units
from mathlib.show import svg
from mathlib.show.equation import equation
from mathlib.show.experiments import Choice, Range, doubling, experiment
from mathlib.traffic import comm

LEFT, HIGH, BETWEEN, TOP = 74.0, 24.0, 16.0, 34.0
Held = list[list[frozenset[int]]]  # [rank][piece]: whose numbers are in it

PAYLOADS = tuple(4**e * 1000 for e in range(1, 12))
MICROSECONDS = (0, 1, 2, 5, 10, 20, 50, 100, 1000)
BANDWIDTHS = (1.25e9, 12.5e9, 25e9, 50e9, 300e9, 450e9)


def _latency(default: int, least: int) -> Choice:
    options = tuple((f"{a} us", a) for a in MICROSECONDS if a >= least)
    return Choice("microseconds", "Latency of a message", options, default, True)


def held_after(ranks: int, steps: int) -> tuple[Held, list[int]]:
    """What every rank holds after so many steps, and the pieces that came in the last of them, one
    a rank.
    """
    held: Held = [[frozenset([r])] * ranks for r in range(ranks)]
    each, came = [comm.ring_steps(range(ranks), r) for r in range(ranks)], [-1] * ranks
    for step in range(steps):
        before = [list(row) for row in held]
        for r, (scatter, gather) in enumerate(each):
            _, came[r] = [*scatter, *gather][step]
            arrived = before[r - 1][came[r]]
            held[r][came[r]] = arrived | before[r][came[r]] if step < len(scatter) else arrived
    return held, came


def _piece(x: float, y: float, wide: float, whose: frozenset[int], n: int, hint: str) -> str:
    """One piece: a slot for each rank's numbers, filled where they are in; a heavy frame when all
    are.
    """
    slots = "".join(
        svg.box(x + r * wide / n, y, wide / n, HIGH, svg.SPARE[r]) for r in sorted(whose)
    )
    shape = (
        f'x="{svg.number(x)}" y="{svg.number(y)}" width="{svg.number(wide)}" '
        f'height="{svg.number(HIGH)}"'
    )
    frame = (
        f'fill="none" stroke="currentColor" stroke-width="{2.6 if len(whose) == n else 0.7}" '
        'pointer-events="all"'
    )
    return f"{slots}<rect {shape} {frame}><title>{hint}</title></rect>"


def _arrow(x: float, y: float) -> str:
    """Down through the gap above a piece."""
    path = (
        f"M{svg.number(x)} {svg.number(y - BETWEEN + 2)}v{svg.number(BETWEEN - 4)}m-4 -5l4 5l4 -5"
    )
    return f'<path d="{path}" stroke="currentColor" stroke-width="2" fill="none"/>'


def ring_picture(held: Held, came: list[int], title: str) -> str:
    """A row for each rank, a column for each piece; what came in the last step has an arrow above
    it.
    """
    n, out, said = len(held), [], []
    pitch = (svg.WIDTH - LEFT) / n
    for p in range(n):
        out.append(
            svg.text(
                LEFT + (p + 0.5) * pitch - 3,
                14,
                f"piece {p}" if n < 7 else str(p),
                anchor="middle",
                size=svg.SMALL,
            )
        )
    for r, row in enumerate(held):
        y = TOP + r * (HIGH + BETWEEN)
        out.append(svg.box(1, y + 5, 14, 14, svg.SPARE[r]) + svg.text(21, y + 17, f"rank {r}"))
        for p, whose in enumerate(row):
            x = LEFT + p * pitch
            names = ", ".join(map(str, sorted(whose)))
            out.append(
                _piece(x, y, pitch - 6, whose, n, f"Rank {r}, piece {p}: numbers of ranks {names}")
            )
            out.append(_arrow(x + (pitch - 6) / 2, y) if came[r] == p else "")
        said.append(f"rank {r} holds {sum(len(whose) == n for whose in row)} finished pieces")
    return svg.drawing(TOP + n * (HIGH + BETWEEN), title, ". ".join(said) + ".", "".join(out))


@experiment(
    "ring",
    "The ring, step by step",
    Range("ranks", "Ranks", 2, 8, 1, 4),
    Range("step", "Steps done", 0, 14, 1, 3),
    doubling("megabytes", "Payload of a rank", 1, 1024, 16, "MB"),
    code=(comm.ring_steps, held_after),
)
def ring(ranks: int, step: int, megabytes: int) -> str:
    n, k, last = ranks, megabytes * 1e6, 2 * (ranks - 1)
    done = min(step, last)
    held, came = held_after(n, done)
    what = "reduce-scatter" if done < n else "all-gather"
    took = {True: "added what came to its own", False: "keeps what came"}[done < n]
    first = (
        f"Rank 0 has taken piece {came[0]} from rank {n - 1}, and {took}."
        if done
        else "Nothing has moved yet."
    )
    finished = " Every rank now holds one finished piece." if done == n - 1 else ""
    finished = " Every rank now holds the whole sum." if done == last else finished
    say = f'<p class="mlx-say"><b>Step {done} of {last}, {what}.</b> {first}{finished}</p>'
    sent, whole = done * k / n, comm.sent("all-reduce", payload=k, ranks=n)
    so_far = f"<p>Each rank has sent {_bytes(sent)} of {_bytes(whole)}:</p>"
    law = equation("Q = 2 * K * (N - 1) / N", Q=(whole, _bytes(whole)), K=(k, _bytes(k)), N=n)
    return say + ring_picture(held, came, f"What {n} ranks hold after step {done}") + so_far + law


@experiment(
    "slow-link",
    "One slow link",
    Range("ranks", "Ranks", 2, 8, 1, 4),
    Range("slow", "Rank with the slow link", 0, 7, 1, 2),
    Choice(
        "times",
        "Times slower than the others",
        tuple((f"{t}", t) for t in (1, 2, 3, 5, 10)),
        3,
        True,
    ),
    doubling("megabytes", "Payload of a rank", 1, 1024, 64, "MB"),
    _latency(0, least=0),
    code=(comm.ring_messages,),
)
def slow_link(ranks: int, slow: int, times: int, megabytes: int, microseconds: int) -> str:
    n, k, w, alpha, bad = ranks, megabytes * 1e6, 50e9, microseconds * 1e-6, slow % ranks
    links = [w / times if r == bad else w for r in range(n)]
    messages = comm.ring_messages(payload=k, bandwidths=links, latency=alpha)
    last = max(end for row in messages for _, end in row)
    busy = fsum(
        end - start for row in messages for start, end in row
    )  # sum() rounds otherwise from Python 3.12 on
    equal = comm.time("all-reduce", payload=k, ranks=n, bandwidth=w, latency=alpha).total
    say = (
        f'<p class="mlx-say"><b>{last / equal:.3g} times as long</b> as with equal links: '
        f"{_seconds(last)}. "
        f"The links are idle for {1 - busy / n / last:.0%} of the time.</p>"
    )
    rows = [(f"rank {r}", _on_the_wire(row, (r + 1) % n)) for r, row in enumerate(messages)]
    chart = svg.timeline(rows, title=f"Messages of a ring of {n}", show=_seconds, axis_title="time")
    law = equation(
        "T = 2 * (N - 1) * (alpha + K / (N * W))",
        T=(last, _seconds(last)),
        N=n,
        alpha=(alpha, _seconds(alpha)),
        K=(k, _bytes(k)),
        W=(min(links), units.show(min(links), "byte/s")),
    )
    alike = (
        "<p>Message by message, this is the time of a ring in which every link is the slowest:</p>"
    )
    return say + chart + alike + law


def _on_the_wire(
    messages: list[tuple[float, float]], to: int
) -> list[tuple[str, float, float, str]]:
    """A rank's messages, and its waiting before them, for a timeline."""
    events, free = [], 0.0
    for step, (start, end) in enumerate(messages):
        if start > free:
            events.append(("idle", free, start, f"waiting for what message {step} carries on"))
        events.append(("communication", start, end, f"message {step} to rank {to}"))
        free = end
    return events


def _bytes(value: float) -> str:
    return units.show(value, "byte", digits=3)


def _seconds(value: float) -> str:
    return units.show(value, "second", digits=3)


@experiment(
    "all-reduce",
    "Which algorithm is fastest?",
    doubling("ranks", "Ranks", 2, 16384, 64),
    Choice(
        "payload",
        "Payload of a rank",
        tuple((units.show(k, "byte", digits=3), k) for k in PAYLOADS),
        4**7 * 1000,
        True,
    ),
    _latency(10, least=1),
    Choice(
        "bandwidth",
        "Link, one direction",
        tuple((units.show(w, "byte/s"), w) for w in BANDWIDTHS),
        50e9,
        True,
    ),
    code=(comm.traffic, comm.time, comm.ring_balance),
)
def all_reduce(ranks: int, payload: int, microseconds: int, bandwidth: float) -> str:
    n, k, alpha, w = ranks, payload, microseconds * 1e-6, bandwidth
    rows = []
    for algorithm in ("ring", "halving-doubling", "tree"):
        parts = comm.time(
            "all-reduce", payload=k, ranks=n, bandwidth=w, latency=alpha, algorithm=algorithm
        )
        rows.append((algorithm, {part: parts.amount(part) for part in parts}))
    took = {name: sum(parts.values()) for name, parts in rows}
    best = min(took, key=lambda name: (round(took[name], 15), name != "ring"))
    balance = comm.ring_balance(payload=k, bandwidth=w, latency=alpha)
    more = "latency" if n > balance else "bytes"
    say = (
        f'<p class="mlx-say"><b>Fastest: {best}</b>, {_seconds(took[best])}. In a ring of {n:,}, '
        f"most of the time goes into {more}.</p>"
    )
    chart = svg.bars(rows, title=f"Time of an all-reduce over {n:,} ranks", show=_seconds)
    law = equation(
        "T = 2 * (N - 1) * alpha + 2 * K * (N - 1) / (N * W)",
        T=(took["ring"], _seconds(took["ring"])),
        N=n,
        alpha=(alpha, _seconds(alpha)),
        K=(k, _bytes(k)),
        W=(w, units.show(w, "byte/s")),
    )
    even = f"<p>The two terms are equal at K / (&alpha; W) = {balance:,.4g} ranks.</p>"
    return say + chart + "<p>For the ring:</p>" + law + even
