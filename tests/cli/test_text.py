"""Columns under their names, numbers with their units, and JSON that holds the same."""

import json

import pytest

from mathlib.cli import terminal, text
from mathlib.cli.typed import Typed
from mathlib.parts import Parts

STATES = Parts(
    "States",
    "byte",
    {
        "weights": 2_000_000_000,
        "optimizer": Parts("optimizer", "byte", {"first": 10, "second": 30}),
    },
)


def test_words_stand_to_the_left_and_numbers_to_the_right():
    assert text.columns(["name", "GB"], [["a100", "80"], ["b", "192"]]).splitlines() == [
        "name   GB",
        "----  ---",
        "a100   80",
        "b     192",
    ]


def test_a_column_is_as_wide_as_its_widest_cell_and_lines_end_where_they_end():
    lines = text.columns(["a", "b"], [["long name", ""], ["x", "y"]]).splitlines()
    assert lines[0] == "a          b" and lines[1] == "---------  -"
    assert lines[2] == "long name" and lines[3] == "x          y"


def test_a_table_without_rows_is_its_head():
    assert text.columns(["a", "bc"], []).splitlines() == ["a  bc", "-  --"]


def test_parts_are_unfolded_as_deep_as_asked_and_end_in_their_total():
    flat = text.parts_table(STATES, 1).splitlines()
    assert [line.split()[0] for line in flat[2:]] == ["weights", "optimizer", "total"]
    deep = text.parts_table(STATES, 2).splitlines()
    assert [line.rstrip().split("  ")[0] for line in deep[3:4]] == ["optimizer"]
    assert deep[4].startswith("  first") and deep[5].startswith("  second")
    assert deep[-1].split()[:2] == ["total", "2,000,000,040"] and deep[-1].endswith("100.0%")


def test_a_head_says_whether_numbers_are_exact():
    assert "exact" in text.parts_table(STATES, 1).splitlines()[0]
    halves = Parts("h", "byte", {"a": 0.5})
    assert "number" in text.parts_table(halves, 1).splitlines()[0]


def test_a_sum_of_nothing_has_shares_of_nothing():
    assert text.parts_table(Parts("n", "byte", {"a": 0}), 1).splitlines()[-1].endswith("0.0%")


@pytest.mark.parametrize(
    ("fact", "line"),
    [
        (("size", 16e9, "byte"), "size  16 GB"),
        (("size", 1_557_611_200, "parameter"), "size  1.558B (1,557,611,200)"),
        (("size", 999, "parameter"), "size  999"),
        (("size", 1.5e9, "parameter"), "size  1.5B"),  # no count, so no exact number
        (("size", 12345.6, "hours"), "size  12,346 hours"),
        (("size", 0.98765, ""), "size  0.9877"),
    ],
)
def test_a_fact_is_said_with_its_unit_and_exactly_where_it_is_a_count(fact, line):
    assert text.facts_table([fact]) == line


def test_facts_stand_under_each_other():
    lines = text.facts_table([("a", 1e9, "byte"), ("longer", 2.0, "second")]).splitlines()
    assert lines == ["a       1 GB", "longer  2 s"]


def test_facts_as_data_say_their_unit_even_without_one():
    facts = text.facts_dict([("a", 1e9, "byte"), ("b", 2.0, "")])
    assert facts == {"a": {"value": 1e9, "unit": "byte"}, "b": {"value": 2.0, "unit": "ratio"}}


def test_an_answer_is_text_for_people_and_the_same_as_json(capsys):
    facts = [("per token", 6.0, "FLOP")]
    text.answer(Typed({"json": False, "depth": 1}), STATES, facts, verdict="It fits.")
    said = capsys.readouterr().out
    assert said.startswith("States\n\npart") and said.endswith("per token  6 FLOP\n\nIt fits.\n")
    text.answer(Typed({"json": True, "depth": 1}), STATES, facts, verdict="It fits.")
    data = json.loads(capsys.readouterr().out)
    assert data["total"] == STATES.total and data["verdict"] == "It fits."
    assert data["also"]["per token"] == {"value": 6.0, "unit": "FLOP"}


def test_json_refuses_what_is_no_number():
    with pytest.raises(ValueError, match="JSON"):
        text.show(Typed({"json": True}), "", {"a": float("nan")})


def test_one_thing_and_several_things():
    assert [text.counted(n, "group") for n in (0, 1, 1.0, 2, 1234)] == [
        "0 groups",
        "1 group",
        "1 group",
        "2 groups",
        "1,234 groups",
    ]


def test_names_stand_to_the_left_even_if_one_begins_with_a_digit():
    said = text.columns(("name", "n"), [("13b", "7"), ("long name", "12")], 80).splitlines()
    assert said[2] == "13b         7" and said[3] == "long name  12"
    assert text.columns(("n", "m"), [("7", "1"), ("12", "1")], 80).splitlines()[2] == " 7  1"


def test_a_sentence_stands_to_the_left_though_it_begins_with_a_number():
    said = text.columns(("a", "why"), [("b", "as quick"), ("c", "0.4% slower: bubble")], 80)
    assert said.splitlines()[2] == "b  as quick"
    assert (
        text.columns(("a", "n"), [("b", "7 GB"), ("c", "34.4 GB")], 80).splitlines()[2][3:]
        == "   7 GB"
    )


def test_a_long_fact_goes_on_in_the_next_line_of_a_narrow_terminal(monkeypatch):
    fact = ("share of the peak that matmuls reach, here 0.7", 0.1, "")
    assert text.facts_table([fact]).count("\n") == 0 and text.facts_table([]) == ""
    monkeypatch.setattr(terminal, "width", lambda: 40)
    lines = text.facts_table([fact]).splitlines()
    assert len(lines) == 2 and max(map(len, lines)) <= 40 and lines[1].endswith("  0.1")
