"""The help fits the terminal and can be pasted; an option that is none comes with the one meant."""

import pytest
from command_line import COMMANDS, EXAMPLES

from mathlib.cli import terminal
from mathlib.cli.options import FLAGS, SHAPES


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_examples(run, command):
    code, out, _ = run(f"{command} --help")
    assert code == 0 and f"  mathlib {command}" in out.split("examples:")[1]
    assert run("--help")[0] == 0 and command in run("--help")[1]


@pytest.mark.parametrize("columns", [72, 80, 120])
@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_fits_the_terminal_and_says_first_what_must_be_typed(
    run, monkeypatch, command, columns
):
    monkeypatch.setattr(terminal, "width", lambda: columns)
    lines = run(f"{command} --help")[1].splitlines()
    assert all(len(line) <= columns for line in lines), [x for x in lines if len(x) > columns]
    assert lines[0].startswith(f"usage: mathlib {command}") and "[options]" in lines[0]
    assert not command or lines[1] == "" and lines[2][0].isupper(), "the usage is one line"


def test_the_usage_names_what_has_to_be_given(run):
    first = {name: run(f"{name} --help")[1].splitlines()[0] for name in COMMANDS}
    assert first["groups"] == "usage: mathlib groups --world N [options]"
    assert first["comm"] == "usage: mathlib comm collective [model] [options]"
    assert first["cost"] == "usage: mathlib cost [model] --train TOKENS --device NAME [options]"
    assert first["why"] == "usage: mathlib why command ... [options]"


def test_what_is_seldom_typed_stands_last(run):
    told = run("memory --help")[1]
    titles = ["\noptions:", "\nlayout:", f"\n{SHAPES}:", f"\n{FLAGS}:", "\nexamples:"]
    places = [told.index(title) for title in titles]
    assert places == sorted(places)


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_an_example_of_the_help_can_be_pasted(run, monkeypatch, columns):
    monkeypatch.setattr(terminal, "width", lambda: columns)
    pasted = set()
    for command in {line.split()[0] for line in EXAMPLES}:
        told = run(f"{command} --help")[1].split("examples:\n")[1]
        pasted |= {" ".join(x.split()) for x in told.replace("\\\n", "").splitlines()}
    assert {f"mathlib {line}" for line in EXAMPLES} <= pasted


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("memory llama2-7b --stage 3", "--zero for a stage of ZeRO, --pipeline-stage for"),
        ("memory llama2-7b --tp 8", "here it is --tensor"),
        ("memory llama2-7b --recompte full", "did you mean --recompute"),
        ("memory llama2-7b --seq-parallel", "did you mean"),
        ("memory llama2-7b extra", "unrecognized arguments: extra"),
    ],
)
def test_an_option_that_is_none_comes_with_what_is_meant(run, line, told):
    code, _, err = run(line)
    assert code == 2 and told in err and err.count("\n") == 1
