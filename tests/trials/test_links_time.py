"""What sending less gains: by hand, at the break-even, and on links to both sides of it."""

import pytest

from mathlib.trials import links_time as times


def test_the_thread_by_hand():
    assert times.sends("bf16") == pytest.approx(2 * 2 * 8_030_261_248 * 3 / 4)
    assert times.sends("H = 100") == pytest.approx(times.sends("bf16") / 100)
    assert times.sends("int8") / times.sends("bf16") == pytest.approx((1 + 4 / 256) / 2)
    assert times.halved() == pytest.approx(0.5078125)
    assert sum(m * n for m, n in times.matrices()) == pytest.approx(times.P, rel=1e-4)
    work = 6 * times.P * times.TOKENS / (32 * 0.4 * 989e12)
    assert 1 < times.COMPUTE / work < 1.25, "6PD and attention, less the embedding's look-up"


def test_shares_rise_with_the_port_and_with_what_is_not_sent():
    for name in times.NAMES:
        shares = [times.share(name, W) for W in times.PORTS.values()]
        assert shares == sorted(shares)
    assert times.share("bf16", 1.25e9) < times.share("int8", 1.25e9) < times.share("sign", 1.25e9)
    assert [len(row) for row in times.rows()] == [5] * 7
    for curve in (*times.over_ports().values(), *times.over_steps(1.25e9).values()):
        heights = [y for _, y in curve]
        assert heights == sorted(heights) and heights[0] > 0 and heights[-1] <= 100


def test_at_the_break_even_both_take_as_long():
    for name in ("int8", "sign", "top-k", "PowerSGD"):
        W = times.pays_below(name)
        assert times.share(name, W) == pytest.approx(times.share("bf16", W))
        W = times.pays_below(name, times.HIDES)
        for port, gains in ((0.99 * W, True), (1.01 * W, False)):
            shares = [times.share(n, port, times.HIDES) for n in (name, "bf16")]
            assert (shares[0] > shares[1]) == gains
        assert 7.3e9 < W < 7.54e9, "where bf16 hides entirely"
    assert times.planned("fp32", times.even()) == pytest.approx(times.planned("int8", times.even()))


def test_a_step_hides_a_part_and_local_steps_hide_it_once_in_h_steps():
    meeting = times.sends("bf16") / 1.25e9
    for name, H in (("bf16", 1), ("H = 100", 100)):
        idle = (meeting - 2 / 3 * times.COMPUTE) / H
        u = times.COMPUTE / (times.COMPUTE + idle)
        assert times.share(name, 1.25e9, times.HIDES) == pytest.approx(u)
    assert times.share("bf16", 1e12, times.HIDES) == 1
    assert times.share("int8", 1e12, times.HIDES) < 1, "coding does not hide"


def test_an_hour_behind_a_slow_port_is_worth_its_useful_share():
    same = times.worth("bf16", times.DGX, price=5.0)
    assert same == pytest.approx(5)
    assert times.worth("bf16", 1.25e9, 5.0) == pytest.approx(
        5 * times.share("bf16", 1.25e9, times.HIDES)
    )
    assert [row[0] for row in times.rent_rows()] == ["bf16", "int8", "top-k", "H = 100"]


def test_on_links_below_and_above_the_run_takes_no_less_than_the_model_says():
    slow, fast = times.cases().values()
    assert (slow, fast) == pytest.approx((times.even() / 2, times.even() * 2))
    for link, gains in ((slow, True), (fast, False)):
        planned = {name: times.planned(name, link) for name in ("fp32", "int8")}
        assert (planned["int8"] < planned["fp32"]) == gains
        took = times.seconds(link, "paced")
        assert all(took[name] > 0.9 * planned[name] for name in planned)
    assert {row[1] for row in times.even_rows()} == {"fp32", "int8"}
    assert times.here() in ("namespaces", "paced")
