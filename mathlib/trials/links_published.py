"""Published runs over slow links beside the event model and the formulas, without a fit.

N ranks · K payload, bytes · H steps between meetings · W bandwidth
"""

import math
from typing import Any

from mathlib import specs
from mathlib.schedule import events, programs
from mathlib.schedule.cluster import Cluster, Link
from mathlib.schedule.events import Program, Send, Wait

ROWS: dict[str, Any] = specs.table("rates")["slow-links"]
N, K = ROWS["ranks"], 4 * ROWS["parameters"]
PIECE = 2**19  # bytes: a step of NCCL's Simple protocol (4 MiB in 8 steps)
BUFFERS = 6 * 131_072 * 8 * 8  # bytes: layers, positions, complex numbers of half a head of 16


def broadcast(*, payload: int, ranks: int, piece: int = PIECE) -> list[Program]:
    """From rank 0 down a chain, piece by piece, as NCCL's rings do it."""
    sizes = [min(piece, payload - at) for at in range(0, payload, piece)]
    found: list[Program] = []
    for rank in range(ranks):
        program: list = []
        for size in sizes:
            program += [Wait(rank - 1)] if rank else []
            program += [Send(rank + 1, size)] if rank < ranks - 1 else []
        found.append(program)
    return found


def seconds(bandwidth: float, buffers: int = 0) -> float:
    """Of a ring all-reduce of the gradients on four nodes, behind a broadcast of buffers."""
    ring = programs.ring(payload=K, ranks=N)
    parts = [broadcast(payload=buffers, ranks=N), ring] if buffers else [ring]
    return events.run(programs.after(parts), Cluster((1,) * N, between=Link(bandwidth))).total


def synchronised() -> dict[str, tuple[float, float]]:
    """Local SGD's meetings: by the event model and as published, by Gbit/s."""
    return {_port(row[0]): (seconds(row[0] * 1e9 / 8), row[1]) for row in ROWS["measured"]}


def ddp(buffers: int = BUFFERS) -> dict[str, tuple[float, float]]:
    """DDP's waiting, likewise."""
    return {_port(row[0]): (seconds(row[0] * 1e9 / 8, buffers), row[2]) for row in ROWS["measured"]}


def waiting_rows() -> list[list[str]]:
    """By link: a ring by the event model, local SGD and DDP as published, and their ratio."""
    return [
        [port, f"{ring:.3g}", f"{meeting:.3g}", f"{waits:.3g}", f"{waits / meeting:.2f}"]
        for (port, (ring, meeting)), (_, waits) in zip(
            synchronised().items(), ddp().values(), strict=True
        )
    ]


def _port(gigabits: float) -> str:
    return f"{gigabits:g} Gbit/s" if gigabits >= 1 else f"{1000 * gigabits:g} Mbit/s"


def computing() -> dict[str, tuple[float, float]]:
    """Percent of a DDP step in which the GPUs compute: by the event model, and by its waiting."""
    c = ROWS["backward"]
    return {
        port: (100 * c / (c + model), 100 * c / (c + waits))
        for port, (model, waits) in ddp().items()
    }


# Streaming DiLoCo, Table 1


def hours(terabytes: float, gigabits: float = 1.0, links: int = 1) -> float:
    """That so many bytes take over links of so many Gbit/s, used at the same time."""
    return 8e12 * terabytes / (gigabits * 1e9) / 3600 / links


def streaming_rows() -> list[list[str]]:
    """By method: terabytes, hours printed at 1 Gbit/s, hours of the bytes over 1 link and 8."""
    return [
        [name, f"{terabytes:,.4g}", f"{printed:g}"]
        + [f"{hours(terabytes, links=n):,.3g}" for n in (1, 8)]
        for name, _, printed, terabytes in ROWS["streaming"]
    ]


def fewer(steps: int = 100, bits: float = 4, full: float = 16) -> tuple[float, float]:
    """How many times fewer bytes: H times the ratio of bits, and as printed."""
    (_, _, _, all_of_it), (_, _, _, less) = ROWS["streaming"]
    return steps * full / bits, all_of_it / less


# Scaling Laws for DiLoCo, Table 6: Gbit/s for half of the time computing

GRID = 10 ** (4 / 49)  # its bandwidths are of 50 between 0.1 and 1,000 Gbit/s


def on_grid(gigabits: float) -> float:
    """The point of the grid that was printed."""
    return 0.1 * GRID ** round(math.log(gigabits / 0.1, GRID))


def narrower(hidden: float = 0.5) -> dict[str, tuple[float, float, float]]:
    """How many times less bandwidth than data parallel a model needs that meets every H steps: both
    hide a share of one step behind it; (H + hidden)/(1 + hidden).  And as published: at least and
    at most, since the bandwidth that just suffices lies up to a step of the grid below.
    """
    full = on_grid(ROWS["half"][0][1])
    return {
        f"H = {H}": ((H + hidden) / (1 + hidden), ratio / GRID, ratio * GRID)
        for H, gigabits in ROWS["half"][1:]
        for ratio in [full / on_grid(gigabits)]
    }


def narrower_rows(shares: tuple[float, ...] = (0, 0.5, 2 / 3)) -> list[list[str]]:
    """By H: the model's ratio for shares of a step that hide, and what was published."""
    return [
        [H, *(f"{narrower(x)[H][0]:.3g}" for x in shares), f"{low:.2g} to {high:.2g}"]
        for H, (_, low, high) in narrower().items()
    ]
