"""An endless loop ends with a message, the same everywhere, and a debugger is left as it was."""

import sys

import pytest

from mathlib.workshop.steps import FILE, Fault, Steps


def ran(text):
    with Steps("rank 3").counted():
        exec(compile(text, FILE, "exec"), {})


@pytest.mark.parametrize(
    "loop",
    [
        "while True: pass",
        "while True:\n    try:\n        x = 1\n    except Exception:\n        pass",
        "[0 for _ in iter(int, 1)]",
        "def f():\n    while True:\n        yield\nfor _ in f(): pass",
    ],
)
def test_an_endless_loop_ends(loop):
    with pytest.raises(Fault, match=r"rank 3 has done 1,000,000 steps and is in line \d"):
        ran(loop)


def test_a_long_loop_is_none():
    ran("for i in range(90_000):\n    i += 1")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\ny = x / 0", "rank 3, line 2: ZeroDivisionError: division by zero"),
        ("x = 1\nx = (", "line 2: SyntaxError: '(' was never closed"),
        ("import sys\nsys.exit(4)", "line 2: SystemExit: 4"),
        (
            "from mathlib.workshop.tensor import zeros\n\nzeros(2) + zeros(3)",
            "line 3: tensor of 2",
        ),
    ],
)
def test_what_goes_wrong_names_the_line(text, said):
    with pytest.raises(Fault) as found:
        ran(text)
    assert said in str(found.value)


def test_somebody_elses_trace_stays():
    def mine(*_):
        return None

    before = sys.gettrace()
    sys.settrace(mine)
    try:
        ran("x = 1")
        assert sys.gettrace() is mine
        with pytest.raises(Fault):
            ran("1 / 0")
        assert sys.gettrace() is mine
    finally:
        sys.settrace(before)


def test_the_library_s_own_steps_do_not_count():
    steps = Steps("rank 0")
    with steps.counted():
        sum(i for i in range(1000))
    assert steps.count == 0
