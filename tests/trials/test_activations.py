"""Recomputation on the two small models: runs are as planned, and a wrong program is seen."""

import pytest

from mathlib.trials import activations
from mathlib.trials.activations import Run


def test_every_form_and_policy_is_as_planned():
    for found in (activations.forms(), activations.every_policy()):
        assert all(planned == ran for planned, ran in found.values())
    repeated = {name: ran for name, (_, ran) in activations.forms().items()}
    assert repeated["library"] == repeated["torch, not reentrant"] < repeated["hooks"]


def test_a_lost_or_a_wrong_tensor_is_seen():
    assert not activations.equal("new", lambda layer, x: layer(1.001 * x))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(activations.FORMS, "hooks", lambda layer, x: layer(x.detach()))
        with pytest.raises(AssertionError, match="hooks"):
            activations.forms()


@pytest.mark.parametrize("share", [0.3, 0.8])
def test_the_best_choice_for_a_budget_is_as_planned(share):
    planned, ran = activations.within(share)
    assert planned == ran
    assert ran.bytes <= activations.counted("new").bytes


def test_rules_of_one_line():
    dropped, matmuls = (activations.counted("new", wrap) for wrap in activations.RULES.values())
    assert dropped.flop == activations.planned("new", "full").flop and matmuls.flop == 0
    rows = activations.by_rule().values()
    assert [round(one.flop / 2**20) for one in rows] == [162, 84, 60, 0]
    planned, ran = activations.useless(activations.RULES["results of matmuls: kept"])
    assert planned == ran
    assert activations.useless(activations.by_policy("new", "matmuls"))[1] == Run(0, 0)


def test_three_steps_shrink():
    line = activations.three_steps()
    tops = [max(line.total(row) for row in range(*span)) for span in line.steps()]
    assert tops == sorted(tops, reverse=True) and tops[0] > 3 * tops[2]
