"""Write down where everything stands, for the book and for `mathlib where`: `python tools/map.py`.

A test holds both files up to date.
"""

import json
from dataclasses import asdict
from itertools import groupby

import whereabouts

PAGE = whereabouts.ROOT / "book" / "map.md"
LIST = whereabouts.PACKAGE / "cli" / "where.json"
HEAD = """# Where is what

Each formula of the library with its place: the equation it computes, the runs that try it, the
experiment that moves it, its tests, and the section that derives it. The list is made from the
code; `python -m mathlib where "ring"` prints the same rows. A formula without an equation is a step
of one, or a unit, or it waits for a chapter that is not written yet. The room of a formula is that
of its test: `flops.forward`, tested in `compute/test_flops`, stands in `mathlib/compute/flops.py`.
Formula and run are set side by side in `tests/agreement/`, a file for each chapter.

## Which model of memory, which of time

Several modules answer what looks like one question. They differ in what they take into account.

| You ask | Module | It takes into account |
|---|---|---|
"""
MODELS = {  # module: what it is asked, what it takes into account
    "memory.one_device": (
        "How many bytes at each moment of a step, on one device?",
        "forward, backward and update, one after the other; splits by tensor and pipeline ranks",
    ),
    "memory.zero_rank": (
        "The same where ZeRO shards",
        "what is gathered, sent and received meanwhile",
    ),
    "memory.fit": (
        "Does it fit, and what would make it fit?",
        "the fullest of these moments against a device and its reserve",
    ),
    "plan.room": (
        "Which of a million layouts fit?",
        "the end of a forward alone, within a tenth of `memory.fit`",
    ),
    "memory.estimators": (
        "What does a framework's own estimator say?",
        "what that program's authors put into it",
    ),
    "compute.cost": (
        "What do a run's FLOP cost, in days and money?",
        "one measured or assumed rate for the whole run",
    ),
    "compute.roofline": (
        "What may one operation take at least?",
        "arithmetic or memory, whichever is slower",
    ),
    "traffic.overlap": (
        "How much of data parallelism hides behind backward?",
        "buckets, one link, equal layers",
    ),
    "traffic.sharded_time": (
        "The same where ZeRO shards",
        "gathers ahead of each layer, the rank and its wire on two clocks",
    ),
    "schedule.simulate": (
        "How long does a pipeline's order take?",
        "every action and message of every stage",
    ),
    "plan.bill": (
        "Into what does device-time go as devices are added?",
        "computing, bubble, exchange and what failures take, for one job",
    ),
    "plan.traffic": (
        "At how many GPUs does communication take over?",
        "ZeRO with the batch kept: bandwidth, and latency for each message",
    ),
    "plan.step": (
        "How long is a step of my layout?",
        "all of it, with constants fitted on published runs, and an interval",
    ),
}


def cell(names: list[str]) -> str:
    """Names below each other, without what the page's head says of all of them."""
    short = [name.removeprefix("tests/").removesuffix(".py") for name in names]
    return "<br>".join(f"`{name}`" for name in short)


def leaf(name: str) -> str:
    """module.function, without its rooms"""
    return ".".join(name.split(".")[-2:])


def line(row: whereabouts.Row) -> str:
    equation = f"{{eq}}`{row.equation}`" if row.equation else ""
    runs = [leaf(run) for run in row.runs]
    own = [test for test in row.tests if "/agreement/" not in test]
    function = leaf(row.function)
    columns = [equation, f"`{function}`", cell(runs), ", ".join(row.experiments)]
    return f"| {' | '.join([*columns, cell(own), row.section])} |"


def title(word: str) -> str:
    """The chapter's heading: a link where the chapter is written."""
    path = whereabouts.notebooks().get(word)
    name = word.replace("_", " ").capitalize()
    return f"{{doc}}`{name} </chapters/{path.stem}>`" if path else f"{name} (to come)"


def page() -> str:
    order = list(whereabouts.notebooks())
    words = sorted({row.chapter for row in whereabouts.rows()} - set(order))
    rows = sorted(
        whereabouts.rows(), key=lambda row: ([*order, *words].index(row.chapter), not row.equation)
    )
    models = "".join(f"| {q} | `{m}` | {what} |\n" for m, (q, what) in MODELS.items())
    text = [HEAD + models]
    for word, of_chapter in groupby(rows, key=lambda row: row.chapter):
        table = [
            "| equation | function | run | experiment | tests | section |",
            "|---|---|---|---|---|---|",
        ]
        rows_here = [*table, *map(line, of_chapter)]
        text += [f"## {title(word)}\n", ":::{table}", ":class: map", "", *rows_here, ":::", ""]
    return "\n".join(text).rstrip() + "\n"


def listed() -> str:
    """The rows for a program, each a line, so that a change is one."""
    lines = [json.dumps(asdict(row), ensure_ascii=False) for row in whereabouts.rows()]
    return "[\n" + ",\n".join(lines) + "\n]\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    LIST.write_text(listed(), encoding="utf-8")
