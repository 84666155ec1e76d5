"""The experiment of the unequal chapter: a cluster to slow, cut and kill, and who then waits."""

import math

from mathlib.schedule import events, orders, programs
from mathlib.schedule.cluster import Cluster, Link
from mathlib.schedule.events import Program, Run
from mathlib.schedule.times import Times
from mathlib.show import says, svg
from mathlib.show.experiments import Choice, Range, experiment
from mathlib.show.tables import table

WORK, PAYLOAD = 0.6, 16e9  # seconds of a rank at speed 1 before it sums; bytes
INSIDE, PORT = Link(300e9), Link(50e9)
MICRO_BATCHES, SIZE = 8, 134e6  # of a pipeline; bytes of a message
WAYS = (("ring", "ring"), ("tree", "tree"), ("hierarchical ring", "hierarchical"))
LINKS = (("none", "none"), ("the first node's port", "port"), ("rank 0 to rank 1", "inside"))
DEATHS = (("nobody", 0), ("in the work", 30), ("in the communication", 70))


@experiment(
    "unequal-cluster",
    "A cluster to slow, cut and kill",
    Choice("nodes", "Nodes", (("1", 1), ("2", 2), ("4", 4)), 2),
    Choice("each", "Ranks of a node", (("2", 2), ("4", 4)), 4),
    Choice("way", "Parallel way", (*WAYS, ("pipeline", "pipeline")), "ring"),
    Range("slow", "Slow rank", 0, 7, 1, 2, ""),
    Range("speed", "Speed of the slow rank", 10, 100, 10, 50, "%"),
    Choice("link", "Slow link", LINKS, "none"),
    Range("rate", "Bandwidth of the slow link", 10, 100, 10, 20, "%"),
    Choice("death", "Who dies, when", DEATHS, 0),
    code=(events.run, programs.ring),
)
def unequal_cluster(
    nodes: int, each: int, way: str, slow: int, speed: int, link: str, rate: int, death: int
) -> str:
    sizes, late = (each,) * nodes, slow % (nodes * each)
    held: dict[str, dict] = {"ports": {}, "slow": {}}
    if link == "port":
        held["ports"] = {0: Link(PORT.bandwidth * rate / 100)}
    if link == "inside":
        held["slow"] = {(0, 1): Link(INSIDE.bandwidth * rate / 100)}
    alike = Cluster(sizes, INSIDE, PORT)
    plan = _program(way, nodes, each)
    usual = events.run(plan, alike, shared_ports=True).total
    on = Cluster(sizes, INSIDE, PORT, **held, speeds={late: speed / 100})
    run = events.run(plan, on, shared_ports=True, record=True)
    if death:
        ends = {late: run.total * death / 100}
        on = Cluster(sizes, INSIDE, PORT, **held, speeds=on.speeds, deaths=ends)
        run = events.run(plan, on, shared_ports=True, record=True)
    return _say(run, usual, late) + _timeline(run) + _facts(run, usual)


def _program(way: str, nodes: int, each: int) -> list[Program]:
    """A step: work and an all-reduce, or a pipeline through all ranks."""
    n = nodes * each
    if way == "pipeline":
        schedule = orders.make("1f1b", stages=n, micro_batches=MICRO_BATCHES)
        took = WORK / 3 / MICRO_BATCHES
        return programs.pipeline(schedule, Times(forward=took, backward=2 * took, size=SIZE))
    if way == "hierarchical":
        summed = programs.hierarchical(payload=int(PAYLOAD), ranks=n, ranks_per_node=each)
    else:
        summed = {"ring": programs.ring, "tree": programs.tree}[way](payload=int(PAYLOAD), ranks=n)
    return programs.after([programs.work([WORK] * n), summed])


def _say(run: Run, usual: float, late: int) -> str:
    if run.total == math.inf:
        waits = ", ".join(f"{a} for {b}" for a, b in sorted(run.waits_for.items())[:4])
        return (
            f'<p class="mlx-say">Rank {late} dies, and <b>{len(run.waits_for)} ranks wait for '
            f"ever</b>: rank {waits}{' …' if len(run.waits_for) > 4 else ''}.</p>"
        )
    busy = sum(run.worked) / (len(run.ends) * run.total)
    return (
        f'<p class="mlx-say">A step takes <b>{says.time(run.total)}, {run.total / usual:.2f} times '
        f"as long</b> as with all alike; ranks compute {busy:.0%} of it.</p>"
    )


def _timeline(run: Run) -> str:
    """What each rank does, of eight at most."""
    lines: list[svg.Line] = []
    for rank in range(min(8, len(run.ends))):
        mine = [s for s in run.spans if s.rank == rank and s.kind != "communication"]
        did = [("forward" if s.kind == "compute" else "idle", s.start, s.end, s.what) for s in mine]
        lines.append((f"rank {rank}", did))
    title = "Compute and idle time" + (", the first eight ranks" if len(run.ends) > 8 else "")
    return svg.timeline(lines, title=title, show=says.time, axis_title="time")


def _facts(run: Run, usual: float) -> str:
    """The step, what is exposed, and who waits longest for whom."""
    waited: dict[tuple[int, int], float] = {}
    for span in run.spans:
        if span.kind == "idle":
            pair = span.rank, span.other
            waited[pair] = waited.get(pair, 0.0) + span.end - span.start
    most = sorted(waited.items(), key=lambda one: -one[1])[:3]
    longest = "; ".join(f"{a} for {b}, {says.time(t)}" for (a, b), t in most) or "nobody"
    ends = "never" if run.total == math.inf else says.time(run.total)
    exposed = max(run.exposed)
    rows = [
        ["step, all alike", says.time(usual)],
        ["step", ends],
        ["exposed communication and idle time, most of a rank", says.time(exposed)],
        ["who waits longest for whom", longest],
    ]
    return table(["of a step", ""], rows)._repr_html_()
