"""A puzzle and what became of a program, as HTML."""

import re
from html import unescape

import pytest

from mathlib.workshop import grade, page

DEADLOCK = """\
async def program(me, gradient):
    await me.receive((me.rank - 1) % me.size)
"""


def text_of(html: str) -> str:
    return unescape(re.sub(r"<[^>]+>", "", html)).replace("\xa0", " ")


@pytest.mark.parametrize("name", grade.names())
def test_a_task_has_all_that_is_told_and_not_its_solution(name):
    puzzle = grade.find(name)
    html, formula = page.task(puzzle), page.MINUS
    for said in (*puzzle.sentences, *puzzle.hints, *(trial.says for trial in puzzle.trials())):
        assert formula.sub("\N{MINUS SIGN}", said) in text_of(html)
    for budget in (one for trial in puzzle.trials() for one in trial.budgets):
        assert formula.sub("\N{MINUS SIGN}", budget.formula) in text_of(html)
    (start,) = re.findall(r"<pre[^>]*>(.*?)</pre>", html, re.DOTALL)
    assert unescape(start) == puzzle.start
    assert puzzle.solution not in unescape(html)
    assert html.count("<figure") == 1 and html.count("<svg") == 2
    assert (f'<a href="{puzzle.address}">' in html) == bool(puzzle.thread)
    assert f'data-file="{name.replace("-", "_")}.py"' in html


def test_a_hint_stands_under_the_one_before_it():
    assert re.search(
        r"<summary>Hint 1</summary><p>[^<]+</p><details><summary>Hint 2</summary>"
        r"<p>[^<]+</p><details><summary>Hint 3</summary>",
        page.task(grade.find("ring")),
    )


@pytest.mark.parametrize("name", grade.names())
def test_an_answer_says_what_the_grade_says(name):
    puzzle = grade.find(name)
    for text, right in ((puzzle.start, "false"), (puzzle.solution, "true")):
        html, report = page.answer(name, text), grade.graded(name, text)
        assert f'data-right="{right}"' in html
        assert html.count("<b>") == len(report.results)
        assert ("Right: every test passes." in html) == report.right
        timed = any(any(one.timeline) for one in report.results)
        assert ("<svg" in html) == timed


def test_counts_stand_beside_the_formula_and_the_ranks_by_the_clock():
    said = text_of(page.answer("ring", grade.find("ring").solution))
    assert "bytes sent 72; 2 K (N\N{MINUS SIGN}1)/N is 72" in said
    assert "rank 3: communication 6 s, idle 18 s" in said
    assert "The most of any rank: bytes sent 72, messages 6, live numbers" in said


def test_a_timeline_is_that_of_the_first_test_which_failed():
    text = grade.find("ring").solution.replace(
        "    shards = ", "    gradient = gradient * (1 if me.size != 3 else 2)\n    shards = "
    )
    assert "by the clock: 3 ranks, 7 numbers" in text_of(page.answer("ring", text))


def test_a_deadlock_says_who_waits_for_whom():
    html = page.answer("ring", DEADLOCK)
    assert "rank 0 waits for a message of rank 3; rank 3 waits" in text_of(html)
    assert "<svg" not in html, "no rank has an end"


def test_what_a_reader_writes_cannot_become_part_of_the_page():
    html = page.answer("ring", "async def program(me, g):\n    raise ValueError('<img src=x>')")
    assert "<img" not in html and "&lt;img" in html
