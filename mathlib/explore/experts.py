"""The experiment of the experts chapter: a router's loads, who waits, what is sent or dropped."""

import math
from functools import lru_cache

from mathlib import specs
from mathlib.schedule import expert_load
from mathlib.show import says, svg
from mathlib.show.experiments import Choice, Range, doubling, experiment
from mathlib.show.tables import table
from mathlib.traffic import volumes

MODELS = ("mixtral-8x7b", "qwen3-30b-a3b", "deepseek-v3")
ROOMS = (("dropless", 0), ("1", 100), ("1.25", 125), ("1.5", 150), ("2", 200))
TOKENS, CONTEXT = 256, 4096  # that are drawn, that are reckoned with
X = 0.4 * specs.find_device("h100-sxm").flops_per_second("bf16")


@lru_cache(16)  # no rank, room or link changes whom a token visits
def visited(experts: int, active: int, skew: int) -> list[int]:
    """Visits of each expert."""
    return expert_load.drawn(experts=experts, active=active, tokens=TOKENS, skew=skew / 100)


@experiment(
    "expert-loads",
    "Loads of experts",
    Choice("model", "Model", specs.titled("models", MODELS), "mixtral-8x7b"),
    doubling("expert", "Expert-parallel degree", 1, 64, 8),
    Range("skew", "Popularity: expert i has i to the minus", 0, 100, 10, 50, "%"),
    Choice("capacity", "Capacity factor", ROOMS, 0),
    doubling("gigabytes", "Link of a GPU, one direction", 25, 800, 400, "GB/s"),
    code=(expert_load.drawn, expert_load.imbalance, expert_load.ranks_visited),
)
def expert_loads(model: str, expert: int, skew: int, capacity: int, gigabytes: int) -> str:
    shape = specs.find_model(model)
    e = shape.experts
    assert e
    visits = visited(e.routed, e.active, skew)
    room = math.ceil(capacity / 100 * TOKENS * e.active / e.routed)
    kept = [min(c, room) if room else c for c in visits]
    loads = expert_load.by_rank(visits=kept, expert=expert)
    say = _waits(loads) if not room else _boxed(visits, room)
    idle = 0.0 if room else expert_load.imbalance(loads=loads) - 1
    times = _times(shape, expert, capacity / 100, idle, gigabytes * 1e9)
    return say + _ranks(loads) + times + _facts(shape, expert, capacity / 100)


def _waits(loads: list[float]) -> str:
    most = expert_load.imbalance(loads=loads)
    return (
        f'<p class="mlx-say">The busiest rank has <b>{most:.2f} times the mean</b>; ranks wait '
        f"{expert_load.waiting(layers=[loads]):.0%} of the time in experts.</p>"
    )


def _boxed(visits: list[int], room: int) -> str:
    lost = expert_load.dropped(visits=visits, room=room)
    empty = 1 - (sum(visits) - lost) / (room * len(visits))
    return (
        f'<p class="mlx-say">All buffers are alike, so nobody waits: <b>{lost / sum(visits):.0%} '
        f"of the visits are dropped</b>, and {empty:.0%} of all rows are empty.</p>"
    )


def _ranks(loads: list[float]) -> str:
    """A bar for each rank, of eight at most: the fullest, then the rest."""
    order = sorted(range(len(loads)), key=lambda r: -loads[r])[:8]
    rows = [(f"rank {r}", {"experts": loads[r]}) for r in sorted(order)]
    title = "Visits by rank" if len(loads) <= 8 else "Visits by rank, the eight fullest"
    return svg.bars(rows, title=title, show=lambda n: f"{n:,.0f}")


def _times(shape: specs.Model, P: int, factor: float, idle: float, W: float) -> str:
    """What a layer's experts take for 4,096 tokens a rank, nothing hidden: by EP and by ETP."""
    e = shape.experts
    assert e
    work = 18 * shape.width * e.width * e.active * CONTEXT / X
    boxed = work * (factor or 1.0)
    whole = {"compute": boxed, "idle": idle * boxed, "communication": _sent(shape, P, factor) / W}
    parts = {"compute": work, "communication": _parts(shape, P) / W}
    rows = [("EP: whole experts", whole), ("ETP: every expert cut", parts)]
    drawn = [(name, {part: n for part, n in bar.items() if n}) for name, bar in rows]
    return svg.bars(drawn, title="A layer of experts, forward and backward", show=says.time)


def _sent(shape: specs.Model, P: int, factor: float) -> float:
    of = {"tokens": CONTEXT, "layers": 1, "capacity": factor}
    return volumes.expert_parallel(shape, expert=P, **of).total  # type: ignore[arg-type]


def _parts(shape: specs.Model, P: int) -> float:
    """Two bytes a number of all others' tokens, both ways, forward and backward."""
    return 4 * 2.0 * (P - 1) * CONTEXT * shape.width


def _facts(shape: specs.Model, P: int, factor: float) -> str:
    """What a rank has and sends."""
    e = shape.experts
    assert e
    ranks = expert_load.ranks_visited(experts=e.routed, active=e.active, ranks=P)
    rows = [
        ["experts of a rank", f"{e.routed // P} of {e.routed}"],
        ["ranks of a token", f"{ranks:.1f} of {P}"],
        ["sent by EP", says.size(_sent(shape, P, factor))],
        ["sent by ETP", says.size(_parts(shape, P))],
    ]
    return table(["a layer", "4,096 tokens"], rows)._repr_html_()
