"""The experiment of the autograd chapter: gradients arriving, value by value."""

from mathlib.compute.autodiff import Value
from mathlib.show.drawing import drawing
from mathlib.show.equation import equation, plain
from mathlib.show.experiments import Range, experiment


def squared_error(x: float, w: float, b: float, t: float) -> dict[str, Value]:
    """Every value of L = (relu(w x + b) - t)^2, in the order in which it is made."""
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
    made["L = e e"] = made["e"] * made["e"]
    return made


@experiment(
    "backward",
    "Backward, one value at a time",
    Range("x", "Input x", -2.0, 2.0, 0.5, 1.5),
    Range("w", "Weight w", -2.0, 2.0, 0.5, 1.0),
    Range("b", "Bias b", -2.0, 2.0, 0.5, 0.5),
    Range("t", "Target t", -2.0, 2.0, 0.5, 1.0),
    Range("step", "Backward steps done", 0, 7, 1, 3),
    code=(squared_error, Value.__mul__, Value.backward),
)
def backward(x: float, w: float, b: float, t: float, step: int) -> str:
    made = squared_error(x, w, b, t)
    name, loss = {value: word for word, value in made.items()}, made["L = e e"]
    gradients = loss.backward()
    done = [value for value in reversed(loss.graph()) if value in gradients][:step]
    notes = {}
    for i, (word, value) in enumerate(made.items()):
        notes[i] = f"{word} = {plain(value.rows[0][0])}" if value.by else plain(value.rows[0][0])
        if value in done:
            notes[i] += f", G = {plain(gradients[value][0][0])}"
    number = {value: i for i, value in enumerate(made.values())}
    edges = [
        (number[value], number[parent])
        for value in made.values()
        for parent, _ in dict(value.pulls).items()
    ]
    labels = {i: value.by or name[value] for value, i in number.items()}
    picture = drawing(
        labels,
        edges,
        title="The graph of the loss",
        notes=notes,
        marked={number[v]: "gradients" for v in done},
    )
    last = "Nothing has moved yet."
    if done:
        last = f"The last one: dL/d({name[done[-1]]}) = {plain(gradients[done[-1]][0][0])}."
    dead = made["w x + b"].rows[0][0] <= 0
    why = " relu passes nothing back, for its input is not positive." if dead and step > 3 else ""
    law = equation(
        "G_w = 2 * e * slope * x",
        G_w=gradients[made["w"]][0][0],
        e=made["e"].rows[0][0],
        slope=0 if dead else 1,
        x=x,
    )
    return (
        f'<p class="mlx-say"><b>{step} of 7</b> gradients have arrived. {last}{why}</p>'
        f"{picture}{law}"
    )
