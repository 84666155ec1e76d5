"""The package's own example does what it says."""

import textwrap

import mathlib.prover


def test_the_example_runs_and_its_comments_are_right():
    text = mathlib.prover.__doc__.partition("\n")[2]
    lines = [line for line in text.splitlines() if line.startswith("    ") or not line]
    names: dict = {}
    exec(textwrap.dedent("\n".join(lines)), names)
    assert names["prove"](names["one"]).equal
    found = names["prove"](names["one"], names["Mine"])
    assert str(found.first).startswith("gradient of layers.1.key_norm (rank 0, ")
