"""The book's experiments, declared with their controls. Numbers come from the formulas, pictures from svg."""

from mathlib import units
from mathlib.show import svg
from mathlib.show.equation import equation
from mathlib.show.experiments import Choice, Range, Toggle, doubling, experiment

RECIPES = {  # bytes a parameter: weights, gradients, optimizer
    "mixed": ("Mixed precision, Adam: 2 + 2 + 12", {"weights": 2, "gradients": 2, "optimizer": 12}),
    "single": ("Single precision, Adam: 4 + 4 + 8", {"weights": 4, "gradients": 4, "optimizer": 8}),
    "sgd": ("Single precision, plain SGD: 4 + 4", {"weights": 4, "gradients": 4, "optimizer": 0}),
}


def state_bytes(parameters: float, recipe: str, ranks: int, sharded: bool) -> dict[str, float]:
    """Bytes of model states on one device: k * P, the optimizer's share divided by N where it is sharded (ZeRO-1)."""
    parts = RECIPES[recipe][1]
    return {name: k * parameters / (ranks if sharded and name == "optimizer" else 1) for name, k in parts.items()}


@experiment(
    "memory", "Does the training state fit the device?",
    Range("billions", "Parameters", 0.5, 30, 0.5, 7.0, "billion"),
    Choice("recipe", "Precision and optimizer", tuple((label, key) for key, (label, _) in RECIPES.items()), "mixed"),
    doubling("ranks", "Data-parallel devices", 1, 64, 8),
    Toggle("sharded", "Shard the optimizer over them (ZeRO stage 1)"),
    code=(state_bytes,),
)
def memory(billions: float, recipe: str, ranks: int, sharded: bool) -> str:
    limit = 80e9
    parts = state_bytes(billions * 1e9, recipe, ranks, sharded)
    whole = state_bytes(billions * 1e9, recipe, ranks, False)
    total = sum(parts.values())

    def show(value: float) -> str:
        return units.show(value, "byte")

    word = "fits" if total <= limit else "does not fit"
    say = f'<p class="mlx-say">{show(total)} of training state <b>{word}</b> a device with {show(limit)}.</p>'
    chart = svg.bars([("As set", parts), ("On every device whole", whole)], title="Training state on one device",
                     show=show, limit=limit, limit_label="memory of the device")
    k = sum(RECIPES[recipe][1].values())
    law = equation("M = k * P", M=(sum(whole.values()), show(sum(whole.values()))), k=(k, f"{k} bytes"),
                   P=(billions * 1e9, units.show(billions * 1e9, "parameter")))
    return say + chart + law
