"""The experiment of the activations chapter: what to keep, within a budget of bytes."""

from mathlib import specs
from mathlib.memory import activations, kept
from mathlib.show import plot, says
from mathlib.show.experiments import Choice, Range, Toggle, doubling, experiment
from mathlib.show.schemes.activations import called
from mathlib.show.tables import html_table

MODELS = ("llama3-8b", "llama2-7b", "llama3-70b", "qwen3-8b", "gpt2-xl", "gpt3-175b")
POLICIES = ("none", "matmuls", "selective", "full")
POINTS = 17  # of the curve
SAID = {
    "full": "inputs alone",
    "selective": "all but what lies between queries and values",
    "matmuls": "results of matmuls",
    "none": "everything",
}


@experiment(
    "activations",
    "What to keep",
    Choice("model", "Model", tuple((specs.find_model(m).title, m) for m in MODELS), "llama3-8b"),
    Range("share", "Budget, % of what is kept without recomputation", 2, 100, 1, 40),
    doubling("tokens", "Tokens of a sequence", 512, 131072, 8192),
    Toggle("flash", "Attention in one flash kernel", True),
    doubling("micro_batch", "Sequences at a time", 1, 16, 1),
    code=(kept.tensors, kept.best),
    main=4,
)
def keeping(model: str, share: float, tokens: int, flash: bool, micro_batch: int) -> str:
    how = {
        "tokens": tokens,
        "micro_batch": micro_batch,
        "attention": "flash" if flash else "standard",
    }
    shape = specs.find_model(model)
    line = kept.curve(model, points=POINTS, **how)
    everything = shape.layers * _one(model, "none", how).bytes
    budget = max(share / 100 * everything, line[0].bytes)
    chosen = kept.best(model, budget=budget, **how)
    more = kept.overhead(chosen, model, **how)
    said = (
        f'<p class="mlx-say"><b>{says.size(chosen.bytes)} kept of {says.size(everything)}, '
        f"and {says.percent(more)} more FLOP</b> in the layers of a step: the cheapest choice "
        f"within {says.size(budget)}, {_which(share, everything, line[0].bytes)}.</p>"
    )
    return (
        said
        + _chart(model, line, how, (f"budget, {share:g}%", budget), chosen)
        + _points_say(flash)
        + _tensors(model, chosen, how)
    )


def _which(share: float, everything: float, inputs: float) -> str:
    """What the budget is."""
    if share / 100 * everything < inputs:
        return f"the layers&rsquo; inputs, which are more than {share:g}%"
    return f"{share:g}%"


def _points_say(flash: bool) -> str:
    """What each named point keeps."""
    told = "; ".join(f"{policy}: {SAID[policy]}" for policy in POLICIES if policy != "selective")
    core = "beside a flash kernel it is none" if flash else SAID["selective"]
    return f"<p>The named points keep, {told}; selective: {core}.</p>"


def _one(model: str, policy: str, how: dict) -> kept.Choice:
    return kept.layer(model, keep=kept.names(model, policy=policy, **how), **how)


def _short(value: float) -> str:
    return says.short(round(value, 1))


def _chart(
    model: str,
    line: list[kept.Choice],
    how: dict,
    budget: tuple[str, float],
    chosen: kept.Choice,
) -> str:
    """The best choices as a curve, each policy as a point with its name, the budget as a line."""
    best = [(c.bytes, 100 * kept.overhead(c, model, **how)) for c in line]
    layers, n = specs.find_model(model).layers, how["micro_batch"]
    series: dict[str, list[tuple[float, float]]] = {"the best": best}
    for policy in POLICIES:
        one = _one(model, policy, how)
        flop = 100 * one.flop / (3 * kept.forward_flop(model, **how))
        point = [(layers * one.bytes, flop)]
        if point not in series.values():  # selective is none beside a flash kernel
            series[policy] = point
    series["your choice"] = [(chosen.bytes, 100 * kept.overhead(chosen, model, **how))]
    label, most = budget
    return plot.lines(
        series,
        title="Bytes against FLOP",
        x_title=f"kept of {n} sequence{'s' * (n > 1)} at a time",
        y_title="% more FLOP",
        mark=most,
        mark_label=label,
        y_ticks=(0, 10, 20, 30, 40),
        beside=True,
        show_x=says.size,
        show_y=_short,
    )


def _tensors(model: str, chosen: kept.Choice, how: dict) -> str:
    """What is kept in how many layers, dearest first."""
    layers = specs.find_model(model).layers
    found = [one for one in kept.tensors(model, **how) if one.bytes]
    rows = [["tensor", "bytes in a layer", "FLOP a byte", "kept in layers"]]
    for one in sorted(found, key=lambda one: -one.flop / one.bytes):
        price = says.plain(one.flop / one.bytes) if one.flop else "none"
        number = chosen.layers.get(one.name, 0)
        rows.append([called(one.name, model), says.size(one.bytes), price, f"{number} of {layers}"])
    size = activations.hidden_state(model, micro_batch=how["micro_batch"], tokens=how["tokens"])
    rows.append(["layer's input", says.size(size), "–", f"{layers} of {layers}"])
    return html_table(rows, "What comes back at which price, and what is kept")
