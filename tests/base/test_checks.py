"""What an argument may be: every refusal is an InputError that names the argument, whichever
function is called.
"""

import importlib
import inspect
import math
import types
import typing
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mathlib import checks
from mathlib.checks import InputError
from mathlib.specs import Window

NUMBERS = st.one_of(
    st.integers(), st.floats(), st.booleans(), st.text(max_size=3), st.none(), st.fractions()
)
BORDERS = [checks.positive, checks.non_negative, checks.fraction, checks.whole]


@given(st.sampled_from(BORDERS), NUMBERS)
def test_a_check_returns_the_number_or_names_it(check, value):
    try:
        found = check("speed", value)
    except InputError as refused:
        assert "speed" in str(refused)
    else:
        assert (
            found == pytest.approx(value)
            and type(found) in (int, float)
            and not isinstance(value, bool)
        )
        assert abs(found) <= checks.LARGEST


@given(st.floats(allow_nan=False, allow_infinity=False, max_value=0, exclude_max=True))
def test_no_check_takes_a_negative(value):
    for check in BORDERS:
        with pytest.raises(InputError, match="speed"):
            check("speed", value)


def test_zero_is_a_number_of_things_only_where_it_is_asked_for():
    assert checks.non_negative("n", 0) == 0 and checks.whole("n", 0, least=0) == 0
    for check in (checks.positive, checks.fraction, checks.whole):
        with pytest.raises(InputError, match="^n = 0: "):
            check("n", 0)


def test_a_count_is_whole():
    assert checks.whole("layers", 2e9) == 2_000_000_000 and type(checks.whole("layers", 2e9)) is int
    with pytest.raises(InputError, match=r"^layers = 2.5: expected a whole number, 1 or greater$"):
        checks.whole("layers", 2.5)


def test_numpy_numbers_become_pythons_and_cannot_overflow():
    assert (
        type(checks.whole("n", np.int64(7))) is int
        and type(checks.positive("n", np.float32(0.5))) is float
    )
    assert checks.whole("n", np.int64(2**62)) * 4 == 2**64
    assert checks.positive("n", Fraction(1, 4)) == 0.25


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 10**400, -(10**400), 1e37])
def test_what_would_overflow_is_refused_in_one_short_line(value):
    for check in BORDERS:
        with pytest.raises(InputError, match="speed") as refused:
            check("speed", value)
        assert len(str(refused.value)) < 200


def test_a_near_miss_is_named():
    with pytest.raises(InputError, match="did you mean ring"):
        checks.one_of("algorithm", "rign", ["ring", "tree"])
    with pytest.raises(InputError, match="expected one of ring, tree"):
        checks.one_of("algorithm", "xyz", ["ring", "tree"])
    with pytest.raises(InputError, match=r"\(90 in all\)"):
        checks.one_of("model", "?", [f"m{i}" for i in range(90)])
    with pytest.raises(InputError):
        checks.one_of("zero", True, (0, 1, 2, 3))


@given(st.integers(1, 60), st.integers(1, 2000))
def test_a_degree_divides_or_the_accepted_ones_are_listed(degree, whole):
    try:
        assert whole % checks.divides("tensor", degree, "heads", whole) == 0
    except InputError as refused:
        assert (
            whole % degree
            and f"tensor = {degree}" in str(refused)
            and "accepted: 1" in str(refused)
        )


# ---- every public function, every argument

MODULES = ("compute.params", "compute.flops", "compute.cost")
EXAMPLES = {
    "model": "gpt2",
    "sequences": 2,
    "tokens": 16,
    "past": 3,
    "causal": False,
    "attention_backward": 2.5,
    "frozen": False,
    "recompute": "full",
    "convention": "counted",
    "early_stop": True,
    "total_tokens": 1e9,
    "parameters": 1e9,
    "multiplier": 6,
    "layers": 4,
    "width": 64,
    "heads": 4,
    "head_dim": 16,
    "vocab": 100,
    "context": 32,
    "rows": 2,
    "inner": 3,
    "columns": 4,
    "flop": 1e20,
    "seconds": 1e4,
    "devices": 8,
    "peak": 312e12,
    "achieved": 150e12,
    "utilization": 0.5,
    "tokens_per_second": 1e4,
    "before": 2.0,
    "after": 1.0,
    "work": 2.0,
    "device_hours": 100.0,
    "watts": 400,
    "pue": 1.1,
    "energy_kwh": 50.0,
    "kg_per_kwh": 0.4,
    "price_per_hour": 2.0,
    "size": 1e9,
    "bandwidth": 1e12,
    "clock": 1e9,
    "fused_per_clock": 64,
    "cores": 100,
    "attention": "full",
    "embedding": True,
    "logits": True,
    "softmax": True,
    "embeddings": "both",
    "rank": 4,
    "targets": ("query", "value"),
    "without": ("head",),
    "window": Window(4),
}
OWN_EXAMPLES = {
    "cost.total_hours": {"device_hours": [1.0, 2.0]},
    "cost.utilization": {"flop": 1e18},
}
ZERO_IS_FINE = {
    ("flops.pairs", "past"),
    ("flops.forward", "past"),
    ("flops.macs", "flop"),
    ("cost.co2_kg", "kg_per_kwh"),
    ("cost.price", "price_per_hour"),
}
NO_NUMBER = [-1, math.nan, math.inf, -math.inf, 10**400, True, "7", [1], 1j]


def public_functions():
    for module in MODULES:
        found = importlib.import_module(f"mathlib.{module}")
        for name, function in inspect.getmembers(found, inspect.isfunction):
            if not name.startswith("_") and function.__module__ == found.__name__:
                yield f"{module.split('.')[-1]}.{name}", function


def accepted_types(function, name):
    kind = typing.get_type_hints(function)[name]
    return (
        set(typing.get_args(kind))
        if isinstance(kind, types.UnionType)
        else {typing.get_origin(kind) or kind}
    )


FUNCTIONS = dict(public_functions())
ARGUMENTS = [
    (which, name)
    for which, function in FUNCTIONS.items()
    for name in inspect.signature(function).parameters
]


def called(which, **changed):
    function = FUNCTIONS[which]
    given = {
        name: OWN_EXAMPLES.get(which, {}).get(name, EXAMPLES[name])
        for name in inspect.signature(function).parameters
    }
    arguments = given | changed
    by_place = [
        arguments.pop(name)
        for name, one in inspect.signature(function).parameters.items()
        if one.kind is one.POSITIONAL_OR_KEYWORD
    ]
    return function(*by_place, **arguments)


@pytest.mark.parametrize("which", FUNCTIONS)
def test_the_examples_are_good(which):
    called(which)
    assert FUNCTIONS[which].__doc__


@pytest.mark.parametrize(
    ("which", "name"), ARGUMENTS, ids=[f"{which}-{name}" for which, name in ARGUMENTS]
)
def test_a_bad_argument_is_refused_by_name(which, name):
    kinds = accepted_types(FUNCTIONS[which], name)
    if kinds & {int, float}:
        bad = (
            NO_NUMBER
            + ([] if (which, name) in ZERO_IS_FINE else [0])
            + ([2.7] if int in kinds else [])
        )
        bad += [] if types.NoneType in kinds else [None]
    elif bool in kinds:
        bad = ["yes", 2, None]
    elif str in kinds:
        bad = ["no such thing", 3, None, True]
    else:
        bad = [("no such thing",), [None], 3, "query", ""] + ([] if name == "without" else [()])
    for value in bad:
        with pytest.raises(InputError, match=name):
            called(which, **{name: value})
