"""A config notes what was asked for; whatever is wrong with it is told at once."""

from mathlib.from_config import asked
from mathlib.from_config.asked import Asked


def test_a_size_is_found_whatever_its_type_calls_it():
    for name in asked.NAMES["width"]:
        assert Asked({name: 48}).size("width") == 48
    assert Asked({"hidden_size": None, "n_embd": 48}).size("width") == 48
    assert Asked({}).size("context", 2048) == 2048
    nothing = Asked({"num_hidden_layers": 10**9})
    assert [nothing.size("heads"), nothing.size("layers")] == [1, 1]  # the reader goes on
    assert nothing.problems == [
        "expected num_attention_heads, which is not there",
        "num_hidden_layers = 1000000000: expected at most 1,000,000",
    ]


def test_null_is_a_value_and_the_default_for_what_is_not_there():
    assert Asked({"head_dim": None}).get("head_dim", 64) is None
    assert Asked({}).get("head_dim", 64) == 64


def test_numbers_switches_and_lists_are_what_they_should_be():
    config = Asked({"none": None, "zero": 0, "word": "yes", "one": 1, "two": 2, "layers": 3})
    assert config.whole("none", 5, null=7) == 7 and config.whole("absent", 5) == 5
    assert config.whole("absent", 5, also="one") == 1 and config.whole("zero", 5, least=0) == 0
    assert config.switch("none", True, null=False) is False and config.switch("absent", True)
    assert config.many("none") is None and config.many("absent") is None and not config.problems
    config.whole("none", 5), config.whole("zero", 5), config.whole("one", 5, also="two")
    config.switch("word", True), config.switch("one", True), config.many("layers")
    assert config.problems == [
        "none = null: expected a whole number, 1 or greater",
        "zero = 0: expected a whole number, 1 or greater",
        "two = 2: expected the same as one",
        "word = 'yes': expected true or false",
        "one = 1: expected true or false",
        "layers = 3: expected a list",
    ]


def test_a_key_must_have_a_value_that_is_understood():
    config = Asked({"alibi": False})
    config.must("qk_ln", False)
    config.must("alibi", True)
    assert config.problems == ["alibi = False is not covered; expected True"]


def test_what_is_left_over_and_switched_on_is_named():
    config = Asked({"model_type": "x", "off": False, "rope_theta": 1e4, "known": 3, "idle": 2})
    config.get("known")
    assert config.unread() == ("idle",)
    config.without_effect("idle")
    assert config.unread() == ()


def test_a_reader_is_found_by_each_of_its_types(monkeypatch):
    monkeypatch.setattr(asked, "READERS", {})

    @asked.reads("one", "two")
    def reader(config):
        return {}

    assert asked.READERS["one"] is asked.READERS["two"] is reader
