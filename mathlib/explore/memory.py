"""Experiments of the memory chapter: the byte recipes side by side, and all that one device must
hold.
"""

from html import escape

from mathlib import specs
from mathlib.compute import params
from mathlib.memory import activations, fit, one_device, precision, states
from mathlib.show import says, svg
from mathlib.show.equation import equation
from mathlib.show.experiments import Choice, Toggle, doubling, experiment

RECIPES = (  # by bytes a parameter, with its gradient and without
    "sgd",
    "adam-bf16",
    "mixed-adam-8bit",
    "sgd-momentum",
    "adam-bf16-weights",
    "mixed-lion",
    "adam-fp32",
    "mixed-adam",
    "mixed-adam-fp32-gradients",
    "mixed-adam-both-gradients",
)
TRAINED = (
    "mixed-adam",
    "mixed-adam-fp32-gradients",
    "mixed-adam-both-gradients",
    "adam-fp32",
    "mixed-adam-8bit",
    "sgd-momentum",
)
MODELS = (
    "gpt2-xl",
    "gpt3-6.7b",
    "llama2-7b",
    "llama3-8b",
    "llama2-13b",
    "gpt-neox-20b",
    "llama2-70b",
    "gpt3-175b",
)
DEVICES = (
    "v100-32gb",
    "a100-40gb",
    "a100-80gb",
    "h100-sxm",
    "h200-sxm",
    "b200-sxm",
    "mi300x",
    "rtx-4090",
)


def titles(names: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Recipes for a menu: how they are called, and their name."""
    return tuple((precision.recipe(name).title, name) for name in names)


def in_a_step(name: str) -> precision.Recipe:
    """A recipe with the gradients that a step makes, where it is printed without them."""
    found = precision.recipe(name)
    if found.gradients or found.main_gradients:
        return found
    title = found.title.removesuffix(", without gradients")
    return precision.recipe(found, gradients=found.weights, title=title)


@experiment(
    "recipes",
    "What a parameter costs",
    doubling("millions", "Parameters", 125, 1024000, 8000, "million"),
    Toggle("gradients", "Count the gradients", True),
    Choice("device", "Limit", specs.titled("devices", DEVICES), "a100-80gb"),
    code=(precision.bytes_per_parameter,),
)
def recipes(millions: int, gradients: bool, device: str) -> str:
    P, chip = millions * 1e6, specs.find_device(device)
    limit = chip.room
    rows = []
    for name in RECIPES:
        recipe = in_a_step(name)
        each = precision.bytes_per_parameter(recipe)
        parts = {part: each.amount(part) for part in each if gradients or "gradients" not in part}
        rows.append(
            (
                f"{sum(parts.values()):.3g}: {recipe.title}",
                {part: k * P for part, k in parts.items()},
            )
        )
    fit = sum(sum(parts.values()) <= limit for _, parts in rows)
    kept = f"{says.count(P)} parameters within {says.size(limit)}"
    say = f'<p class="mlx-say">{fit} of {len(rows)} recipes keep {kept}.</p>'
    return say + svg.bars(
        rows,
        title="Bytes of the model states by recipe",
        show=says.size,
        limit=limit,
        limit_label=chip.title,
    )


@experiment(
    "memory",
    "Does it fit?",
    Choice("model", "Model", specs.titled("models", MODELS), "llama2-7b"),
    Choice("device", "Device", specs.titled("devices", DEVICES), "a100-80gb"),
    Choice("recipe", "Recipe", specs.titled("recipes", TRAINED), "mixed-adam"),
    Choice("zero", "ZeRO stage", (("off", 0), ("1", 1), ("2", 2), ("3", 3)), 0),
    doubling("data", "Data-parallel ranks", 1, 1024, 8),
    doubling("tensor", "Tensor-parallel ranks", 1, 8, 1),
    doubling("pipeline", "Pipeline stages", 1, 16, 1),
    doubling("micro_batch", "Sequences in a micro-batch", 1, 64, 1),
    doubling("tokens", "Sequence length", 512, 32768, 4096, "tokens"),
    Choice(
        "recompute",
        "Recomputation",
        (("none", "none"), ("selective", "selective"), ("full", "full")),
        "none",
    ),
    Toggle("flash", "FlashAttention", True),
    code=(fit.training, one_device.moments, states.per_parameter, activations.layer),
)
def explorer(
    model: str,
    device: str,
    recipe: str,
    zero: int,
    data: int,
    tensor: int,
    pipeline: int,
    micro_batch: int,
    tokens: int,
    recompute: str,
    flash: bool,
) -> str:
    layout = specs.Layout(
        data=data,
        tensor=tensor,
        pipeline=pipeline,
        zero=zero,
        micro_batch=micro_batch,
        micro_batches=pipeline,
        recompute=recompute,
    )
    needed = fit.training(
        model,
        layout,
        recipe=recipe,
        tokens=tokens,
        attention="flash" if flash else "standard",
    )
    chip = specs.find_device(device)
    parts = {name: needed.amount(name) for name in needed if needed.amount(name)}
    chart = svg.bars(
        [("On one device", parts)],
        title="Memory of one device",
        show=says.size,
        limit=chip.room,
        limit_label=chip.title,
    )
    said, law = _fits_or_not(layout, fit.fits(needed, chip)), _states_law(model, recipe, layout)
    return (
        f"{said}{chart}<p>{escape(needed.title)}.</p>"
        f"<p>Model states by the formula, all gradients among them:</p>{law}"
    )


def _fits_or_not(layout: specs.Layout, told: fit.Verdict) -> str:
    """The result in a sentence."""
    rest = says.size(abs(told.memory - told.needed)) + (" free" if told else " too much")
    return (
        f'<p class="mlx-say">On {_each(layout.world)} it '
        f"<b>{'fits' if told else 'does not fit'}</b>: {says.size(told.needed)} of "
        f"{says.size(told.memory)}, {rest}.</p>"
    )


def _states_law(model: str, recipe: str, layout: specs.Layout) -> str:
    """Bytes of the model states, with the numbers under their letters."""
    t, p = layout.tensor, layout.pipeline
    kappa = states.per_parameter(recipe, zero=layout.zero, shard=layout.data).total
    P = params.count(model).total
    M = kappa * P / t / p
    return equation(
        "M = kappa * P / (t * p)",
        M=(M, says.size(M)),
        kappa=(kappa, says.amount(kappa, "bytes")),
        P=(P, says.count(P)),
        t=t,
        p=p,
    )


TOGETHER = {  # what the front page tells apart, and the parts that it adds up
    "weights": ("weights", "gathered layer"),
    "gradients": ("gradients", "new gradients"),
    "optimizer": ("master weights", "optimizer states"),
}
STAGES = (
    "every GPU holds everything",
    "ZeRO 1 shards the optimizer",
    "ZeRO 2 shards gradients too",
    "ZeRO 3 shards weights too",
)


def held(model: str, gpus: int, stage: int) -> dict[str, float]:
    """What a GPU holds at the fullest moment of a step on two sequences in turn."""
    parts = fit.training(
        model,
        specs.Layout(data=gpus, zero=stage, micro_batches=2),
        recipe="mixed-adam",
        tokens=min(4096, specs.find_model(model).context),
        attention="flash",
    )
    found = {
        name: float(sum(parts.amount(p) for p in inside if p in parts))
        for name, inside in TOGETHER.items()
    }
    found["activations"] = parts.total - sum(found.values())
    return {name: amount for name, amount in found.items() if amount}


@experiment(
    "gpus",
    "What each GPU must hold to train a model",
    Choice("model", "Model", specs.titled("models", MODELS), "llama2-7b"),
    doubling("gpus", "Number of GPUs", 1, 1024, 8),
    Choice("device", "GPU model", specs.titled("devices", DEVICES), "a100-80gb"),
    code=(held, fit.training),
)
def on_each_gpu(model: str, gpus: int, device: str) -> str:
    chip, name = specs.find_device(device), specs.find_model(model).title
    rows = [(words, held(model, gpus, stage)) for stage, words in enumerate(STAGES)]
    good = [stage for stage, (_, parts) in enumerate(rows) if sum(parts.values()) <= chip.room]
    where = "one GPU" if gpus == 1 else f"{gpus:,} GPUs"
    say = f"<b>does not fit</b> on {where}, whatever ZeRO shards"
    if good:
        how = (
            "without ZeRO"
            if good[0] == 0
            else f"with ZeRO stage {good[0]}{' or more' if good[0] < 3 else ''}"
        )
        say = f"<b>fits {how}</b> on {where}"
    return f'<p class="mlx-say">{escape(name)} {say}.</p>' + svg.bars(
        rows,
        title=f"Memory of a GPU that trains {name}",
        show=says.size,
        limit=chip.room,
        limit_label=chip.title,
    )


def _each(devices: int) -> str:
    return "one device" if devices == 1 else f"each of {devices:,} devices"
