"""Training with less sent: bytes by formula, leftovers that come later, losses in their order."""

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


def test_codes_of_eight_bits_and_more_train_alike_and_strong_ones_need_feedback():
    late = {name: links.late(course) for name, course in links.losses().items()}
    assert all(abs(late[name] - late["fp32"]) < 0.005 for name in ("fp16", "int8"))
    for name in ("top-k", "PowerSGD"):
        assert late["fp32"] < late[name] < late[name + links.FORGETS]
    assert late["int8" + links.FORGETS] == pytest.approx(late["fp32"], abs=0.005)
    assert [row[2] == "" for row in links.loss_rows()] == [True] * 2 + [False] * 4


def test_signs_with_feedback_diverge_by_the_momentum_behind_them():
    found = dict(links.signs())
    fp32, sign, none = found.pop("0.1, momentum 0.9")
    assert sign > fp32 + 1 > none
    assert all(one[1] < one[0] + 0.5 for one in found.values())
    fp32, sign, none = found["1.0, no momentum"]
    assert sign < min(fp32, none), "as long a step"
    assert [row[0] for row in links.sign_rows()] == list(links.SIGNS)


def test_momentum_ahead_of_fp32_is_momentum_behind_it():
    behind, ahead = (
        links.losses(("fp32",), 5, **options)["fp32"]
        for options in ({}, {"momentum": 0.0, "ahead": True})
    )
    assert ahead == pytest.approx(behind, rel=1e-5)
    assert links.losses(("fp32",), 5, momentum=0.0)["fp32"] != pytest.approx(behind, rel=1e-3)


def test_four_seeds_agree_on_eight_bits_and_on_feedback_of_top_k():
    found = links.over_seeds()
    assert all(
        abs(more) < 0.005 for name in ("int8", "int8" + links.FORGETS) for more in found[name]
    )
    pairs = zip(found["top-k"], found["top-k" + links.FORGETS], strict=True)
    assert all(0 < with_it < without for with_it, without in pairs)
    assert len(set(found["top-k"])) == len(links.SEEDS) == len(links.seed_rows()[0]) - 1


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
