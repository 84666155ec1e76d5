"""An adapter, roles by phase, and weights on their way."""

import pytest
from charts import drawn, said, words

from mathlib.checks import InputError
from mathlib.memory.preference import METHODS
from mathlib.show.schemes import after


def test_roles_do_one_thing_in_each_phase():
    for method in METHODS:
        found = after.acts(method)
        assert len({len(did) for did in found.values()}) == 1
        trains = [role for role, did in found.items() if "trains" in did]
        assert trains == [role for role in found if role in ("policy", "critic")]
    assert after.acts("dpo")["policy"] == ["rests", "trains"]
    assert after.acts("ppo")["critic"] == ["rests", "scores", "rests", "trains"]
    with pytest.raises(InputError, match="method"):
        after.roles("rlhf")


def test_apart_writers_get_a_copy_each():
    shown = drawn(after.sent(3, 1))
    assert "3 gather and 1 of them send K" in said(shown) and words(shown).count("writer 0") == 1
    assert "W" in words(drawn(after.beside()))
