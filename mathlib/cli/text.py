"""Answers as text for people, or as JSON for programs.  Every number goes out with its unit."""

from argparse import Namespace
from collections.abc import Iterable, Sequence
from typing import Any

from mathlib import units
from mathlib.parts import Parts

Fact = tuple[str, float, str]  # what, how much, unit


def columns(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Columns under their names, the first to the left, numbers to the right."""
    lines = [[str(cell) for cell in row] for row in (head, *rows)]
    wide = [max(len(line[i]) for line in lines) for i in range(len(head))]
    left = [all(not row[i][:1].isdigit() for row in lines) for i in range(len(head))]
    shown = [
        "  ".join(
            f"{cell:<{w}}" if lhs else f"{cell:>{w}}"
            for cell, w, lhs in zip(line, wide, left, strict=True)
        )
        for line in lines
    ]
    return "\n".join(
        line.rstrip() for line in [shown[0], "  ".join("-" * w for w in wide), *shown[1:]]
    )


def parts_table(parts: Parts, depth: float) -> str:
    """Every part down to `depth`, with its exact number, its size and its share; the total is the
    last row.
    """
    total = parts.total
    rows = [
        *(("  " * level + name, n) for level, name, n in parts.rows() if level < depth),
        ("total", total),
    ]
    head = ("part", "exact" if isinstance(total, int) else "number", parts.kind, "share")
    return columns(
        head,
        [
            (name, f"{n:,.0f}", units.show(n, parts.kind, parts.binary), f"{n / (total or 1):.1%}")
            for name, n in rows
        ],
    )


def facts_table(facts: Sequence[Fact]) -> str:
    """A line each: the number as people say it, and exactly where it is a count."""
    wide = max(len(name) for name, _, _ in facts)
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
    return "\n".join(lines)


def facts_dict(facts: Sequence[Fact]) -> dict[str, Any]:
    return {name: {"value": n, "unit": kind or "ratio"} for name, n, kind in facts}


def answer(
    args: Namespace, parts: Parts, facts: Sequence[Fact], body: str = "", verdict: str = ""
) -> None:
    """The parts of a sum, what else follows from it, and what it means."""
    text = [
        parts.title,
        body or parts_table(parts, args.depth),
        facts_table(facts),
        *filter(None, [verdict]),
    ]
    show(
        args,
        "\n\n".join(text),
        parts.as_dict() | {"also": facts_dict(facts), "verdict": verdict or None},
    )


def show(args: Namespace, text: str, data: Any) -> None:
    if args.json:
        import json

        text = json.dumps(data, indent=2, allow_nan=False)
    print(text)
