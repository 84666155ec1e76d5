"""mathlib compare: two answers side by side, number by number."""

import io
import json
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import redirect_stdout
from typing import Any

from mathlib import specs
from mathlib.checks import InputError
from mathlib.cli.flags import words_of
from mathlib.cli.options import add_depth
from mathlib.cli.registry import MODULES, command, find_command
from mathlib.cli.text import columns, counted, show
from mathlib.cli.typed import Typed
from mathlib.units import KINDS
from mathlib.units import show as shown

Numbers = dict[str, tuple[float, str]]  # by their place in an answer: how much, unit


def compare_options(parser: ArgumentParser) -> None:
    parser.add_argument("one", help="a command in quotes, or the name of a model or a device")
    parser.add_argument("other", help="what to hold it against")
    add_depth(parser)


@command(
    "compare",
    "two commands, models or devices side by side",
    "compare llama2-7b llama3-8b",
    'compare "memory llama2-7b --zero 1 --data 8" "memory llama2-7b --zero 3 --data 8"',
    "compare a100-80gb h100-sxm",
    options=compare_options,
)
def compare_command(args: Typed) -> None:
    one, other = numbers_of(args.one), numbers_of(args.other)
    names = list(dict.fromkeys([*one, *other]))
    rows, data = [], []
    for name in names:
        a, b = one.get(name), other.get(name)
        if a and b and a[1] != b[1]:
            raise InputError(
                f"{args.one!r}, {args.other!r}: {name} is {_kind(a)} in one, {_kind(b)} in the "
                "other; expected two of a kind"
            )
        if a == b:
            continue
        unit = (a or b or (0, ""))[1]
        ratio = b[0] / a[0] if a and b and a[0] else None
        cells = [_said(*x) if x else "" for x in (a, b)]
        if name.count(", ") < args.depth:
            rows.append((name, *cells, f"{ratio:.3g}" if ratio is not None else ""))
        values = [x[0] if x else None for x in (a, b)]
        data.append({"name": name, "unit": unit, "values": values, "ratio": ratio})
    same = len(names) - len(data)
    told = f"1  {args.one}\n2  {args.other}"
    table = columns(("what", "1", "2", "2 / 1"), rows) if rows else "no difference"
    alike = f"\n\nthe same in both: {counted(same, 'number')}" if same else ""
    show(args, f"{told}\n\n{table}{alike}", {"one": args.one, "other": args.other, "rows": data})


def _kind(number: tuple[float, str]) -> str:
    return number[1] or "a number"


def _said(n: float, unit: str) -> str:
    return shown(n, unit) if unit in KINDS else f"{n:,.4g}"


def numbers_of(text: str) -> Numbers:
    """All numbers of an answer."""
    words = words_of(text, "a command in quotes") if text.strip() else []
    if words and words[0] in MODULES and words[0] != "compare":
        return dict(_leaves(_answered(words)))
    if len(words) == 1 and words[0].lower() in specs.table("devices"):
        (device,) = _answered(["devices", words[0].lower()])["devices"][:1]
        units = {"memory": "byte", "reported_memory": "byte", "memory_bandwidth": "byte/s"}
        units |= {"link_bandwidth": "byte/s", "power": "W"}
        flat = {f"peak {kind}": (rate, "FLOP/s") for kind, rate in device["peak"].items()}
        return flat | {name: (device[name], unit) for name, unit in units.items()}
    if len(words) == 1:
        return _model(words[0])
    raise InputError(f"{text!r}: expected a command such as 'memory gpt2', a model or a device")


def _model(name: str) -> Numbers:
    """A model's shape, and what follows from it."""
    answers = {kind: _answered([kind, name]) for kind in ("params", "flops", "kv")}
    return {
        f"{kind}, {place}": number
        for kind, answer in answers.items()
        for place, number in _leaves(answer)
    }


def _answered(words: list[str]) -> Any:
    """What a command answers with --json."""
    from mathlib.cli.parser import typed_of

    if words[0] not in MODULES:
        raise InputError(f"{words[0]!r} is no command")
    said = io.StringIO()
    with redirect_stdout(said):
        find_command(words[0]).answer(typed_of([*words, "--json"]))
    return json.loads(said.getvalue())


def _leaves(
    answer: Any, unit: str = "", place: str = ""
) -> Iterator[tuple[str, tuple[float, str]]]:
    """Every number of an answer, by the names on the way to it."""
    if isinstance(answer, dict) and answer.keys() == {"value", "unit"}:  # a fact
        yield place, (answer["value"], answer["unit"])
    elif isinstance(answer, dict):
        unit = answer["unit"] if isinstance(answer.get("unit"), str) else unit
        for name, inner in answer.items():
            skipped = name in ("parts", "also") or (name == "total" and place)
            words = [w for w in (place, "" if skipped else name) if w]
            yield from _leaves(inner, unit, ", ".join(words))
    elif isinstance(answer, (int, float)) and not isinstance(answer, bool):
        yield place or "total", (answer, unit)
