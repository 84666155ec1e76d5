"""The experiment of the autograd chapter: gradients arriving, value by value."""

from mathlib.compute.autodiff import Value
from mathlib.show.drawing import drawing
from mathlib.show.equation import equation
from mathlib.show.experiments import Range, experiment
from mathlib.show.says import plain


def squared_error(x: float, w: float, b: float, t: float) -> dict[str, Value]:
    """Every value of loss = (relu(w x + b) - t)^2, in the order in which it is made."""
    made = {
        "x": Value(x, needs_grad=False),
        "w": Value(w),
        "b": Value(b),
        "-t": Value(-t, needs_grad=False),
    }
    made["w x"] = made["w"] * made["x"]
    made["w x + b"] = made["w x"] + made["b"]
    made["relu"] = made["w x + b"].relu()
    made["e"] = made["relu"] + made["-t"]
    made["loss = e e"] = made["e"] * made["e"]
    return made


@experiment(
    "backward",
    "Backward, one value at a time",
    Range("step", "Backward steps done", 0, 7, 1, 3),
    Range("x", "Input x", -2.0, 2.0, 0.5, 1.5),
    Range("w", "Weight w", -2.0, 2.0, 0.5, 1.0),
    Range("b", "Bias b", -2.0, 2.0, 0.5, 0.5),
    Range("t", "Target t", -2.0, 2.0, 0.5, 1.0),
    code=(squared_error, Value.__mul__, Value.backward),
)
def backward(step: int, x: float, w: float, b: float, t: float) -> str:
    made = squared_error(x, w, b, t)
    loss, before_relu = made["loss = e e"], made["w x + b"]
    gradients = {value: rows[0][0] for value, rows in loss.backward().items()}
    done = [value for value in reversed(loss.graph()) if value in gradients][:step]
    arrived = {value: gradients[value] for value in done}
    dead = before_relu.rows[0][0] <= 0
    law = equation(
        "G_w = 2 * e * slope * x",
        G_w=gradients[made["w"]],
        e=made["e"].rows[0][0],
        slope=0 if dead else 1,
        x=x,
    )
    last = "Nothing has moved yet."
    if done:
        name = {value: word for word, value in made.items()}[done[-1]]
        last = f"The last one, at {name}: G = {plain(gradients[done[-1]])}."
    why = ""
    if dead and step > 3:
        why = " relu passes nothing back, for its input is not positive."
    say = f'<p class="mlx-say"><b>{step} of 7</b> gradients have arrived. {last}{why}</p>'
    return say + _graph(made, arrived) + law


def _graph(made: dict[str, Value], arrived: dict[Value, float]) -> str:
    """The values and what led to them; coloured, with its gradient, where one has arrived."""
    number = {value: i for i, value in enumerate(made.values())}
    labels, notes = {}, {}
    for i, (word, value) in enumerate(made.items()):
        labels[i] = word
        notes[i] = plain(value.rows[0][0])
        if value in arrived:
            notes[i] += f", G = {plain(arrived[value])}"
    edges = [
        (number[value], number[parent])
        for value in made.values()
        for parent in dict(value.vjps)  # e e arrives twice at e: one arrow
    ]
    marked = {number[value]: "gradients" for value in arrived}
    return drawing(labels, edges, title="The graph of the loss", notes=notes, marked=marked)
