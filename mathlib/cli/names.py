"""mathlib models, mathlib devices, mathlib where: what is known by name, and where it stands."""

from argparse import ArgumentParser, Namespace
from dataclasses import asdict

from mathlib import specs
from mathlib.checks import one_of
from mathlib.cli.registry import command
from mathlib.cli.text import columns, show

FIELDS = {  # of the table of models: a name for each field
    "layers": "layers",
    "width": "width",
    "heads": "heads",
    "kv heads": "kv_heads",
    "ffn": "ffn_width",
    "vocab": "padded_vocab",
    "context": "context",
    "date": "date",
}
UNITS = {  # of a device's fields
    "peak": "FLOP/s",
    "memory": "byte",
    "reported_memory": "byte",
    "memory_bandwidth": "byte/s",
    "link_bandwidth": "byte/s",
    "power": "W",
}


def name_option(parser: ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", help="part of a name; all if not given")


def names_like(kind: str, part: str | None) -> list[str]:
    """The names of a table in which this occurs."""
    names = list(specs.table(kind))
    if not part:
        return names
    return [name for name in names if part.lower() in name] or [one_of("name", part, names)]


@command(
    "models",
    "models known by name",
    "models",
    "models llama",
    "models gpt2-xl --json",
    options=name_option,
)
def models_command(args: Namespace) -> None:
    from mathlib.compute import params

    found = [specs.find_model(name) for name in names_like("models", args.name)]
    rows = [
        (
            m.name,
            m.title,
            f"{params.total(m):,}",
            *[getattr(m, field) for field in FIELDS.values()],
        )
        for m in found
    ]
    text = columns(("model", "called", "parameters", *FIELDS), rows)
    if len(found) == 1:
        text += f"\n\nsource: {found[0].source}"
    counts = [
        {"parameters": params.total(m), "published_parameters": m.parameters or None} for m in found
    ]
    show(args, text, [asdict(m) | count for m, count in zip(found, counts, strict=True)])


@command(
    "devices",
    "devices known by name",
    "devices",
    "devices h100",
    options=name_option,
)
def devices_command(args: Namespace) -> None:
    found = [specs.find_device(name) for name in names_like("devices", args.name)]
    kinds = [kind for kind in ("fp32", "fp16", "bf16", "fp8") if any(kind in d.peak for d in found)]
    rows = [
        (
            d.name,
            d.title,
            *[f"{d.peak[kind] / 1e12:g}" if kind in d.peak else "" for kind in kinds],
            f"{d.memory / 1e9:g}",
            f"{d.reported_memory / 2**30:.1f}" if d.reported_memory else "",
            f"{d.memory_bandwidth / 1e9:g}",
            f"{d.link_bandwidth / 1e9:g}",
            f"{d.power:g}" if d.power else "",
        )
        for d in found
    ]
    peaks = [f"{kind} TFLOP/s" for kind in kinds]
    head = ("device", "called", *peaks, "GB", "GiB reported", "memory GB/s", "link GB/s", "W")
    told = (
        "Peaks are dense; GB as sold, GiB as the device reports them; link bandwidth is one "
        "direction."
    )
    text = f"{columns(head, rows)}\n\n{told}"
    if len(found) == 1:
        text += f"\nsource: {found[0].source}, {found[0].date}"
    show(args, text, {"units": UNITS, "devices": [asdict(d) for d in found]})


def where_options(parser: ArgumentParser) -> None:
    parser.add_argument("words", nargs="+", help="words of its name, sentence, chapter or equation")


@command(
    "where",
    "where a formula stands: function, equation, run, experiment, tests, section",
    "where ring",
    'where "bytes a parameter"',
    options=where_options,
)
def where_command(args: Namespace) -> None:
    """The rows of book/map.md in which the words occur, a block each."""
    from mathlib.cli import where

    found = where.search(" ".join(args.words))
    blocks = []
    for row in found:
        lines = {
            "says": row["says"],
            "equation": row["equation"],
            "chapter": row["chapter"],
            "section": row["section"],
            "run": ", ".join(row["runs"]),
            "experiment": ", ".join(row["experiments"]),
            "tests": ", ".join(row["tests"]),
        }
        told = [f"  {name:<10}  {text}" for name, text in lines.items() if text]
        blocks.append("\n".join([row["function"], *told]))
    show(args, "\n\n".join(blocks), found)
