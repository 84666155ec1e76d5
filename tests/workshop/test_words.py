"""What is said of a puzzle and of a report."""

from solutions import edited

from mathlib.workshop import grade, words


def test_a_puzzle_in_words():
    ring, ddp, case = map(grade.find, ("ring", "ddp", "same-batch"))
    assert words.notes(ring) == []
    (names,) = words.notes(ddp)
    assert names == "A program finds: all_gather, all_reduce, all_to_all, reduce_scatter."
    assert words.notes(case)[0] == "Found in https://github.com/karpathy/llama2.c/issues/522"
    assert words.hint(ddp, 3) == f"Hint 3 of 3: {ddp.hints[2]}"
    first, *_ = words.tests(ring)
    assert first.startswith("test: 4 ranks, 12 numbers; bytes sent at most 72 (2 K (N-1)/N); time")


def test_a_report_in_words():
    first, *_ = words.rows(grade.graded("ring", edited("ring")))
    assert first == ("4 ranks, 12 numbers", "right", "bytes sent 72 of 72, time 24 of 24")
    assert words.rows(grade.graded("ring", "1 / 0"))[0][1:] == ("wrong", "")
