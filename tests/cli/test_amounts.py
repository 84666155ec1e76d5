"""What people type for a size, a rate, a share, a length."""

from argparse import ArgumentTypeError

import pytest

from mathlib.cli import amounts


@pytest.mark.parametrize(
    ("text", "bytes_"),
    [
        *(("80GB", 80e9), ("80gb", 80e9), ("80G", 80e9), ("80 g", 80e9), ("80e9", 80e9)),
        *(("80GiB", 80 * 2**30), ("80gib", 80 * 2**30), ("80Gi", 80 * 2**30), ("1.5TB", 1.5e12)),
        *(("512MiB", 2**29), ("85899345920", 80 * 2**30), ("0", 0), ("100kb", 1e5)),
    ],
)
def test_a_room_in_any_case_is_its_bytes(text, bytes_):
    assert amounts.room(text) == bytes_


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        *(("share", "40%", 0.4), ("share", "0.4", 0.4), ("share", "100%", 1.0)),
        *(("length", "32k", 32768), ("length", "32Ki", 32768), ("length", "1M", 2**20)),
        *(("length", "32000", 32000), ("length", "4096", 4096), ("length", "1.5k", 1536)),
        *(("rate", "300GB/s", 300e9), ("rate", "400Gbit/s", 50e9), ("rate", "3e11", 3e11)),
    ],
)
def test_an_amount_is_what_people_mean(kind, text, value):
    assert getattr(amounts, kind)(text) == value


@pytest.mark.parametrize(
    ("kind", "text", "told"),
    [
        ("room", "80", "expected a unit, such as 80GB or 80GiB"),
        ("room", "80GF", "a number in bytes"),
        ("rate", "300", "expected a unit, such as 300GB/s"),
        ("share", "40", "such as 40% or 0.4"),
        ("share", "x%", "a number in parameters"),
        ("length", "5GB", "is not a unit of token"),
        ("length", "k", "a number in tokens"),
    ],
)
def test_what_can_mean_two_things_is_asked_back(kind, text, told):
    with pytest.raises(ArgumentTypeError, match=told):
        getattr(amounts, kind)(text)


def test_a_rate_is_typed_as_people_say_it_and_a_bare_one_is_asked_back():
    for said in ("711TFLOP/s", "711 TFLOPS", "711T", "711TF"):
        assert amounts.speed(said) == 711e12
    assert amounts.speed("1.2P") == 1.2e15 and amounts.speed("711e12") == 711e12
    for bare in ("711", "0.7"):
        with pytest.raises(ArgumentTypeError, match=f"such as {bare}TFLOP/s"):
            amounts.speed(bare)


def test_tokens_of_a_run_come_with_their_unit():
    assert amounts.corpus("15T") == 15e12 and amounts.corpus("300B") == 300e9
    assert amounts.corpus("2e12") == 2e12
    with pytest.raises(ArgumentTypeError, match="15 tokens. expected a unit, such as 15B or 15T"):
        amounts.corpus("15")
