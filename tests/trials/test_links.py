"""Training with less sent: bytes by formula, leftovers that come later, losses in their order.

The chapter and its trial run all codes, settings and seeds; here are those that differ most.
"""

import pytest

from mathlib.trials import links


@pytest.mark.parametrize("ranks", [2])
def test_bytes_are_those_of_the_formula_by_program_and_kernel(ranks):
    for name, sent in links.sent(ranks).items():
        assert sent.program == pytest.approx(sent.formula, rel=1e-9), name
        assert sent.system == pytest.approx(sent.program, rel=1e-9), name


def test_feedback_brings_home_what_a_code_leaves_out():
    found = links.misses(backwards=40)
    for name in ("sign", "top-k"):
        with_it, without = found[name], found[name + links.FORGETS]
        assert with_it[0] == without[0], "the first step has nothing to add"
        assert without[-1] == pytest.approx(without[0], rel=1e-4)
        assert with_it[-1] < 0.6 * with_it[0]


def test_codes_of_eight_bits_train_alike_and_strong_ones_need_feedback():
    names = ("fp32", "int8", "top-k", "int8" + links.FORGETS, "top-k" + links.FORGETS)
    late = {name: links.late(course) for name, course in links.losses(names).items()}
    assert abs(late["int8"] - late["fp32"]) < 0.005
    assert late["fp32"] < late["top-k"] < late["top-k" + links.FORGETS]
    assert late["int8" + links.FORGETS] == pytest.approx(late["fp32"], abs=0.005)


def test_signs_with_feedback_diverge_by_the_momentum_behind_them():
    behind, no_momentum = links.signs(("0.1, momentum 0.9", "1.0, no momentum")).values()
    fp32, sign, none = behind
    assert sign > fp32 + 1 > none
    fp32, sign, none = no_momentum
    assert sign < min(fp32, none), "as long a step"


def test_momentum_ahead_of_fp32_is_momentum_behind_it():
    behind, ahead = (
        links.losses(("fp32",), 5, **options)["fp32"]
        for options in ({}, {"momentum": 0.0, "ahead": True})
    )
    assert ahead == pytest.approx(behind, rel=1e-5)
    assert links.losses(("fp32",), 5, momentum=0.0)["fp32"] != pytest.approx(behind, rel=1e-3)


def test_another_seed_agrees_on_eight_bits_and_on_feedback_of_top_k():
    found = {name: more for name, (more,) in links.over_seeds((1,)).items()}
    assert all(abs(found[name]) < 0.005 for name in ("int8", "int8" + links.FORGETS))
    assert 0 < found["top-k"] < found["top-k" + links.FORGETS]
    assert links.losses(("fp32",), 5, seed=1) != links.losses(("fp32",), 5)


def test_ranks_that_meet_rarely_are_a_little_behind_and_send_a_tenth():
    rows = {name: (float(loss), mean, most) for name, loss, mean, most in links.meeting_rows()}
    every = rows.pop("every step")
    assert all(every[0] < loss < every[0] + 0.25 for loss, *_ in rows.values())
    assert {mean for _, mean, _ in rows.values()} == {"6,246"} and every[1] == "62,464"
    assert rows["streaming"][2] == "31,232", "a fragment at a time"


def test_what_coding_moves_grows_with_the_passes():
    moved = links.moved()
    assert moved["fp32"] < moved["fp16"] < moved["top-k"] < moved["int8"]
    assert moved["fp32"] == 8, "divided by the ranks: read and written"


def test_a_code_that_forgets_keeps_nothing():
    code = links.code_of("sign" + links.FORGETS)
    assert issubclass(code, links.CODES["sign"]) and code is not links.CODES["sign"]
    assert links.code_of("sign") is links.CODES["sign"]
