"""A config notes what was asked for; what nobody asked for and might count is refused."""

import pytest

from mathlib.checks import InputError
from mathlib.from_config import asked
from mathlib.from_config.asked import Asked


def test_a_size_is_found_whatever_its_type_calls_it():
    for name in asked.NAMES["width"]:
        assert Asked({name: 48}).size("width") == 48
    assert Asked({"hidden_size": None, "n_embd": 48}).size("width") == 48
    assert Asked({}).size("context", 2048) == 2048
    with pytest.raises(InputError, match="expected num_hidden_layers, which is not there"):
        Asked({}).size("layers")


def test_null_is_a_value_and_the_default_for_what_is_not_there():
    assert Asked({"head_dim": None}).get("head_dim", 64) is None
    assert Asked({}).get("head_dim", 64) == 64


def test_a_key_must_have_a_value_that_is_understood():
    config = Asked({"alibi": False})
    config.must("qk_ln", False)
    with pytest.raises(InputError, match="alibi = False is not covered; expected True"):
        config.must("alibi", True)


def test_what_is_left_over_and_switched_on_is_refused():
    config = Asked({"model_type": "x", "off": False, "rope_theta": 1e4, "known": 3, "idle": 2})
    config.get("known")
    with pytest.raises(InputError, match="idle = 2 is not understood"):
        config.refuse_the_rest()
    config.without_effect("idle")
    config.refuse_the_rest()


def test_a_reader_is_found_by_each_of_its_types(monkeypatch):
    monkeypatch.setattr(asked, "READERS", {})

    @asked.reads("one", "two")
    def reader(config):
        return {}

    assert asked.READERS["one"] is asked.READERS["two"] is reader
