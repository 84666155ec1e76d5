"""Answers as text for people, or as JSON for programs.  Every number goes out with its unit."""

from collections.abc import Iterable, Sequence
from typing import Any

from mathlib import units
from mathlib.cli import terminal
from mathlib.cli.typed import Typed
from mathlib.parts import Parts

Fact = tuple[str, float, str]  # what, how much, unit


def columns(head: Sequence[str], rows: Iterable[Sequence[Any]], there: int = 0) -> str:
    """Columns under their names, words to the left, numbers to the right; what a terminal has no
    room for is cut off from the right, and said. `there` 0: as wide as the terminal is.
    """
    there = there or terminal.width()
    lines = [[str(cell) for cell in row] for row in (head, *rows)]
    wide = [max(len(line[i]) for line in lines) for i in range(len(head))]
    left = [_is_words([line[i] for line in lines[1:]], i) for i in range(len(head))]
    kept = terminal.kept_columns(wide, there)
    shown = [
        "  ".join(
            f"{cell:<{w}}" if lhs else f"{cell:>{w}}"
            for cell, w, lhs in zip(line[:kept], wide, left, strict=False)
        )
        for line in lines
    ]
    ruled = [shown[0], "  ".join("-" * w for w in wide[:kept]), *shown[1:]]
    text = "\n".join(cut(line.rstrip(), there) for line in ruled)
    more = ", ".join(head[kept:])
    told = wrapped(f"(no room for {more}: a wider terminal, or --json)")
    return f"{text}\n{told}" if more else text


def _is_words(cells: Sequence[str], place: int) -> bool:
    """Whether a column is one of words. Names stand first, and some begin with a digit; 34.4 GB is
    a number, 0.4% slower a sentence.
    """
    numbers = [cell[:1].isdigit() and len(cell.split()) < 3 for cell in cells]
    return not (all(numbers) if place == 0 else any(numbers))


def cut(line: str, wide: int) -> str:
    """A line that fits."""
    return line if len(line) <= wide else line[: wide - 3] + "..."


def parts_table(parts: Parts, depth: float) -> str:
    """Every part down to `depth`, with its exact number, its size and its share; the total is the
    last row.
    """
    total = parts.total
    rows = [
        *(("  " * level + name, n) for level, name, n in parts.rows() if level < depth),
        ("total", total),
    ]
    lines = [
        (name, f"{n:,.0f}", units.show(n, parts.kind, parts.binary), f"{n / (total or 1):.1%}")
        for name, n in rows
    ]
    if parts.kind == "second":  # a number of seconds is told by its unit alone
        return columns(("part", "time", "share"), [(a, *rest) for a, _, *rest in lines])
    head = ("part", "exact" if isinstance(total, int) else "number", parts.kind, "share")
    return columns(head, lines)


def facts_table(facts: Sequence[Fact]) -> str:
    """A line each: the number as people say it, and exactly where it is a count."""
    wide = max((len(name) for name, _, _ in facts), default=0)
    lines = []
    for name, n, kind in facts:
        plain = f"{n:,.0f}" if abs(n) >= 1000 else f"{n:.4g}"
        said = units.show(n, kind) if kind in units.KINDS else f"{plain} {kind}"
        exact = (
            f" ({n:,})"
            if kind in ("parameter", "token") and isinstance(n, int) and n >= 1000
            else ""
        )
        lines.append(f"{name:<{wide}}  {said}{exact}".rstrip())
    return wrapped("\n".join(lines))


def facts_dict(facts: Sequence[Fact]) -> dict[str, Any]:
    return {name: {"value": n, "unit": kind or "ratio"} for name, n, kind in facts}


def answer(
    args: Typed,
    parts: Parts,
    facts: Sequence[Fact],
    body: str = "",
    verdict: str = "",
    ways: Sequence[str] = (),
    keeps: str = "",
) -> None:
    """The parts of a sum, what else follows from it, what it means, what would help, and by whose
    conventions memory was counted.
    """
    good = verdict.startswith("fits")
    args.status = 0 if good or not verdict else 1
    text = [
        terminal.paint(wrapped(parts.title), "strong"),
        body or parts_table(parts, args.depth if args.knows("depth") else 1),
        *filter(None, [facts_table(facts)]),
        *filter(None, [terminal.paint(wrapped(verdict), "good" if good else "bad")]),
        *filter(None, ["\n".join(ways), wrapped(keeps)]),
    ]
    show(
        args,
        "\n\n".join(text),
        parts.as_dict()
        | {"also": facts_dict(facts), "verdict": verdict or None}
        | ({"ways": list(ways)} if ways else {})
        | ({"keeps": keeps} if keeps else {}),
    )


def counted(n: float, thing: str) -> str:
    """1 group, 4 groups."""
    return f"{n:,.0f} {thing}{'' if n == 1 else 's'}"


def wrapped(text: str, under: int = 2) -> str:
    """Lines that fit the terminal; what goes on stands so much further in."""
    wide = terminal.width()
    if wide == terminal.PLAIN:
        return text
    from textwrap import fill  # only a terminal needs it

    lines = [(line, " " * (len(line) - len(line.lstrip()) + under)) for line in text.splitlines()]
    return "\n".join(fill(line, wide, subsequent_indent=indent) for line, indent in lines)


def show(args: Typed, text: str, data: Any) -> None:
    """Print an answer, once it is sure that all that was typed had a part in it."""
    args.refuse_unused()
    if args.notes and "tokens" in args.used:
        text += f"\n\n{wrapped(chr(10).join(args.notes))}"
    if args.read or args.ignored or args.unknown or args.assumed:
        text += f"\n\n{wrapped(flags_told(args))}"
        flags = {"read": args.read, "assumed": args.assumed}
        flags |= {"ignored": args.ignored, "unknown": args.unknown}
        data = data | {"flags": flags}
    if args.json:
        import json

        text = json.dumps(data, indent=2, allow_nan=False)
    print(text)


def flags_told(args: Typed) -> str:
    """What became of another program's flags."""
    lines = [f"read: {', '.join(dict.fromkeys(args.read.values()))}" if args.read else ""]
    lines.append(f"not said, so: {'; '.join(args.assumed)}" if args.assumed else "")
    lines.append(f"ignored, no part of this: {', '.join(args.ignored)}" if args.ignored else "")
    lines.append(f"unknown there: {', '.join(args.unknown)}" if args.unknown else "")
    return "\n".join(filter(None, lines))
