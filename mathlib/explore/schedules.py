"""Experiments of the schedules chapter: a schedule built by hand, layers distributed to stages."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from html import escape

from mathlib import specs
from mathlib.checks import InputError
from mathlib.layout import Layout
from mathlib.parts import Parts, exact_sum
from mathlib.schedule import check, orders, partition
from mathlib.schedule.actions import Action, Schedule, looped, v_shaped
from mathlib.schedule.simulate import Timeline, simulate, until_stuck
from mathlib.schedule.times import Times
from mathlib.show import says, svg
from mathlib.show.experiments import Choice, Line, Toggle, doubling, experiment
from mathlib.show.gantt import schedule_html, share
from mathlib.show.tables import html_table

STAGES, MICRO_BATCHES = 4, 8
PLACES: dict[str, Callable[[], tuple[int, ...]]] = {
    "one": lambda: looped(stages=STAGES),
    "rounds": lambda: looped(stages=STAGES, chunks=2),
    "v": lambda: v_shaped(stages=STAGES),
}
PLACED = (
    ("one chunk on each stage", "one"),
    ("two chunks, in rounds", "rounds"),
    ("two chunks, there and back", "v"),
)
KNOWN = {  # orders of each placement, as they are called
    "one": {"1F1B": "1f1b", "zero bubble H1": "zb-h1", "zero bubble H2": "zb-h2"},
    "rounds": {"interleaved 1F1B": "interleaved", "breadth-first": "breadth-first"},
    "v": {"zero bubble V": "zb-v"},
}
# 1F1B, but for one slip.
START = ("FFFFBFBFBFBFBBBB", "FFBFBFBFBFBFBFBB", "FFBFBFBFBFBFBFBB", "FBFBFBFBFBFBFBFB")
LETTERS = "FBIWfbiw "


Wrong = list[str]


def written(lines: Sequence[str], placement: Sequence[int]) -> tuple[Schedule, Wrong]:
    """The schedule that letters mean, and what is wrong with them.

    F, B, I and W each take the next micro-batch, W the one that has waited longest;
    small letters are for a stage's second chunk.
    """
    actions, wrong = [], Wrong()
    for s, line in enumerate(lines):
        own = [c for c, place in enumerate(placement) if place == s]
        counts, row = Counter[str](), list[Action]()
        waiting = list[int](), list[int]()  # for W, on each side
        for at, letter in enumerate(line.replace(" ", ""), 1):
            kind, side = letter.upper(), int(letter.islower() and len(own) > 1)
            way = f"{'back' if kind in 'BI' else kind}{side}"
            i = counts[way]
            if kind == "W" and i >= len(waiting[side]):
                wrong.append(f"stage {s}, letter {at}: no I waits for this {letter}")
                continue
            if i >= MICRO_BATCHES:
                here = f"stage {s}, letter {at}: {letter} number {i + 1}"
                wrong.append(f"{here}, and there are {MICRO_BATCHES} micro-batches")
                continue
            counts[way] += 1
            row.append(Action(kind, waiting[side][i] if kind == "W" else i, own[side]))
            if kind == "I":
                waiting[side].append(i)
        actions.append(row)
    return Schedule("yours", MICRO_BATCHES, [placement], actions), wrong


def letters(schedule: Schedule) -> list[str]:
    """The lines that mean a schedule."""
    lines = []
    for s, row in enumerate(schedule.actions):
        own = schedule.chunks_of(s)
        lines.append("".join(a.kind.lower() if own.index(a.chunk) else a.kind for a in row))
    return lines


@lru_cache
def known(order: str) -> Timeline:
    """A known order of these sizes."""
    return simulate(orders.make(order, stages=STAGES, micro_batches=MICRO_BATCHES))


COPIED = [letters(known(order).schedule) for order in KNOWN["one"].values()]


@experiment(
    "build",
    "Build your own schedule",
    *(
        Line(f"stage{s}", f"Stage {s}", LETTERS, 64, START[s], tuple(rows[s] for rows in COPIED))
        for s in range(STAGES)
    ),
    Choice("place", "Placement", PLACED, "one"),
    code=(check.validate, written),
    main=5,
)
def build(stage0: str, stage1: str, stage2: str, stage3: str, place: str) -> str:
    placement = PLACES[place]()
    schedule, wrong = written((stage0, stage1, stage2, stage3), placement)
    try:
        check.validate(schedule)
    except InputError as refusal:
        wrong.append(str(refusal).removeprefix("schedule: "))
    one = until_stuck(schedule)
    best = {name: known(order) for name, order in KNOWN[place].items()}
    picture = schedule_html(
        one,
        title="Your schedule" if not wrong else "Your schedule, as far as it goes",
        axis="time, in forwards of a stage",
        until=33.0,
    )
    say = _refused(wrong) if wrong else _scored(one, best, len(placement))
    return say + picture + _scores(one, best, bool(wrong)) + _lines(best)


def _refused(wrong: list[str]) -> str:
    more = f" And {len(wrong) - 1} more." if len(wrong) > 1 else ""
    said = f"Not yet a schedule: {escape(wrong[0])}.{more}"
    return f'<p class="mlx-say mlx-refused">{said}</p>'


def _scored(one: Timeline, best: dict[str, Timeline], chunks: int) -> str:
    """How good it is: beside the best with no more memory, and beside what nobody can beat."""
    held = one.fullest
    least = 3 * MICRO_BATCHES + (STAGES - 1) * STAGES / chunks  # the last stage begins late
    rivals = {name: other for name, other in best.items() if other.fullest <= held + 1e-9}
    say = f"<b>{says.plain(one.total)} forwards long</b>, and no stage holds more than "
    say += f"{says.plain(held)} micro-batches."
    if rivals:
        name = min(rivals, key=lambda rival: rivals[rival].total)
        total = rivals[name].total
        verdict = (
            "you beat it" if one.total < total else "you are level" if one.total == total else ""
        )
        say += f" The best known with no more memory is {name}, {says.plain(total)}"
        say += f": <b>{verdict}</b>." if verdict else "."
    say += f" Nobody can need less than {says.plain(least)}."
    return f'<p class="mlx-say">{say}</p>'


def _scores(one: Timeline, best: dict[str, Timeline], wrong: bool) -> str:
    rows = [["order", "time", "bubble", "held"]]
    if not wrong:
        best = {"yours": one, **best}
    for name, other in best.items():
        bubble = share(other.bubble_over_ideal)
        rows.append([name, says.plain(other.total), bubble, says.plain(other.fullest)])
    return html_table(
        rows,
        "Beside known orders: time, bubble as a share of the ideal time, most micro-batches held",
    )


def _lines(best: dict[str, Timeline]) -> str:
    """The known orders in letters, to copy."""
    text = "\n\n".join("\n".join([name, *letters(one.schedule)]) for name, one in best.items())
    return (
        '<details class="mlx-code"><summary>The known orders, in letters</summary>'
        f'<pre tabindex="0"><code>{escape(text)}</code></pre></details>'
    )


MODELS = ("gpt2-xl", "llama2-7b", "llama2-13b", "gpt-neox-20b", "llama2-70b", "gpt3-175b")
DEVICES = ("v100-32gb", "a100-40gb", "a100-80gb", "h200-sxm", "b200-sxm")
IN_WORDS = (
    "Time is that of a micro-batch, as a multiple of the mean over the stages; in flight are the "
    "micro-batches whose activations a stage holds at once with 1F1B."
)
FLASH = {"attention": "flash", "dropout": False}  # else as the model was trained
WAYS = {"even": "evenly", "time": "by time", "memory": "by memory"}
GROUPS = {  # what stands together in a bar; all else is activations
    "weights": ("weights",),
    "gradients": ("gradients", "new gradients"),
    "optimizer states": ("master weights", "optimizer states"),
}


@lru_cache(16)  # what fills the devices does not change with the device
def filled(model: str, layout: Layout, dealt: tuple[int, ...], flash: bool) -> list[Parts]:
    """What a device of each stage holds."""
    return partition.stage_bytes(model, layout, dealt, **(FLASH if flash else {}))


@lru_cache(16)
def split_of(way: str, model: str, layout: Layout, flash: bool = False) -> list[int]:
    """Layers of each stage."""
    p = layout.pipeline
    if way == "even":
        return partition.even(layers=specs.find_model(model).layers, stages=p)
    if way == "memory":
        return partition.by_memory(model, layout, **(FLASH if flash else {}))
    layers, head = partition.work(model)
    return partition.by_time(times=layers, stages=p, head=head)


@experiment(
    "partition",
    "Which stage takes how many layers?",
    Choice("model", "Model", specs.titled("models", MODELS), "gpt3-175b"),
    doubling("stages", "Stages", 2, 8, 8),
    Choice("way", "Split of the layers", tuple((said, way) for way, said in WAYS.items()), "even"),
    doubling("micro_batches", "Micro-batches of a step", 1, 64, 32),
    doubling("tensor", "Tensor-parallel ranks", 1, 8, 8),
    Choice("device", "Device", specs.titled("devices", DEVICES), "a100-80gb"),
    Toggle("recompute", "Recompute all activations"),
    Toggle("flash", "Flash attention, no dropout"),
    code=(partition.stage_bytes, partition.by_memory),
)
def split(
    model: str,
    stages: int,
    way: str,
    micro_batches: int,
    tensor: int,
    device: str,
    recompute: bool,
    flash: bool,
) -> str:
    layout = Layout(
        pipeline=stages,
        tensor=tensor,
        micro_batches=micro_batches,
        recompute="full" if recompute else "none",
    )
    dealt, chip = split_of(way, model, layout, flash), specs.find_device(device)
    held = filled(model, layout, tuple(dealt), flash)
    layers, head = partition.work(model)
    times = partition.stage_times(dealt, times=layers, head=head)
    mean = exact_sum(times) / stages
    rows = [
        (
            f"stage {s}: {count} layers, time {says.ratio(times[s] / mean)}, "
            f"{min(stages - s, micro_batches)} in flight",
            _grouped(held[s]),
        )
        for s, count in enumerate(dealt)
    ]
    bars = svg.bars(
        rows,
        title=f"A device of each stage, layers split {WAYS[way]}",
        show=says.size,
        limit=chip.room,
        limit_label=chip.title,
    )
    say = _said(held, chip.room, [one / mean for one in times], micro_batches)
    return f"{say}{bars}<p>{IN_WORDS}</p>"


def _grouped(parts: Parts) -> dict[str, float]:
    """The parts of a stage, few enough to tell apart; nothing is left out."""
    home = {name: group for group, names in GROUPS.items() for name in names}
    found = dict.fromkeys([*GROUPS, "activations"], 0.0)
    for name in parts:
        found[home.get(name, "activations")] += parts.amount(name)
    return found


def _said(held: list[Parts], room: float, times: list[float], micro_batches: int) -> str:
    """Which stage is the fullest, whether all fit, and what the split costs in time."""
    p, sizes = len(held), [parts.total for parts in held]
    full = sizes.index(max(sizes))
    over = sum(size > room for size in sizes)
    fits = "every stage fits" if not over else f"{over} of {p} stages do not fit"
    order = orders.make("1f1b", stages=p, micro_batches=micro_batches)
    one = simulate(order, Times(forward=times, backward=[2 * time for time in times]))
    equal = 3 * (micro_batches + p - 1)
    return (
        f'<p class="mlx-say"><b>Stage {full} is the fullest, {says.size(sizes[full])}</b>; {fits}. '
        f"With 1F1B a step takes <b>{says.ratio(one.total / equal)} times</b> as long as with "
        f"stages that all take the same.</p>"
    )
