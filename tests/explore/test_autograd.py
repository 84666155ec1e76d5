"""Gradients arriving one by one: torch's own at the end, none before its step."""

import re

import pytest
from charts import SPACE, drawn, unreadable, words

from mathlib.explore.autograd import squared_error
from mathlib.show.experiments import find
from mathlib.show.roles import ROLES


def shown(**values):
    return find("backward").run(values)


def marked(html):
    fills = [rect.get("fill") for rect in drawn(html).iter(f"{SPACE}rect")]
    return fills.count(ROLES["gradients"][0])


@pytest.mark.parametrize("step", range(8))
def test_a_step_colours_one_value_more(step):
    html = shown(step=step)
    noted = sum(word.startswith("G = ") for word in words(drawn(html)))
    assert marked(html) == noted == step and f"<b>{step} of 7</b>" in html


def test_the_values_are_those_of_torch():
    torch = pytest.importorskip("torch")
    x, t = 1.5, 1.0
    w, b = (torch.tensor(v, requires_grad=True) for v in (1.0, 0.5))
    loss = (torch.relu(w * x + b) - t) ** 2
    loss.backward()
    made = squared_error(x, 1.0, 0.5, t)
    gradients = made["loss = e e"].backward()
    assert made["loss = e e"].rows[0][0] == loss.item()
    assert [gradients[made[name]][0][0] for name in "wb"] == [w.grad.item(), b.grad.item()]
    noted = " | ".join(words(drawn(shown(x=x, w=1.0, b=0.5, t=t, step=7))))
    for lines in ("loss = e e | 1 | G = 1", "w | 1 | G = 3", "b | 0.5 | G = 2"):
        assert lines in noted


def test_a_dead_relu_is_told_once_it_matters():
    why = "relu passes nothing back"
    assert why in shown(x=1.0, w=-2.0, b=0.0, step=4)
    assert why not in shown(x=1.0, w=-2.0, b=0.0, step=3), "nothing has passed it yet"
    assert why not in shown(x=1.0, w=2.0, b=0.0, step=7)


def test_a_value_that_goes_in_twice_has_one_arrow():
    """e times e arrives twice at e."""
    made = squared_error(1.0, 1.0, 1.0, 1.0)
    vjps = sum(len(value.vjps) for value in made.values())
    arrows = len(re.findall(r'd="M[^"]*L[^"]*" stroke=', shown())) // 2  # in two widths
    assert (vjps, arrows) == (9, 8)


def test_the_last_one_is_named_and_every_box_has_a_name_of_its_own():
    lasts = ["loss = e e", "e", "relu", "w x + b", "b", "w x", "w"]
    for step, name in enumerate(lasts, 1):
        assert f"The last one, at {name}: G = " in shown(step=step)
    told = drawn(shown()).findtext(f"{SPACE}desc")
    assert "w x leads to w;" in told and "w x + b leads to b;" in told


def test_nothing_leaves_the_picture_at_any_setting():
    for x in (-2.0, 0.5, 2.0):
        for w in (-1.5, 1.5):
            assert not unreadable(shown(x=x, w=w, b=-1.5, t=-1.5, step=7))
