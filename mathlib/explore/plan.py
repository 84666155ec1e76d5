"""Plan a run: every layout of a model on a cluster, ranked, and one of them taken apart."""

import json
import re
from collections.abc import Callable
from dataclasses import asdict
from functools import lru_cache
from html import escape
from typing import Any

from mathlib import specs
from mathlib.checks import InputError
from mathlib.from_config import from_config
from mathlib.from_config.files import parsed
from mathlib.plan import planner, step
from mathlib.plan.calibration import find_rates
from mathlib.plan.machine import Host, host_of
from mathlib.plan.room import Room
from mathlib.plan.search import _mixes
from mathlib.plan.work import OFFLOAD
from mathlib.show import memory_laws, says, step_laws, svg
from mathlib.show.experiments import Choice, Range, Text, doubling, experiment, tell
from mathlib.show.launch_flags import launch_line
from mathlib.show.tables import html_table
from mathlib.specs import Layout, Model

MODELS = (
    *("gpt2-xl", "llama3.2-1b", "llama2-7b", "mistral-7b", "llama3-8b", "llama2-13b"),
    *("qwen2.5-32b", "mixtral-8x7b", "llama2-70b", "llama3-70b", "gpt3-175b", "llama3-405b"),
)
CLUSTERS = (
    *("p3dn.24xlarge", "p4d.24xlarge", "dgx-a100", "p4de.24xlarge", "dgx-h100", "p5.48xlarge"),
    *("p5en.48xlarge", "dgx-b200", "nd-mi300x-v5"),
)
RECIPES = (
    ("bf16, gradients in fp32", "mixed-adam-fp32-gradients"),
    ("bf16, gradients in bf16", "mixed-adam"),
    ("bf16, Adam in 8 bits", "mixed-adam-8bit"),
)
HOST = (("nothing", "no"), ("states and activations, if it pays", "yes"))
WAITS = {
    "states": "states on the host",
    "activations": "activations on the host",
    "both": "states and activations on the host",
}
ROWS = 10
KEPT = 500  # of the quickest layouts, among which those that differ in their mix are looked for
INDEX = re.compile(r"\b([a-z])_([a-z])\b")  # a letter with an index, in a sentence
MIX = "The quickest layout of each mix of tensor, pipeline, expert and ZeRO degrees"


def places(names: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Clusters for a menu: the device, and the node that it comes in."""
    found = [(specs.find_cluster(name), name) for name in names]
    return tuple((f"{specs.find_device(c.device).title}, {c.title}", name) for c, name in found)


@lru_cache(8)
def read(config: str) -> Model:
    """The model of a pasted config.json."""
    return from_config(parsed(config, "config.json"))


@lru_cache(8)
def ranked(
    model: Model,
    cluster: str,
    devices: int,
    sequences: int,
    tokens: int,
    recipe: str,
    host: bool,
) -> tuple[step.Machine, planner.Ranking, tuple[planner.Choice, ...]]:
    """What layouts of a model meet on a cluster, their ranking, the table's rows.

    Whoever chooses a row asks again.
    """
    nodes = specs.find_cluster(cluster)
    there: dict[str, Any] = {"host": _host(nodes) if host else None, "tokens": tokens}
    on = step.machine(model, nodes, find_rates(nodes.device), **there)
    how: dict[str, Any] = {"recipe": recipe, "most": KEPT, "tell": _far}
    found = planner.search(on, devices=devices, sequences=sequences, **how)
    return on, found, mixes(found.choices)


def _host(nodes: specs.Cluster) -> Host:
    """A device's share of the host's memory, where that is known."""
    if not nodes.host_memory:
        raise InputError(f"nobody told how large and quick the host's memory of {nodes.title} is")
    return host_of(nodes)


def _far(search: planner.Progress) -> None:
    """Says how far a search is."""
    tell(search.share, f"{search.tried:,} layouts")


def mixes(choices: list[planner.Choice]) -> tuple[planner.Choice, ...]:
    """The quickest of each mix of tensor, pipeline, expert and ZeRO degrees.

    Near the top many layouts differ in little else.
    """
    return tuple(_mixes(choices))[:ROWS]


def words(layout: Layout, offload: str = "none") -> str:
    """A layout in a few words: what is one or off is left out."""
    lay = layout
    named = [
        (lay.tensor > 1, f"tensor {lay.tensor}"),
        (lay.context > 1, f"context {lay.context}"),
        (lay.expert > 1, f"expert {lay.expert}"),
        (lay.pipeline > 1, f"pipeline {lay.pipeline}"),
        (lay.chunks > 1, f"chunks {lay.chunks}"),
        (lay.data > 1, f"data {lay.data}"),
        (lay.zero > 0, f"ZeRO {lay.zero}"),
        (lay.zero > 0 and lay.shard < lay.replicas, f"over {lay.shard} ranks"),
        (lay.micro_batch > 1, f"micro-batch {lay.micro_batch}"),
        (lay.recompute != "none", f"recompute {lay.recompute}"),
        (offload != "none", WAITS.get(offload, "")),
    ]
    return ", ".join(text for said, text in named if said) or "one device"


@experiment(
    "plan",
    "Your model on your GPUs",
    Choice("model", "Model", specs.titled("models", MODELS), "llama3-8b"),
    Text("config", "Or paste its config.json", 20_000, '{"model_type": "llama", ...}'),
    Choice("cluster", "GPUs and their nodes", places(CLUSTERS), "dgx-h100"),
    doubling("devices", "Number of GPUs", 1, 16384, 64),
    doubling("sequences", "Sequences a step", 1, 8192, 512),
    doubling("tokens", "Tokens of a sequence", 512, 131072, 8192),
    Choice("recipe", "Numbers kept", RECIPES, "mixed-adam-fp32-gradients"),
    Choice("host", "May wait in the host's memory", HOST, "no"),
    Range("row", "Row of the table", 1, ROWS, 1, 1),
    code=(ranked, mixes),
    main=5,
    above=True,
    long=True,
)
def plan(
    model: str,
    config: str,
    cluster: str,
    devices: int,
    sequences: int,
    tokens: int,
    recipe: str,
    host: str,
    row: int,
) -> str:
    try:
        asked = read(config) if config else specs.find_model(model)
        on, found, rows = ranked(asked, cluster, devices, sequences, tokens, recipe, host == "yes")
    except InputError as refusal:  # said here: other settings to offer would be searched through
        return f'<p class="mlx-say mlx-refused">{escape(f"Not possible: {refusal}.")}</p>'
    if not found:
        return _nothing_fits(on, found, devices)
    n = min(row, len(rows))
    answer = (
        _said(on, found, devices)
        + _unread(asked)
        + _table(on, rows, n)
        + _pictures(on, rows, n, recipe)
    )
    return answer + _formulas(on, rows[n - 1], recipe, n) + _files(on, found, rows[n - 1], recipe)


def _on(on: step.Machine, devices: int) -> str:
    where = "one device" if devices == 1 else f"{devices:,} devices"
    return escape(f"{on.model.title} on {where} ({on.device.title})")


def _said(on: step.Machine, found: planner.Ranking, devices: int) -> str:
    """The quickest layout and how sure that is, in words."""
    best, between = found.choices[0], found.between
    sure = ""
    if between:
        low, high = says.time(between.low), says.time(between.high)
        sure = f" Of ten published runs like it, eight would lie between {low} and {high}."
        sure += "" if best.offload == "none" else " None of these kept anything on the host."
    return (
        f'<p class="mlx-say">{_on(on, devices)}: <b>{says.time(best.seconds)} a step</b>, '
        f"{_mfu(on, best)} MFU, with {escape(words(best.layout, best.offload))}.{sure}</p>"
        f"<p>{found.tried:,} layouts were tried, and {found.fitting:,} fit.</p>"
    )


def _unread(model: Model) -> str:
    """What a pasted config.json says without effect."""
    told = escape(", ".join(model.unread))
    return f"<p>No part of this: {told}.</p>" if told else ""


def _mfu(on: step.Machine, one: planner.Choice) -> str:
    return f"{step.utilization(on, one.layout, offload=one.offload):.0%}"


def _nothing_fits(on: step.Machine, found: planner.Ranking, devices: int) -> str:
    """What fills the device, where no layout fits."""
    if not found.tried:
        return (
            f'<p class="mlx-say mlx-refused">{_on(on, devices)}: no layout divides this batch; '
            "more sequences a step, or fewer GPUs.</p>"
        )
    rows = [[name, f"{n:,}"] for name, n in sorted(found.full.items(), key=lambda one: -one[1])]
    return (
        f'<p class="mlx-say mlx-refused">{_on(on, devices)}: <b>none of {found.tried:,} layouts '
        "fits</b>.</p>" + html_table([["What fills the device most", "layouts"], *rows], "")
    )


def _table(on: step.Machine, rows: tuple[planner.Choice, ...], chosen: int) -> str:
    """The quickest layouts; the page makes each row one that can be chosen. A line breaks between
    two words of a layout, not inside one.
    """
    lines = [["Row", "Layout", "Step", "MFU", "Memory"]]
    for i, one in enumerate(rows, 1):
        size, time = says.size(one.memory), says.time(one.seconds)
        layout = words(one.layout, one.offload).replace(" ", "\u00a0").replace(",\u00a0", ", ")
        lines.append([str(i), layout, time, _mfu(on, one), size])
    html = html_table(lines, MIX, "mlx-table mlx-rows")
    for i in range(1, len(lines)):
        here = ' aria-current="true"' if i == chosen else ""
        row = f'<tr data-set="row {i}"{here}><th scope="row">{i}</th>'
        html = html.replace(f'<tr><th scope="row">{i}</th>', row)
    return html


def _pictures(on: step.Machine, rows: tuple[planner.Choice, ...], n: int, recipe: str) -> str:
    """Memory of row n against the device, and its step by part beside that of the quickest."""
    best, chosen = rows[0], rows[n - 1]
    name = f"Row {n}: {words(chosen.layout, chosen.offload)}"
    memory = svg.bars(
        [(name, memory_laws.parts(on, chosen.layout, recipe, chosen.offload))],
        title="Memory of the fullest device",
        show=says.size,
        limit=on.device.room,
        limit_label=on.device.title,
    )
    bars = [(name, _times(on, chosen))]
    if n > 1:
        bars.insert(0, (f"Row 1: {words(best.layout, best.offload)}", _times(on, best)))
    time = svg.bars(bars, title="Where the time of a step goes", show=says.time)
    lost, risk = chosen.reason, chosen.risk
    said = f"Row {n} is {escape(lost)}. " if n > 1 and lost else ""
    said += f"The chance that it runs out of memory is {risk:.0%}, by runs predicted like it."
    return f"{memory}{time}<p>{said}{_waiting(on, chosen, recipe)}</p>"


def _waiting(on: step.Machine, one: planner.Choice, recipe: str) -> str:
    """How much of a device waits on the host, and how much may."""
    if on.host is None or one.offload == "none":
        return ""
    lay, room = one.layout, Room(on.model, on.tokens, recipe)
    waits = says.size(room.on_host(lay, (lay.zero, lay.shard), OFFLOAD[one.offload]))
    has = says.size(on.host.memory * on.host.shares(lay.world))
    return f" {waits} of a device wait on the host, which has {has} for each."


def _times(on: step.Machine, one: planner.Choice) -> dict[str, float]:
    parts = step.step(on, one.layout, offload=one.offload)
    return {name: parts.amount(name) for name in parts}


def _formulas(on: step.Machine, chosen: planner.Choice, recipe: str, n: int) -> str:
    """Every part of the step and of the memory, with its formula and the numbers in it."""
    time, space = (
        step_laws.seconds(on, chosen.layout, chosen.offload),
        memory_laws.memory(on, chosen.layout, recipe, chosen.offload),
    )
    return _laws(f"Row {n}: every part of the step, with its formula", "time", time, says.time) + (
        _laws(f"Row {n}: every part of the memory, with its formula", "memory", space, says.size)
    )


def _laws(title: str, keep: str, laws: list[step_laws.Law], show: Callable[[float], str]) -> str:
    """Formulas one under the other, folded."""
    inside = ""
    for one in laws:
        said = INDEX.sub(r"<i>\1</i><sub>\2</sub>", escape(one.words))
        head = f"<b>{escape(one.name)}</b>, {says.html(show(one.amount))}"
        inside += f'<p class="mlx-law">{head}</p><p>{said}</p>{one.formula}'
    return f'<details data-keep="{keep}"><summary>{title}</summary>{inside}</details>'


def _files(on: step.Machine, found: planner.Ranking, chosen: planner.Choice, recipe: str) -> str:
    """The layout as a launch line and as JSON; the page offers to save them."""
    shape = (on.model, chosen.layout, on.cluster)
    line = launch_line(*shape, tokens=on.tokens, recipe=recipe, offload=chosen.offload)
    told = json.dumps(record(on, found, chosen, recipe), indent=1)
    return "".join(
        f'<details data-keep="{file}"><summary>{title}</summary>'
        f'<pre data-file="{file}" tabindex="0"><code>{escape(text)}</code></pre></details>'
        for file, title, text in (
            ("plan.sh", "Launch line, for torchrun and Megatron-LM", line),
            ("plan.json", "The plan as JSON", told),
        )
    )


def record(
    on: step.Machine, found: planner.Ranking, chosen: planner.Choice, recipe: str
) -> dict[str, Any]:
    """A plan as plain data, in seconds and bytes, to six digits."""
    memory = memory_laws.parts(on, chosen.layout, recipe, chosen.offload)
    told: dict[str, Any] = {
        "model": asdict(on.model) | {"source": on.model.source},
        "cluster": on.cluster.name,
        "device": on.device.name,
        "tokens": on.tokens,
        "recipe": recipe,
        "layout": asdict(chosen.layout) | {"devices": chosen.layout.world},
        "offload": chosen.offload,
        "seconds": {name: _short(time) for name, time in _times(on, chosen).items()},
        "step": _short(chosen.seconds),
        "bytes": {name: _short(size) for name, size in memory.items()},
        "memory": _short(chosen.memory),
        "out of memory": _short(chosen.risk),
        "mfu": _short(step.utilization(on, chosen.layout, offload=chosen.offload)),
        "layouts": {"tried": found.tried, "fit": found.fitting},
    }
    if found.between:
        low, high = _short(found.between.low), _short(found.between.high)
        told["quickest"] = {"seconds": _short(found.choices[0].seconds), "low": low, "high": high}
    return told


def _short(value: float) -> float:
    """Six digits: the last of sixteen differ from one machine to the next."""
    return float(f"{value:.6g}")
