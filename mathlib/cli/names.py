"""What is known by name, and where it stands: models, devices, clusters, recipes, runs, prices."""

from argparse import ArgumentParser
from collections.abc import Iterable, Sequence
from typing import Any

from mathlib import specs, units
from mathlib.checks import one_of
from mathlib.cli.registry import command
from mathlib.cli.text import columns, show, wrapped
from mathlib.cli.typed import Typed
from mathlib.records import asdict
from mathlib.specs import Layout

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
    rows = specs.table(kind)
    if not part:
        return list(rows)
    words = part.lower()
    called = [name for name, row in rows.items() if words in row.get("title", "").lower()]
    return (
        [name for name in rows if words in name.lower()] or called or [one_of("name", part, rows)]
    )


def show_rows(
    args: Typed,
    head: Sequence[str],
    rows: Iterable[Sequence[Any]],
    data: Any,
    sources: Sequence[str],
    note: str = "",
) -> None:
    """A table, what is to be said of all of it, and of a single row where it is from."""
    told = [note] if note else []
    told += sources if len(sources) == 1 else []
    text = [columns(head, rows), wrapped("\n".join(told))]
    show(args, "\n\n".join(filter(None, text)), data)


@command(
    "models",
    "models known by name",
    "models",
    "models llama",
    "models gpt2-xl --json",
    options=name_option,
)
def models_command(args: Typed) -> None:
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
    counts = [
        {"parameters": params.total(m), "published_parameters": m.parameters or None} for m in found
    ]
    data = [asdict(m) | count for m, count in zip(found, counts, strict=True)]
    head = ("model", "called", "parameters", *FIELDS)
    show_rows(args, head, rows, data, [f"source: {m.source}" for m in found])


@command(
    "devices",
    "devices known by name",
    "devices",
    "devices h100",
    options=name_option,
)
def devices_command(args: Typed) -> None:
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
    note = (
        "Peaks are dense; GB as sold, GiB as the device reports them; link bandwidth is one "
        "direction."
    )
    data = {"units": UNITS, "devices": [asdict(d) for d in found]}
    show_rows(args, head, rows, data, [f"source: {d.source}, {d.date}" for d in found], note)


@command(
    "clusters",
    "nodes known by name: their devices and links",
    "clusters",
    "clusters p5",
    options=name_option,
)
def clusters_command(args: Typed) -> None:
    found = [specs.find_cluster(name) for name in names_like("clusters", args.name)]
    rows = [
        (
            c.name,
            c.title,
            f"{c.devices_per_node} x {c.device}",
            f"{c.node_bandwidth / 1e9:g}",
            f"{c.node_bandwidth / 1e9 / c.devices_per_node:g}",
            f"{(c.link_bandwidth or specs.find_device(c.device).link_bandwidth) / 1e9:g}",
            f"{c.host_memory / 1e12:g}" if c.host_memory else "",
            f"{c.host_link / 1e9:g}" if c.host_link else "",
            f"{c.host_bandwidth / 1e9:g}" if c.host_bandwidth else "",
        )
        for c in found
    ]
    head = ("cluster", "called", "a node", "out GB/s", "a device's share", "link GB/s")
    hosts = ("host TB", "a device to it GB/s", "host memory GB/s")
    units = dict.fromkeys(("node_bandwidth", "link_bandwidth", "host_link"), "byte/s")
    units |= {"host_memory": "byte", "host_bandwidth": "byte/s"}
    data = {"units": units, "clusters": [asdict(c) for c in found]}
    sources = [f"source: {c.source}, {c.date}" for c in found]
    sources = [
        f"{told}\nof the host: {c.host_source}" if c.host_source else told
        for told, c in zip(sources, found, strict=True)
    ]
    note = "Bandwidths are one direction; an empty host: nobody told."
    show_rows(args, (*head, *hosts), rows, data, sources, note)


@command(
    "recipes",
    "which copies of a parameter a training run keeps, and their bytes",
    "recipes",
    "recipes mixed-adam --json",
    options=name_option,
)
def recipes_command(args: Typed) -> None:
    from mathlib.memory import precision

    data, rows = [], []
    for name in names_like("recipes", args.name):
        one = precision.recipe(name)
        factored = one.second_moment == "factored"
        each = None if factored else precision.bytes_per_parameter(name)
        total = each.total if each else None
        kept = [f"{field.replace('_', ' ')} {getattr(one, field)}" for field in precision.KEPT]
        kept = [words for words in kept if not words.endswith(" ")]
        if one.elsewhere:
            kept.append(f"outside the layers' matrices second moment {one.elsewhere}")
        rows.append((name, f"{total:g}" if total is not None else "by shape", ", ".join(kept)))
        parts = {part: each.amount(part) for part in each} if each else None
        data.append({**specs.table("recipes")[name], "name": name, "bytes": total, "parts": parts})
    sources = [f"used by: {one['used_by']}\nsource: {one['source']}" for one in data]
    show_rows(args, ("recipe", "bytes a parameter", "kept"), rows, data, sources)


@command(
    "runs",
    "published runs: device, model, share of the peak, MFU and HFU",
    "runs",
    'runs "Llama 3" --json',
    options=name_option,
)
def runs_command(args: Typed) -> None:
    from mathlib.compute import reported

    data, rows = [], []
    for name in names_like("runs", args.name):
        run = reported.find_run(name)
        of = reported.utilizations(run)
        shares = [f"{of[key]:.1%}" if of[key] is not None else "" for key in ("mfu", "hfu")]
        rows.append((name, f"{run.devices:,}", run.device, run.model, *shares, run.date))
        kept = {"device": run.device, "devices": run.devices, "model": run.model or None}
        told = {"counts": run.counts, "recompute": run.recompute, "source": run.source}
        data.append({"name": name, **kept, **told, "date": run.date, "utilization": of})
    head = ("run", "devices", "device", "model", "MFU", "HFU", "date")
    note = "An empty share: its source leaves open what it counted."
    show_rows(args, head, rows, data, [f"source: {one['source']}" for one in data], note)


@command(
    "layouts",
    "published steps with their layout, for `mathlib slower --published`",
    "layouts",
    "layouts llama3-70b --json",
    options=name_option,
)
def layouts_command(args: Typed) -> None:
    from mathlib.plan import sweeps

    found = [sweeps.find_printed(name) for name in _printed_like(args.name, sweeps.printed())]
    rows, data = [], []
    for one in found:
        run, lay = one.run, one.run.layout
        plain = Layout(data=lay.data, context=lay.context)  # ZeRO shards over all of these
        told = {
            name: n
            for name, n in asdict(lay).items()
            if n != getattr(plain if name == "shard" else Layout(), name)
        }
        words = ", ".join(f"{name.replace('_', ' ')} {n}" for name, n in told.items())
        words = words.replace("sequence parallel True", "sequence parallel")
        each = run.each / run.seconds
        step = units.show(run.seconds, "second")
        rows.append((one.name, f"{lay.world:,}", step, f"{each:,.0f}", words, one.title))
        kept = {"name": one.name, "title": one.title, "program": one.program, "devices": lay.world}
        kept |= {"device": run.on.device.name, "precision": run.on.rates.precision}
        rest = {"tokens": run.on.tokens, "sequences": lay.sequences, "layout": told}
        rest |= {"seconds": run.seconds, "tokens_per_second_each": each}
        data.append(kept | rest | {"source": one.source, "date": one.date})
    head = ("layout", "devices", "a step", "tokens/s each", "how", "called")
    sources = [f"source: {one.source}, {one.date}" for one in found]
    show_rows(args, head, rows, data, sources, "Of a sweep the quickest of its layouts.")


def _printed_like(part: str | None, known: list[str]) -> list[str]:
    """The published steps in whose name this occurs."""
    found = [name for name in known if (part or "").lower() in name]
    return found or [one_of("name", str(part), known)]


@command(
    "prices",
    "what an hour of a device was rented for: on demand, reserved, spot",
    "prices",
    "prices h100",
    options=name_option,
)
def prices_command(args: Typed) -> None:
    from mathlib.plan import rent

    found = [rent.find_price(name) for name in names_like("prices", args.name)]
    modes = ("on demand", "reserved", "spot")
    rows = [
        (p.name, p.title, p.device, *[f"{p.modes[m]:.2f}" if m in p.modes else "" for m in modes])
        + (p.date,)
        for p in found
    ]
    head = ("price", "called", "device", *[f"{mode} $/h" for mode in modes], "read")
    note = "Of a device. Reserved is the least that a list has. Prices change from day to day."
    data = {"unit": "USD an hour of a device", "prices": [asdict(p) for p in found]}
    show_rows(args, head, rows, data, [f"source: {p.source}, {p.date}" for p in found], note)


def where_options(parser: ArgumentParser) -> None:
    parser.add_argument("words", nargs="+", help="words of its name, sentence, chapter or equation")


@command(
    "where",
    "where a formula stands: function, equation, run, experiment, tests, section",
    "where ring",
    'where "bytes a parameter"',
    options=where_options,
)
def where_command(args: Typed) -> None:
    """The rows in which the words occur, a block each."""
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
        told = [wrapped(f"  {name:<10}  {text}", 12) for name, text in lines.items() if text]
        blocks.append("\n".join([row["function"], *told]))
    show(args, "\n\n".join(blocks), found)
