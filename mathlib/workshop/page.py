"""A puzzle and what became of a program, as HTML: for the page, and for whoever shows them."""

import re
from collections.abc import Sequence
from html import escape

from mathlib.show import says, svg
from mathlib.show.unbroken import unbroken
from mathlib.workshop import grade
from mathlib.workshop.grade import Report, Result
from mathlib.workshop.puzzle import GRADES, MEASURES, Budget, Puzzle
from mathlib.workshop.ranks import Span

ROLES = {"computes": "compute", "sends": "communication", "waits": "idle"}
OF_A_RANK = ("bytes sent", "messages", "live numbers")
MINUS = re.compile(r"(?<=\b\w)-(?=\d\b)")  # N-1, where a line must not end


def file_of(puzzle: Puzzle) -> str:
    """What a reader's program is called, as `mathlib grade --all` looks for it."""
    return f"{puzzle.name.replace('-', '_')}.py"


def task(puzzle: Puzzle) -> str:
    """What is to be written, folded under its title; whole without scripts."""
    from mathlib.workshop.picture import picture  # the build draws it, and no browser

    name, title = puzzle.name, escape(puzzle.title)
    return (
        f'<details class="mlx-puzzle" id="puzzle-{name}" data-puzzle="{name}">'
        f"<summary><b>{title}</b> <small>{GRADES[puzzle.grade]}</small></summary>"
        f"<p>{_words(' '.join(puzzle.sentences))}</p>{_found(puzzle)}{_given(puzzle)}"
        f"{picture(puzzle)._repr_html_()}{_tests(puzzle)}"
        f"{_hints(puzzle.hints)}"
        f'<pre tabindex="0" data-file="{file_of(puzzle)}">{escape(puzzle.start)}</pre></details>'
    )


def _words(text: str) -> str:
    return says.html(MINUS.sub("\N{MINUS SIGN}", text))


def _found(puzzle: Puzzle) -> str:
    """Where a fault was met."""
    link = f'<a href="{puzzle.address}">{escape(puzzle.thread)}</a>'
    return f"<p>Found in {link}.</p>" if puzzle.thread else ""


def _given(puzzle: Puzzle) -> str:
    names = ", ".join(f"<code>{name}</code>" for name in sorted(puzzle.given))
    return f"<p>A program finds {names}.</p>" if names else ""


def _tests(puzzle: Puzzle) -> str:
    """What is tried, and the most that it may take."""
    said = "".join(
        f"<li>{_words(trial.says)}{_most(trial.budgets)}</li>" for trial in puzzle.trials()
    )
    return f"<p>Tests:</p><ul>{said}</ul>"


def _most(budgets: Sequence[Budget]) -> str:
    return "".join(
        f"; {one.of} at most {_amount(one, one.most)}, {_words(one.formula)}" for one in budgets
    )


def _hints(hints: Sequence[str]) -> str:
    """Each under the one before it."""
    inside = ""
    for number, hint in reversed(list(enumerate(hints, 1))):
        said = _words(hint)
        inside = f"<details><summary>Hint {number}</summary><p>{said}</p>{inside}</details>"
    return inside


def answer(name: str, text: str) -> str:
    """What the page calls: a program graded, as HTML."""
    return unbroken(result(grade.graded(name, text)))


def result(report: Report) -> str:
    """The verdict, each test with its counts beside the formula, and when each rank did what."""
    verdict = "Right: every test passes." if report.right else f"Not yet: {report.first}"
    kind = "" if report.right else " mlx-refused"
    tests = "".join(_test(one) for one in report.results)
    return (
        f'<div data-right="{str(report.right).lower()}">'
        f'<p class="mlx-say{kind}">{_words(verdict)}</p>'
        f'<ol class="mlx-tests">{tests}</ol>{_timeline(report)}</div>'
    )


def _test(one: Result) -> str:
    """A test: right, or what is wrong; what it took."""
    said = one.wrong or "right"
    counts = "".join(
        f"<li>{budget.of} {_amount(budget, one.took[budget.of])}; "
        f"{_words(budget.formula)} is {_amount(budget, budget.most)}</li>"
        for budget in one.budgets
        if one.took
    )
    return (
        f"<li><b>{_words(one.says)}</b>: {_words(said)}"
        f"{f'<ul>{counts}</ul>' if counts else ''}</li>"
    )


def _amount(budget: Budget, value: float) -> str:
    unit = MEASURES[budget.of][1]
    return f"{value:,g}" if unit in budget.of else says.html(says.amount(value, unit))


def _timeline(report: Report) -> str:
    """Of the first test that went wrong and came to an end, or else of the first that did."""
    ended = [one for one in report.results if any(one.timeline)]
    shown = next((one for one in ended if one.wrong), ended[0] if ended else None)
    if not shown:
        return ""
    lines = [(f"rank {r}", [_box(s) for s in spans]) for r, spans in enumerate(shown.timeline)]
    took = ", ".join(f"{of} {shown.took[of]:,g}" for of in OF_A_RANK)
    return svg.timeline(
        lines,
        title=f"The ranks by the clock: {shown.says}",
        show=says.time,
        axis_title="time",
        caption=f"The most of any rank: {took}.",
    )


def _box(span: Span) -> tuple[str, float, float, str]:
    whom = {"sends": f" to rank {span.other}", "waits": f" for rank {span.other}"}
    return ROLES[span.what], span.start, span.end, span.what + whom.get(span.what, "")
