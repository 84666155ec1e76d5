"""A plan as HTML: the table of its layouts, one of them in pictures and formulas, its files."""

import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

from mathlib.plan import planner, step
from mathlib.plan.room import Room
from mathlib.plan.wording import of_peak
from mathlib.plan.work import OFFLOAD
from mathlib.show import says, step_laws, svg
from mathlib.show.launch_flags import launch_line
from mathlib.show.tables import html_table
from mathlib.specs import Layout

WAITS = {
    "states": "states on the host",
    "activations": "activations on the host",
    "both": "states and activations on the host",
}
INDEX = re.compile(r"\b([a-z])_([a-z])\b")  # a letter with an index, in a sentence
MIX = (
    "The quickest layout of each mix of tensor, pipeline, expert and ZeRO degrees. OOM: the chance "
    "of running out of memory, by runs predicted like it"
)
LAUNCHED = "megatron-core"  # the program whose flags a launch line has


@dataclass(frozen=True)
class Plan:
    """What a search found, and the row of it that is shown."""

    on: step.Machine
    room: Room
    program: str
    found: planner.Ranking
    rows: tuple[planner.Choice, ...]
    n: int = 1  # of the row, the first is 1

    @property
    def chosen(self) -> planner.Choice:
        """The layout of that row."""
        return self.rows[self.n - 1]


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


def mfu(on: step.Machine, one: planner.Choice) -> str:
    """The utilization of a layout in percent."""
    return f"{step.utilization(on, one.layout, offload=one.offload):.0%}"


def rows_table(plan: Plan) -> str:
    """The quickest layouts; the page makes each row one that can be chosen. A line breaks between
    two words of a layout, not inside one.
    """
    lines = [["Row", "Layout", "Step", "Memory", "OOM", f"MFU{of_peak(plan.on)}"]]
    for i, one in enumerate(plan.rows, 1):
        size, time = says.size(one.memory), says.time(one.seconds)
        layout = words(one.layout, one.offload).replace(" ", "\u00a0").replace(",\u00a0", ", ")
        lines.append([str(i), layout, time, size, f"{one.risk:.0%}", mfu(plan.on, one)])
    html = html_table(lines, MIX, "mlx-table mlx-rows")
    for i in range(1, len(lines)):
        here = ' aria-current="true"' if i == plan.n else ""
        row = f'<tr data-set="row {i}"{here}><th scope="row">{i}</th>'
        html = html.replace(f'<tr><th scope="row">{i}</th>', row)
    return html


def pictures(plan: Plan) -> str:
    """Memory of the row against the device, and its step by part beside that of the quickest."""
    on, n, best, chosen = plan.on, plan.n, plan.rows[0], plan.chosen
    name = f"Row {n}: {words(chosen.layout, chosen.offload)}"
    memory = svg.bars(
        [(name, step_laws.parts(plan.room, chosen.layout, chosen.offload))],
        title="Memory of the fullest device",
        show=says.size,
        limit=on.device.room,
        limit_label=on.device.title,
    )
    bars = [(name, _times(on, chosen))]
    if n > 1:
        bars.insert(0, (f"Row 1: {words(best.layout, best.offload)}", _times(on, best)))
    time = svg.bars(bars, title="Where the time of a step goes", show=says.time)
    said = f"Row {n} is {escape(chosen.reason)}. " if n > 1 and chosen.reason else ""
    return f"{memory}{time}<p>{said}{_waiting(plan)}</p>"


def _waiting(plan: Plan) -> str:
    """How much of a device waits on the host, and how much may."""
    host, one = plan.on.host, plan.chosen
    if host is None or one.offload == "none":
        return ""
    lay = one.layout
    waits = says.size(plan.room.on_host(lay, (lay.zero, lay.shard), OFFLOAD[one.offload]))
    has = says.size(host.memory * host.shares(lay.world))
    return f"{waits} of a device wait on the host, which has {has} for each."


def _times(on: step.Machine, one: planner.Choice) -> dict[str, float]:
    parts = step.step(on, one.layout, offload=one.offload)
    return {name: parts.amount(name) for name in parts}


def formulas(plan: Plan) -> str:
    """Every part of the step and of the memory, with its formula and the numbers in it; adapters
    have no formula of every part, so that theirs stand alone.
    """
    time, space = (
        step_laws.seconds(plan.on, plan.chosen.layout, plan.chosen.offload),
        step_laws.memory(plan.room, plan.chosen.layout, plan.chosen.offload),
    )
    row, its = f"Row {plan.n}: every part of the", "" if plan.on.adapters else ", with its formula"
    return _laws(f"{row} step{its}", "time", time, says.time) + (
        _laws(f"{row} memory{its}", "memory", space, says.size)
    )


def _laws(title: str, keep: str, laws: list[step_laws.Law], show: Callable[[float], str]) -> str:
    """Formulas one under the other, folded."""
    inside = ""
    for one in laws:
        said = INDEX.sub(r"<i>\1</i><sub>\2</sub>", escape(one.words))
        head = f"<b>{escape(one.name)}</b>, {says.html(show(one.amount))}"
        said = f"<p>{said}</p>" if said else ""
        inside += f'<p class="mlx-law">{head}</p>{said}{one.formula}'
    return f'<details data-keep="{keep}"><summary>{title}</summary>{inside}</details>'


def files(plan: Plan) -> str:
    """The layout as a launch line, where the program is Megatron-LM, and as JSON; the page offers
    to save them.
    """
    on, chosen = plan.on, plan.chosen
    texts = [("plan.json", "The plan as JSON", json.dumps(record(plan), indent=1))]
    if plan.program == LAUNCHED:
        how = {"recipe": plan.room.copied, "offload": chosen.offload}
        how |= {"precision": on.rates.precision}
        line = launch_line(on.model, chosen.layout, on.cluster, tokens=on.tokens, **how)
        texts.insert(0, ("plan.sh", "Launch line, for torchrun and Megatron-LM", line))
    return "".join(
        f'<details data-keep="{file}"><summary>{title}</summary>'
        f'<pre data-file="{file}" tabindex="0"><code>{escape(text)}</code></pre></details>'
        for file, title, text in texts
    )


def record(plan: Plan) -> dict[str, Any]:
    """A plan as plain data, in seconds and bytes, to six digits."""
    on, found, chosen = plan.on, plan.found, plan.chosen
    memory = step_laws.parts(plan.room, chosen.layout, chosen.offload)
    told: dict[str, Any] = {
        "model": asdict(on.model) | {"source": on.model.source},
        "cluster": on.cluster.name,
        "device": on.device.name,
        "tokens": on.tokens,
        "program": plan.program,
        "precision": on.rates.precision,
        "recipe": plan.room.copied,
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
    if on.adapters:
        told["adapters"] = asdict(on.adapters)
    if found.between:
        low, high = _short(found.between.low), _short(found.between.high)
        told["quickest"] = {"seconds": _short(found.choices[0].seconds), "low": low, "high": high}
    return told


def _short(value: float) -> float:
    """Six digits: the last of sixteen differ from one machine to the next."""
    return float(f"{value:.6g}")
