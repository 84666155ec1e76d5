"""Values and gradients are those of the graph, and arrive in its order."""

from charts import SPACE, drawn, said
from pictures import loss

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


def test_the_loss_is_first_and_the_leaves_are_last():
    told = said(drawn(autograd.order_of_arrival(loss())))
    assert told.startswith("L = e e with 1, then e with 2")
    assert set(told.rsplit(", then ", 2)[1:]) == {"w with 3", "b with 2"}
