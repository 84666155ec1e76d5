"""Numbers in words: short, with a unit."""

import pytest

from mathlib.show import says


@pytest.mark.parametrize(
    ("shown", "wanted"),
    [
        (says.size(16e9), "16 GB"),
        (says.size(1536), "1.54 kB"),
        (says.size(0), "0 byte"),
        (says.time(0.012), "12 ms"),
        (says.time(90), "1.5 min"),
        (says.flop(6e12), "6 TFLOP"),
        (says.count(175e9), "175B"),
        (says.rate(50e9), "50 GB/s"),
        (says.short(1234567), "1.23457e+06"),
        (says.short(2500), "2,500"),
        (says.plain(999999), "999,999"),
        (says.plain(1e6), "1e+06"),
        (says.plain(2.0), "2"),
        (says.plain(-0.123456), "-0.1235"),
    ],
)
def test_a_number_is_said_as_people_would(shown, wanted):
    assert shown == wanted
