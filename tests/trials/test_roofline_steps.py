"""Published steps by cause: the parts add up, and the fit finds what it is given."""

import pytest

from mathlib import specs
from mathlib.trials import roofline_steps as study

RUN = ("h100-sxm", "125m", 2048, 2, 3, 1e5)


@pytest.fixture(scope="module")
def one():
    return study.step(*RUN)


def test_a_step_lasts_as_long_as_its_tokens_say(one):
    assert one.real == 8 * 2 * 3 * 2048 / 1e5
    once = study.step(*RUN[:4], 1, RUN[5])
    assert one.matmuls == 3 * once.matmuls and one.messages == 3 * once.messages
    assert one.elementwise < 3 * once.elementwise, "Adam comes once"
    assert one.promised > one.matmuls + one.attention and one.mfu == one.ideal / one.real


def made(one, size, **more):
    """A step that takes 5, 4 and 2 times what the roofline adds up."""
    one = one._replace(size=size, **more)
    return one._replace(
        real=one.matmuls + 5 * one.elementwise + 4 * one.attention + 2 * one.messages
    )


def test_the_fit_finds_the_constants_of_other_sizes(one):
    fields = {part: 3 * getattr(one, part) for part in study.FITTED}
    found = [made(one, "s")] + [made(one, part, **{part: fields[part]}) for part in fields]
    assert study.constants(found, "s") == pytest.approx([5, 4, 2])
    assert study.foreseen(found) == pytest.approx([1] * 4, rel=1e-6)
    step, caused = study.causes(found, "s")
    assert sum(caused.values()) == pytest.approx(step.real)
    assert caused["unexplained"] == pytest.approx(0, abs=1e-9 * step.real)
    assert sum(study.shares(found, "s")[1].values()) == pytest.approx(1)
    assert study.down(found, "s")[-1][2] == f"{step.mfu:.1%}"
    assert 0 < study.least_kernels(found) < 1


def test_messages_and_what_a_layer_has_left():
    device = specs.find_device("a100-80gb")
    two, four = (study.messages(1e9, device, width) for width in (2, 4))
    assert four / two == pytest.approx(8 / 6), "gradients of 32 bits beside weights of 16, twice"
    left = [round(study.elementwise_left(fused), 1) for fused in (True, False)]
    assert left == [3.1, 1.8], "backward's all-reduces may take no time of their own"
