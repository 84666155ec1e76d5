"""Values and gradients are those of the graph, and arrive in its order."""

from charts import SPACE, drawn, said
from pictures import loss, two_layers

from mathlib.compute.autodiff import Value
from mathlib.meters.arrivals import Event
from mathlib.show.roles import ROLES
from mathlib.show.schemes import autograd


def test_every_value_has_its_gradient():
    told = said(drawn(autograd.values_and_gradients(loss())))
    assert "w = 1, gradient 3" in told and "b = 0.5, gradient 2" in told
    assert "x = 1.5;" in told, "a value that needs none has none"


def test_a_gradient_comes_back_along_every_way_that_needs_one():
    chart = drawn(autograd.values_and_gradients(loss()))
    back = [p for p in chart.iter(f"{SPACE}path") if p.get("stroke") == ROLES["gradients"][0]]
    assert len(back) == 2 * 6, "six ways, each a line and a head"


def test_values_go_up_and_gradients_come_down():
    """As in the other pictures of the chapter."""
    chart = drawn(autograd.values_and_gradients(loss()))
    heights = {text.text: float(text.get("y")) for text in chart.iter(f"{SPACE}text")}
    assert heights["loss = e e"] < heights["e"] < heights["relu"] < heights["w x"] < heights["w"]


def test_a_matmul_is_paid_for_once_forward_and_once_a_factor_backward():
    told = said(drawn(autograd.work(two_layers())))
    assert told.startswith("Forward 32, backward 64: ")
    assert "H = X W1 to X 24, H = X W1 to W1 24" in told
    assert "Y = H W2 to H = X W1 8, Y = H W2 to W2 8, sum of Y to Y = H W2 0" in told


def test_nothing_is_paid_on_the_way_to_data():
    data, weights = Value([[1.0]], needs_grad=False), Value([[2.0]])
    matmul = data @ weights
    told = said(drawn(autograd.work({"x": data, "W": weights, "x W": matmul})))
    assert told == "Forward 1, backward 1: x W to W 1"


def test_what_was_made_last_is_first_and_a_leaf_comes_with_its_last_share():
    turns = said(drawn(autograd.order_of_arrival(loss()))).split("; then ")
    assert turns[0] == "loss = e e with 1, made as number 5" and turns[1].startswith("e with 2")
    assert turns[4:] == ["b with 2", "w x with 2, made as number 1", "w with 3"]


def test_a_parameter_used_twice_has_a_hollow_mark_where_its_first_share_comes():
    events = [
        Event("saved", "a", 8),
        Event("turn", "loss"),
        Event("share", "a", 4, "tied"),
        Event("released", "a", 8),
        Event("share", "a", 4, "tied"),
        Event("gradient", "a", 4, "tied"),
    ]
    chart = drawn(autograd.lives(events, ["a", "loss"]))
    marks = [
        (rect.get("fill"), float(rect.get("x")))
        for rect in chart.iter(f"{SPACE}rect")
        if rect.findtext(f"{SPACE}title") == "tied"
    ]
    (full, late), (hollow, early) = marks
    assert (full, hollow) == (ROLES["gradients"][0], "none") and early < late
    assert said(chart) == "a: at most 8 B, last gradient is number 1; loss: at most 0 byte"


def test_a_node_bears_its_turn_and_only_parameters_have_the_colour_of_gradients():
    eager = [(0, "Sum"), (1, "Mul"), (2, "w")], [(0, 1), (1, 2)], [0, 1, 2]
    compiled = [(0, "All"), (1, "w"), (2, "b")], [(0, 1), (0, 2)], [0, 2, 1]
    chart = drawn(autograd.turns({"eager": eager, "compiled": compiled}))
    assert said(chart) == "eager: Sum, Mul, w; compiled: All, b, w"
    words = [text.text for text in chart.iter(f"{SPACE}text")]
    places = {at: words[words.index(name) + 1] for at, name in (("Sum", "Sum"), ("b", "b"))}
    assert places == {"Sum": "1.", "b": "2."}
    drawn_in = [rect.get("stroke") for rect in chart.iter(f"{SPACE}rect")]
    assert drawn_in.count(ROLES["gradients"][0]) == 3, "w, and again w and b"
