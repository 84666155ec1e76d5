"""Each shell completes what the parser takes: commands, options, and the names behind them."""

import shlex
import shutil
import subprocess
from functools import cache

import pytest
from command_line import ended
from patience import PATIENCE

from mathlib.cli import completion
from mathlib.cli.registry import MODULES
from mathlib.cli.usage import parser_of
from mathlib.specs import table

CASES = {  # what is typed, the last word begun: all that it can become
    "": [*MODULES, "--help", "--version", "--completion"],
    "mem": ["memory"],
    "memory llama3-8": ["llama3-8b"],
    "memory ": list(table("models")),
    "memory gpt2 --zer": ["--zero"],
    "memory gpt2 --zero ": ["0", "1", "2", "3"],
    "memory gpt2 --recompute f": ["full"],
    "memory --layers ": [],
    "time llama3-8b --device h100": ["h100-sxm", "h100-pcie"],
    "time gpt2 --program meg": [n for n in table("calibrations")["programs"] if n[:3] == "meg"],
    "compare llama3-8": ["llama3-8b"],
    "devices h200": ["h200-sxm"],
    "schema pl": ["plan"],
    "grade scat": ["scatter-gather"],
}
SCRIPT = cache(completion.script)
ASKED = {  # how a shell is asked
    "bash": """{script}
        COMP_WORDS=(mathlib {before} {last}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _mathlib
        printf '%s\\n' "${{COMPREPLY[@]}}" """,
    "zsh": """compdef() {{ }}; compset() {{ }}; compadd() {{ shift; found=("$@") }}; _files() {{ }}
        {script}
        words=(mathlib {before} {last}); CURRENT=$#words; _mathlib
        for one in $found; do [[ $one == {last}* ]] && print -r -- $one; done; true""",
    "fish": "{script}\ncomplete -C 'mathlib {before} {typed}'",
}


def asked(shell, line):
    """What it completes, without what is said of each."""
    *before, last = line.split(" ")
    text = ASKED[shell].format(
        script=SCRIPT(shell),
        before=shlex.join(before),
        last=shlex.quote(last),
        typed=last,
    )
    words = {"bash": ["--norc", "-s"], "zsh": ["-f", "-s"], "fish": ["--no-config"]}[shell]
    done = subprocess.run(
        [shell, *words],
        input=text,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0 and not done.stderr, done.stderr
    return [one.partition("\t")[0] for one in done.stdout.splitlines() if one]


@pytest.mark.parametrize("shell", ASKED)
def test_a_shell_completes_it(shell, tmp_path, monkeypatch):
    if not shutil.which(shell):
        pytest.skip(f"needs {shell}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for line, wanted in CASES.items():
        options = () if shell != "fish" else ("--help", "--version", "--completion")
        assert set(asked(shell, line)) == set(wanted) - set(options), line
    for name in MODULES:
        found = set(asked(shell, f"{name} --"))
        known = {word for word in parser_of(name)._option_string_actions if word[:2] == "--"}
        assert found == known, name


def test_bash_completes_what_stands_behind_an_equals_sign():
    assert asked("bash", "time --device = h200") == ["h200-sxm"]
    assert "h200-sxm" in asked("bash", "time --device =")


@pytest.mark.parametrize("shell", ASKED)
def test_every_option_and_name_stands_in_the_script(shell, capsys):
    code, out, err = ended(f"--completion {shell}", capsys)
    assert (code, err) == (0, "")
    words = set(out.replace("'", " ").replace('"', " ").split())
    short = "" if shell != "fish" else "--"
    for name in MODULES:
        options = parser_of(name)._option_string_actions
        known = {word.removeprefix(short) for word in options if word.startswith("--")}
        assert known <= words and name in words
    assert set(table("models")) | set(table("devices")) | set(table("clusters")) <= words


def test_another_shell_is_refused(capsys):
    for line in ("--completion tcsh", "--completion", "--completion bash zsh"):
        code, out, err = ended(line, capsys)
        assert (code, out) == (2, "") and err.startswith("mathlib: error: --completion = ")
