"""How long an action takes: a stage's number dealt out over its chunks, a list, slow stages."""

import pytest

from mathlib.checks import InputError
from mathlib.schedule import orders
from mathlib.schedule.times import Times

PLAIN = orders.make("1f1b", stages=2, micro_batches=2)
LOOP = orders.make("interleaved", stages=2, micro_batches=2, chunks=2)


def test_a_number_is_the_whole_stage() -> None:
    assert Times().of(PLAIN)[0] == {"F": [1, 1], "B": [2, 2], "I": [1, 1], "W": [1, 1]}
    loop = Times(forward=2, backward=6, weight=2).of(LOOP)[1]
    assert loop == {"F": [1] * 4, "B": [3] * 4, "I": [2] * 4, "W": [1] * 4}


def test_a_list_has_a_number_for_each_chunk() -> None:
    times = Times(forward=[1, 2, 3, 4], backward=[2, 4, 6, 8], weight=[0, 0, 0, 8])
    assert times.of(LOOP)[0] == {
        "F": [1, 2, 3, 4],
        "B": [2, 4, 6, 8],
        "I": [2, 4, 6, 0],
        "W": [0, 0, 0, 8],
    }
    with pytest.raises(InputError, match="forward = .*: expected one for each chunk of .* 4"):
        Times(forward=[1, 2]).of(LOOP)


def test_recomputation_is_another_forward_before_the_gradient() -> None:
    again = Times(recompute=True).of(PLAIN)[0]
    assert (again["F"], again["B"], again["I"], again["W"]) == ([1, 1], [3, 3], [2, 2], [1, 1])
    assert Times(recompute=[True, False]).of(PLAIN)[0]["B"] == [3, 2]


def test_a_slow_stage_takes_longer_for_all_it_does() -> None:
    first, second = Times(slow={1: 1.5}).of(PLAIN)
    assert first["B"] == [2, 2] and second == {
        "F": [1.5, 1.5],
        "B": [3, 3],
        "I": [1.5, 1.5],
        "W": [1.5, 1.5],
    }
    with pytest.raises(InputError, match="slow = .*: expected stages 0 to 1"):
        Times(slow={2: 2.0}).of(PLAIN)


def test_a_link_is_busy_for_bytes_over_bandwidth() -> None:
    assert Times(size=8).sending == 0 and not Times(size=8).links
    assert Times(size=8, bandwidth=2).sending == 4 and Times(size=8, bandwidth=2).links
    assert Times(message=1).links


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("forward", -1),
        ("forward", [1, -1]),
        ("forward", None),
        ("forward", "ten"),
        ("backward", float("nan")),
        ("weight", "half"),
        ("recompute", 1.5),
        ("recompute", [True, "no"]),
        ("slow", 2),
        ("slow", {-1: 2}),
        ("slow", {0: 0}),
        ("message", -1),
        ("size", "8"),
        ("bandwidth", -1),
        ("blocking", "yes"),
    ],
)
def test_what_is_no_time_is_refused_by_name(name, value) -> None:
    with pytest.raises(InputError, match=name):
        Times(**{name: value})


def test_the_weights_part_is_a_part() -> None:
    with pytest.raises(InputError, match=r"weight = 3.*: is part of backward = 2"):
        Times(weight=3).of(PLAIN)
