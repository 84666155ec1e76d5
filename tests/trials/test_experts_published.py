"""Published rows beside the formulas."""

import pytest

from mathlib.trials import experts_published as published


def test_models_by_total_and_active_parameters():
    rows = {row[0]: row[1:] for row in published.sizes()}
    assert rows["Qwen3 30B-A3B"] == ["8 of 128", "30.5 B", "3.4 B", "6.1"]
    assert rows["DeepSeek-V3"][:2] == ["8 of 256", "671.0 B"]
    assert published.sizes("llama3-8b")[0][1] == "none"


def test_memory_falls_by_the_states_alone_and_speed_hardly():
    for formula, printed in published.scaling().values():
        assert printed == pytest.approx(formula, rel=0.03)
    assert published.whole() == pytest.approx((114.43, 114.78), abs=0.01)
    speeds = list(published.kept_speed().values())
    assert speeds == sorted(speeds, reverse=True) and speeds[-1] == pytest.approx(0.936, abs=1e-3)
    assert [round(share, 2) for share in published.faster()] == [0.49, 0.33]


def test_what_leaves_a_node_fits_the_card():
    for version in ("v2", "v1"):
        assert all(row.wire < published.CARD for row in published.bandwidths(version))
    printed = [row.printed for row in published.bandwidths("v2")]
    assert min(printed) > published.CARD
    assert [row.wire for row in published.bandwidths("v2")][:3] == [45, 40.5, 45.75]


def test_whole_experts_beside_parts():
    for name in published.MODELS:
        for ranks in (2, 4, 8):
            ratio, law, once = published.either(name, ranks)
            assert ratio == pytest.approx(law, rel=0.01) and once < min(1, ratio + 1e-9)
    whole, halves, of_visits = published.mixtral()
    assert (whole, halves) == pytest.approx((7.516, 17.181), abs=1e-3)
    assert of_visits == pytest.approx(2 * whole)
    assert published.matrices("mixtral-8x7b", 8)[1] == ["8", "8,192", "4,096 × 1,792", "100%"]
    assert published.matrices("qwen3-30b-a3b", 8)[1][2:] == ["2,048 × 96", "30%"]


def test_narrow_experts_wait_more():
    rows = published.waits()
    assert [row[2] for row in rows] == ["0.02", "0.45", "0.17"]


def test_a_larger_degree_needs_less_memory_and_waits_more():
    rows = published.degrees()
    assert [row[0] for row in rows] == ["1", "2", "4", "8", "16"]
    assert rows[0][1:3] == ["30.5 B", "145 GB"] and rows[0][3] == "0%"
    memory, waits = ([int(row[i].split()[0].rstrip("%")) for row in rows] for i in (2, 3))
    assert memory == sorted(memory, reverse=True) and waits == sorted(waits)
    assert waits[-2:] == [31, 70]  # over two nodes half of the rows cross
