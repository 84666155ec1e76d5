"""The experiment of the pipeline chapter: any schedule, by the clock."""

from functools import lru_cache

from mathlib.checks import InputError
from mathlib.schedule import bubble, orders
from mathlib.schedule.simulate import Timeline, simulate
from mathlib.schedule.times import Times
from mathlib.show import says
from mathlib.show.experiments import Choice, Range, experiment
from mathlib.show.gantt import schedule_html, share
from mathlib.show.tables import html_table

TITLES = {
    "gpipe": "GPipe",
    "1f1b": "1F1B",
    "twice ahead": "1F1B, twice ahead",
    "interleaved": "Interleaved 1F1B",
    "breadth-first": "Breadth-first",
    "pipedream": "PipeDream",
    "2bw": "PipeDream-2BW",
    "zb-h1": "Zero bubble H1",
    "zb-h2": "Zero bubble H2",
    "zb-v": "Zero bubble V",
    "dualpipe": "DualPipe",
}
MICRO_BATCHES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32)
BESIDE = ("gpipe", "1f1b", "interleaved", "zb-h1", "zb-v", "dualpipe")  # to compare with
SLOW = {  # which stage, as a share of the way from the first to the last, and how many times longer
    "none": (0.0, 1.0),
    "the first, 1.5 times as long": (0.0, 1.5),
    "a middle one, 1.5 times as long": (0.5, 1.5),
    "the last, 1.5 times as long": (1.0, 1.5),
    "the last, twice as long": (1.0, 2.0),
}
FOLLOWED = {"all": None, "the first": 0.0, "a middle one": 0.5, "the last": 1.0}


OTHERS = (
    "The same work in other orders: time, bubble as a share of the ideal and of the total time, "
    "micro-batches held at most"
)
Sizes = tuple[int, int, int]  # stages, micro-batches, chunks
Costs = tuple[float, float, float, str]  # backward, part for the weights, message, slow stage


@lru_cache(64)  # who moves the marker runs nothing anew
def ran(order: str, sizes: Sizes, costs: Costs) -> Timeline:
    """An order by its name; the chunks count where it leaves them open."""
    p, m, v = sizes
    more = {"chunks": v} if order in bubble.CHUNKED else {}
    if order == "twice ahead":
        order, more = "1f1b", {"ahead": 2}
    backward, weight, message, slow = costs
    where, factor = SLOW[slow]
    times = Times(
        backward=backward,
        weight=weight,
        message=message,
        slow={round(where * (p - 1)): factor},
    )
    return simulate(orders.make(order, stages=p, micro_batches=m, **more), times)


@experiment(
    "player",
    "A schedule, played by the clock",
    Range("played", "Played so far, %", 0, 100, 1, 100),
    Choice("order", "Order", tuple((title, order) for order, title in TITLES.items()), "1f1b"),
    Range("stages", "Stages", 2, 8, 1, 4),
    Choice("micro_batches", "Micro-batches", tuple((f"{m}", m) for m in MICRO_BATCHES), 8, True),
    Range("chunks", "Chunks of a stage, where interleaved", 1, 4, 1, 2),
    Range("backward", "Backward takes, in forwards", 0.5, 4.0, 0.25, 2.0),
    Range("weight", "Of it for the weights, %", 0, 100, 10, 50),
    Range("message", "A message takes, in forwards", 0.0, 1.0, 0.05, 0.0),
    Choice("slow", "Slow stage", tuple((word, word) for word in SLOW), "none"),
    Choice("follow", "Follow a micro-batch", tuple((word, word) for word in FOLLOWED), "all"),
    code=(simulate,),
    main=4,
)
def player(
    order: str,
    stages: int,
    micro_batches: int,
    played: int,
    chunks: int,
    backward: float,
    weight: int,
    message: float,
    slow: str,
    follow: str,
) -> str:
    sizes, costs = (
        (stages, micro_batches, chunks),
        (backward, backward * weight / 100, message, slow),
    )
    one = ran(order, sizes, costs)
    now, part = one.total * played / 100, FOLLOWED[follow]
    picture = schedule_html(
        one,
        title=f"{TITLES[order]}: {stages} stages, {micro_batches} micro-batches",
        now=now if played < 100 else one.total,
        follow=None if part is None else round(part * (micro_batches - 1)),
        axis="time, in forwards of a stage",
    )
    say = _result(one) if played == 100 else _at(one, now)
    law, others = _law(one, order, sizes, backward), _beside(order, sizes, costs)
    return f'<p class="mlx-say">{say}</p>{picture}{others}{law}'


def _result(one: Timeline) -> str:
    """What came out, with the bubble by both its names."""
    kept = max(one.versions)
    versions = f" and {kept} versions of its weights" if kept > 1 else ""
    return (
        f"<b>{says.plain(one.total)} forwards long.</b> The bubble is "
        f"<b>{share(one.bubble_over_ideal)} of the ideal time</b>, or "
        f"{share(one.bubble_over_total)} of the total. The fullest stage holds the activations of "
        f"{says.plain(one.fullest)} micro-batches{versions}."
    )


def _at(one: Timeline, now: float) -> str:
    """What the stages do at one moment."""
    does = []
    for s, actions in enumerate(one.schedule.actions):
        spans = zip(actions, one.begins[s], one.ends[s], strict=True)
        runs = [f"{a.kind}{a.micro_batch}" for a, begin, end in spans if begin <= now < end]
        does.append(f"stage {s} {' '.join(runs) or 'waits'}")
    return f"<b>At {says.plain(now)} of {says.plain(one.total)}:</b> {', '.join(does)}."


def _law(one: Timeline, order: str, sizes: Sizes, B: float) -> str:
    """The closed formula of the idle time, where it holds."""
    p, v = sizes[0], sizes[2] if order in bubble.CHUNKED else 1
    idle = one.idle / p
    said = f"A stage idles for {says.plain(idle)} forwards on average"
    if order not in (*bubble.PLAIN, *bubble.CHUNKED):
        return f"<p>{said}.</p>"
    if abs(idle - (p - 1) * (1 + B) / v) > 1e-9:
        needs = "equal stages and messages that take no time"
        return f"<p>{said}; the closed formula needs {needs}.</p>"
    return (
        f"<p>{said}, as the formula says: "
        f"(<i>p</i> &minus; 1)(<i>F</i> + <i>B</i>){' / <i>v</i>' * (v > 1)} = "
        f"{p - 1} &sdot; {says.plain(1 + B)}{f' / {v}' * (v > 1)}.</p>"
    )


def _beside(order: str, sizes: Sizes, costs: Costs) -> str:
    """The same work in other orders."""
    rows = [["order", "time", "of ideal", "of total", "held"]]
    for other in dict.fromkeys((order, *BESIDE)):
        try:
            one = ran(other, sizes, costs)
        except InputError:
            rows.append([TITLES[other], "–", "–", "–", "–"])
            continue
        ideal, total = share(one.bubble_over_ideal), share(one.bubble_over_total)
        rows.append([TITLES[other], says.plain(one.total), ideal, total, says.plain(one.fullest)])
    return html_table(rows, OTHERS)
