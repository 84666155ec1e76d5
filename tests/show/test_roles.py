"""A look is said by the exact name, and no two names in a picture share one."""

import pytest

from mathlib.show import roles, svg
from mathlib.show.roles import PART_ROLES, ROLES, UNNAMED, look, looks


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("weights", "weights"),
        ("weights, forward", "weights"),  # no forward-blue, no backward-green
        ("weights, backward", "weights"),
        ("attention projections", "attention"),
        ("optimizer states", "optimizer"),
        ("recomputation", "recompute"),
    ],
)
def test_a_part_has_the_colour_of_its_role(name, role):
    assert look(name) == ROLES[role]


@pytest.mark.parametrize("name", ["my weights", "Weights", "optimizer (sharded)", "", "ruler"])
def test_nothing_is_guessed_from_a_name(name):
    assert look(name) == UNNAMED
    assert UNNAMED not in ROLES.values(), "a reader would take it for a role"


def test_two_names_of_a_role_keep_the_colour_and_change_the_hatch():
    found = looks(["weights, forward", "weights, backward", "gradients"])
    assert (
        found["weights, forward"] == ROLES["weights"] and found["gradients"] == ROLES["gradients"]
    )
    assert found["weights, backward"][0] == ROLES["weights"][0]
    assert len(set(found.values())) == 3


def test_as_many_names_as_there_are_hatches_are_told_apart():
    names = [f"p{i}" for i in range(len(roles.HATCHES) + 1)]
    assert len(set(looks(names).values())) == len(names)
    assert list(looks(["b", "a", "b"])) == ["b", "a"], "in the order in which they come"


def test_every_name_leads_to_a_role_and_every_hatch_can_be_drawn():
    assert set(PART_ROLES.values()) <= set(ROLES)
    assert not set(PART_ROLES) & set(ROLES), "a role's own name needs no second word"
    written = [name for names in roles.PARTS.values() for name in names]
    assert len(written) == len(PART_ROLES), "a name stands twice"
    for _, hatch in [*ROLES.values(), *svg.SPARE]:
        assert hatch in {"", *roles.HATCHES}
