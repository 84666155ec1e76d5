"""What a cell needs of those above it, and what it shows: print, value, failure."""

import json

import pytest

from mathlib.show import cells

IMPORTS = "import json, math\nfrom mathlib import units\nimport missing"
PAGE = [IMPORTS, "r = 2\n", "def area(r):\n    return PI * r**2", "PI = 3", "r += 1", "area(r)"]


@pytest.mark.parametrize(
    ("sources", "needs"),
    [
        (["a = 1", "b = 2", "print(a)"], {0}),
        (["a = 1", "a = 2", "a"], {1}),
        (["a = 1", "b = a", "c = b", "c"], {0, 1, 2}),
        (["a = 1", "a += 1", "a"], {0, 1}),
        (["n = 1", "[n for n in range(3)]"], set()),
        (["n = 1", "for n in range(3):\n    print(n)"], set()),
        (["n = 1", "n = 2\nprint(n)"], set()),
        (["n = 1", "print(n)\nn = 2"], {0}),
        (["n = 1", "lambda n: n"], set()),
        (["n = 1", "class A:\n    n = 2\n    m = n"], set()),
        (["n = 1", "m = [n for n in range(3)] + [n]"], {0}),
        (["n = 1", "def f(a, *b, c=1, **d):\n    n = a\n    return n"], set()),
        (["n = 1", "f = {n: n + k for k in range(3)}"], {0}),
        (["n = 1", "def f():\n    def g():\n        return n\n    return g"], {0}),
        (["f = 1", "def f(): return f"], set()),
        (["n = 1", "def f():\n    return n", "f()"], {0, 1}),
        (["n = 1", "class A:\n    x = n", "A()"], {0, 1}),
        (["from math import pi", "2 * pi"], {0}),
        (["1 +", "2"], {0}),
    ],
)
def test_a_cell_needs_the_last_that_binds_what_it_reads(sources, needs):
    at = len(sources) - 1
    assert {i for i, _ in cells.needed(sources, at)} == needs | {at}


def test_an_import_that_nobody_needs_is_left_out():
    assert cells.imported([IMPORTS, "math.pi"], 1) == {"math"}
    assert cells.run([IMPORTS, "print(math.tau > 6)"], 1) == ("True\n", None, "")
    assert cells.imported([IMPORTS], 0) == {"json", "math", "mathlib.units", "missing"}
    assert "No module named 'missing'" in cells.run([IMPORTS], 0)[2]


def test_the_last_line_is_the_value_and_only_the_last_cell_prints():
    assert cells.run(["print(1)\na = 2", "print(a)\na + 1"], 1) == ("2\n", 3, "")


def test_what_a_function_reads_may_come_after_it():
    assert cells.run(PAGE, 5) == ("", 27, "")
    printed, value, failed = cells.run([*PAGE[:-1], "from math import pi as PI", "area(r)"], 6)
    assert (printed, failed) == ("", "") and value == pytest.approx(28.27, abs=0.01)
    assert "name 'PI' is not defined" in cells.run([*PAGE[:3], "area(r)"], 3)[2]


def test_a_failure_begins_in_the_cells_and_shows_their_lines():
    said = cells.run(["def half(x):\n    return 1 / x", "print(1)\nhalf(0)"], 1)[2]
    assert said.startswith(
        'Traceback (most recent call last):\n  File "this cell", line 2, in <mod'
    )
    assert 'File "cell 1 of this page", line 2, in half\n    return 1 / x\n' in said
    assert said.endswith("ZeroDivisionError: division by zero\n")
    assert cells.run(["1 +"], 0)[2].startswith('  File "this cell", line 1\n    1 +\n')
    assert cells.run(["raise SystemExit(3)"], 0)[2].endswith("SystemExit: 3\n")


def test_an_answer_is_html_and_what_is_too_long_is_cut():
    answer = cells.answer(json.dumps(["print('<b>')\n'a < b'"]), 0)
    assert '<div class="output stream"><pre>&lt;b&gt;\n</pre></div>' in answer
    assert '<div class="output text_plain"><pre>&#x27;a &lt; b&#x27;</pre></div>' in answer
    assert cells.answer(json.dumps(["a = 1"]), 0) == ""
    table = "from mathlib.show import table\ntable(['a', 'b'], [[1, 2]])"
    assert "<table" in cells.answer(json.dumps([table]), 0)
    long = cells.answer(json.dumps(["print('x' * 30_000)"]), 0)
    assert len(long) < 21_000 and "... and 10,001 characters more" in long
    assert "output error" in cells.answer(json.dumps(["1 / 0"]), 0)
