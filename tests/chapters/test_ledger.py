"""Verdicts: each stands in a cell of its chapter that computes it, and the ledger says the same."""

import ast
import re

from claims_ledger import SOURCES, stored_verdicts
from pages import CHAPTERS, code_cells, each_chapter

from mathlib.show.ledger import LANGUAGES, claims, verdict, verdicts_in

WAITING: set[str] = set()  # claims that need a run of a later chapter


def verdict_calls(source: str) -> list[ast.Call]:
    tree = ast.parse(re.sub(r"^\s*[%!].*$", "", source, flags=re.MULTILINE))
    return [
        n
        for n in ast.walk(tree)
        if isinstance(n, ast.Call)
        and getattr(n.func, "id", getattr(n.func, "attr", "")) == "verdict"
    ]


def constant(node: ast.expr) -> bool:
    """Whether an expression holds no name, so that nothing was computed for it."""
    return not any(isinstance(n, ast.Name) for n in ast.walk(node))


@each_chapter
def test_a_verdict_stands_in_the_cell_that_computes_it(path):
    for cell in code_cells(path):
        said = {
            v.claim
            for o in cell.outputs
            for v in verdicts_in("".join(o.get("data", {}).get("text/html", "")))
        }
        calls = verdict_calls(cell.source)
        assert said == {call.args[0].value for call in calls}, (
            "a verdict that its cell does not give"
        )
        for call in calls:
            given = {k.arg: k.value for k in call.keywords}
            assert not constant(given["check"]), (
                f"{call.args[0].value}: check is typed, not computed"
            )


@each_chapter
def test_verdicts_stand_in_the_chapter_of_their_claim(path):
    for said in stored_verdicts(path):
        assert claims()[said.claim]["chapter"] == path.stem
        assert said.headline.endswith((".", "?"))
        verdict(said.claim, said.scale, said.headline, check=True, evidence=said.evidence)


def test_no_claim_is_judged_twice():
    judged = [v.claim for path in CHAPTERS for v in stored_verdicts(path)]
    assert len(judged) == len(set(judged))


@each_chapter
def test_a_chapter_tries_all_its_claims(path):
    mine = {claim for claim, row in claims().items() if row["chapter"] == path.stem}
    judged = {v.claim for p in CHAPTERS if p.stem == path.stem for v in stored_verdicts(p)}
    assert judged == mine - WAITING


def test_the_claims_are_complete():
    assert len(claims()) == 80
    for claim, row in claims().items():
        quoted = {"quote", "quote_en"} & set(row)
        assert set(row) - quoted == {"source", "chapter", "claim", "test"}, claim
        assert all(row.values()) and quoted != {"quote_en"}, claim
        assert row["source"] in SOURCES and row["source"] in LANGUAGES


def test_at_most_a_third_of_the_verdicts_hang_on_a_condition():
    scales = [v.scale for path in CHAPTERS for v in stored_verdicts(path)]
    assert scales.count("only if") <= len(scales) / 3, "roughly, wrong, or two claims"
