"""The roof, its ridge and the rows that reach it, by hand and by laws."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mathlib import specs
from mathlib.checks import InputError
from mathlib.compute import roofline
from mathlib.compute.roofline import Operation

SIZES = st.integers(1, 10**5)
RATES = st.floats(1e9, 1e16)


def test_a_square_matmul_has_two_thirds_of_its_size_over_e():
    one = roofline.intensity(rows=3000, inner=3000, columns=3000, bytes_per_element=2)
    assert one == pytest.approx(1000)


@given(SIZES, SIZES, SIZES)
def test_a_matmul_is_as_intense_either_way_round_and_less_than_its_smallest_side(r, i, o):
    one = roofline.intensity(rows=r, inner=i, columns=o)
    assert one == pytest.approx(roofline.intensity(rows=o, inner=i, columns=r))
    assert one == pytest.approx(roofline.intensity(rows=i, inner=o, columns=r))
    assert one < min(r, i, o)


def test_the_ridges_of_data_sheets():
    ridges = {
        name: roofline.ridge(peak=d.half, bandwidth=d.memory_bandwidth)
        for name in ("a100-80gb", "h100-sxm")
        for d in [specs.find_device(name)]
    }
    assert {name: round(one) for name, one in ridges.items()} == {"a100-80gb": 153, "h100-sxm": 295}


@given(RATES, RATES, st.floats(1e-3, 1e6))
def test_the_roof_is_flat_beyond_the_ridge(peak, bandwidth, intensity):
    roof = roofline.attainable(intensity=intensity, peak=peak, bandwidth=bandwidth)
    assert roof <= peak and roof <= intensity * bandwidth
    beyond = intensity >= roofline.ridge(peak=peak, bandwidth=bandwidth)
    assert roof == pytest.approx(peak if beyond else intensity * bandwidth)


@given(RATES, RATES, st.floats(1, 1e15), st.floats(1, 1e15))
def test_time_is_flop_over_the_roof(peak, bandwidth, flop, moved):
    rates = {"peak": peak, "bandwidth": bandwidth}
    roof = roofline.attainable(intensity=flop / moved, **rates)
    assert roofline.seconds(flop=flop, moved=moved, **rates) == pytest.approx(flop / roof)


def test_tiles_fill_a_device_in_rounds():
    full = {"columns": 128, "processors": 132}
    assert roofline.filled(rows=132 * 256, **full) == 1
    one_more = roofline.filled(rows=132 * 256 + 1, **full)  # a ninth round of the smallest tiles
    assert one_more == pytest.approx(8 / 9, rel=1e-4)
    assert roofline.filled(rows=64, columns=64, processors=132) == 1 / 132


@given(SIZES, SIZES, st.integers(1, 200))
def test_tiles_fill_no_more_than_the_device_and_no_less_than_their_share(r, o, n):
    share = roofline.filled(rows=r, columns=o, processors=n)
    alone = roofline.filled(rows=1, columns=1, processors=n)  # a tile of 64 x 64 for one result
    assert alone == 1 / (n * 64 * 64) and alone <= share <= 1


@given(st.integers(100, 10**5), st.integers(100, 10**5))
def test_so_many_rows_stand_at_the_ridge(i, o):
    rates = {"peak": 1e14, "bandwidth": 5e12}
    rows = roofline.rows_to_ridge(inner=i, columns=o, **rates)
    at = 2 * rows * i * o / (2 * (rows * i + i * o + rows * o))
    assert at == pytest.approx(20)


def test_a_narrow_weight_never_reaches_the_ridge():
    with pytest.raises(InputError, match="too narrow for a ridge"):
        roofline.rows_to_ridge(inner=100, columns=100, peak=1e14, bandwidth=1e12)


def test_a_sum_takes_the_larger_time_of_each_and_not_of_all():
    work = [
        Operation("up", "mlp", flop=10, moved=1, times=2),
        Operation("norm", "norms", flop=99, moved=10, matmul=False),
    ]
    time = roofline.time(work, peak=1, bandwidth=1, launch=0.5)
    assert dict(time) == {"mlp": 2 * 10.5, "norms": 10.5}  # a norm has no claim on the peak
    assert dict(roofline.totals(work)) == {"mlp": 20}
    assert work[0].intensity == 10


def test_what_is_no_operation_is_refused():
    with pytest.raises(InputError, match="operations"):
        roofline.time([3], peak=1, bandwidth=1)


@pytest.mark.parametrize("rows", [1, 64, 4096, 10**6])
def test_in_turn_lies_between_the_roofline_and_twice_it(rows):
    """A matmul that is done in turn reaches half the peak at the ridge, and more the larger it is:
    the share follows its size.
    """
    flop, moved = 2 * rows * 4096 * 4096, 2 * (rows * 8192 + 4096 * 4096)
    how = {"flop": flop, "moved": moved, "peak": 1e15, "bandwidth": 3e12}
    least, most = roofline.seconds(**how), roofline.in_turn(**how)
    assert least < most <= 2 * least
    at_ridge = roofline.in_turn(flop=1e15, moved=3e12, peak=1e15, bandwidth=3e12)
    assert at_ridge == 2
