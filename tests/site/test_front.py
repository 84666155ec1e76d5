"""The front page shows an answer first, and every figure on it is the chapters' own."""

import json
import re

import colophon
import contents
import pytest
from claims_ledger import SOURCES, all_verdicts, count_bar, counts, stored_verdicts
from colophon import edition
from landing import Result, minutes, short
from pages import CHAPTERS, ROOT
from sphinx.errors import ExtensionError

from mathlib.show.experiments import registry
from mathlib.show.ledger import claims

DESK = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844}
INDEX = (ROOT / "book/index.md").read_text("utf-8")


def bottom(page, selector: str) -> float:
    return (
        page.locator(selector).first.bounding_box()["y"]
        + (page.locator(selector).first.bounding_box()["height"])
    )


def test_one_screen_shows_what_this_is_and_why_to_trust_it(look):
    page = look("book/index", viewport=DESK).page
    for selector in (".mlx-promise", ".mlx .mlx-output svg", ".mlx-results", ".mlx-trial"):
        assert bottom(page, selector) < DESK["height"], selector
    assert bottom(page, ".mlx-card") < DESK["height"], "a whole row of cards"
    labels = page.locator(".mlx-front .mlx-control label")
    assert len({box.bounding_box()["y"] for box in labels.all()}) == 1


def test_the_picture_comes_before_its_controls_and_lives(visit):
    page = visit("book/index", viewport=DESK).page
    picture = page.locator(".mlx-front .mlx")
    assert page.locator(".mlx").count() == 1
    assert 1 <= picture.locator("input, select").count() <= 3
    assert bottom(page, ".mlx-output") <= picture.locator(".mlx-set").bounding_box()["y"]
    before = picture.locator(".mlx-output").inner_html()
    picture.locator("select").first.select_option(label="Llama 2 70B")
    page.wait_for_selector(".mlx[data-state=live]", timeout=60_000)
    assert "Llama 2 70B" in picture.locator(".mlx-say").inner_text()
    assert picture.locator(".mlx-output").inner_html() != before


def test_on_a_phone_promise_picture_and_cards_in_one_column(visit):
    page = visit("book/index", viewport=PHONE).page
    tops, lefts = [], set()
    for selector in (".mlx-promise", ".mlx-picture", ".mlx-results", ".mlx-trial", ".mlx-card"):
        for part in page.locator(selector).all():
            tops.append(part.bounding_box()["y"])
            lefts.add(round(part.bounding_box()["x"]))
    assert tops == sorted(tops) and len(lefts) == 1
    assert page.locator(".mlx-output svg:visible").first.bounding_box()["y"] < PHONE["height"] / 2


def test_every_chapter_has_a_card_with_drawing_minutes_and_claims(look):
    page = look("book/index", viewport=DESK).page
    chapters = [path for path in CHAPTERS if path.parent.name == "chapters"]
    cards = page.locator("a.mlx-card")
    found = [a.get_attribute("href") for a in cards.all()]
    assert found == [f"../chapters/{path.stem}.html" for path in chapters]
    for card, path in zip(cards.all(), chapters, strict=True):
        notebook = json.loads(path.read_text("utf-8"))
        trial = [one for one in CHAPTERS if one.stem == path.stem]
        settled = sum(len(stored_verdicts(one)) for one in trial)
        said = card.inner_text().replace("\u00a0", " ")
        assert contents.title(ROOT, contents.page(ROOT, path)).partition(":")[0] in said
        words = {0: "", 1: " · 1 claim settled"}.get(settled, f" · {settled} claims settled")
        assert said.endswith(f"{minutes(notebook)} min{words}")
        assert card.locator("svg rect, svg circle").count() > 3


def test_minutes_count_open_prose_only():
    def cell(kind, text):
        return {"cell_type": kind, "source": [text]}

    words = "word " * 400
    folded = "```{solution-start} x\n```\n" + words + "\n```{solution-end}\n```"
    assert minutes({"cells": [cell("markdown", words), cell("code", words)]}) == 4
    assert minutes({"cells": [cell("markdown", words), cell("markdown", folded)]}) == 4
    assert minutes({"cells": []}) == 1


def test_results_are_read_from_the_runs_they_link_to(look):
    page = look("book/index", viewport=DESK).page
    settled = all_verdicts(ROOT)
    results = page.locator("a.mlx-result")
    assert results.count() == 3
    for result in results.all():
        target = result.get_attribute("href")
        claim = target.rpartition("#claim-")[2]
        verdict, chapter = settled[claim]
        assert target == f"../{chapter}.html#claim-{claim}"
        numbers = re.findall(r"\d+(?:\.\d+)?", result.inner_text())
        known = [short(n) for n in re.findall(r"\d+(?:\.\d+)?", " ".join(verdict.facts()))]
        shown = re.findall(r"\d+(?:\.\d+)?", result.locator("b").inner_text())
        assert shown and all(n in known for n in shown)
        assert all(len(n.replace(".", "").lstrip("0")) <= 3 for n in numbers if "." in n)
    typed = re.findall(r"^```\{result\}.*?^```", INDEX, re.M | re.S)
    assert len(typed) == 3
    for one in typed:
        body = one.partition(":show:")[2]
        for number in re.findall(r"\d+\.\d+|\d+%", body):
            raise AssertionError(f"typed, not read: {number}")


@pytest.mark.parametrize(
    ("figure", "said"),
    [("344.1%", "344%"), ("23.13", "23.1"), ("4.5%", "4.5%"), ("0.0512", "0.0512"), ("up", "up")],
)
def test_a_result_has_three_digits(figure, said):
    assert short(figure) == said


def result(claim: str, find: str) -> Result:
    """The directive as a page would hold it."""

    class Env:
        srcdir = str(ROOT)

    made = Result.__new__(Result)
    made.arguments, made.options, made.content = [claim], {"find": find, "show": "{x}"}, []
    document = type("Document", (), {"settings": type("Settings", (), {"env": Env})})
    made.state = type("State", (), {"document": document})
    return made


@pytest.mark.parametrize(
    ("claim", "find", "said"),
    [("C01", "(?P<x>no such words)", "is not in its evidence"), ("C99", "x", "no chapter has")],
)
def test_a_number_that_no_chapter_holds_stops_the_build(claim, find, said):
    with pytest.raises(ExtensionError, match=said):
        result(claim, find).html()


def test_the_bar_counts_every_claim(site):
    found = counts(ROOT)
    assert sum(found.values()) == len(claims())
    assert len(claims()) - found["open"] == len(all_verdicts(ROOT))
    page = (site / "book/index.html").read_text("utf-8")
    assert count_bar(counts(ROOT)) in page and 'href="ledger.html"' in page
    widths = [int(w) for w in re.findall(r"flex-grow:(\d+)", count_bar(counts(ROOT)))]
    assert widths == [n for n in found.values() if n]


def test_author_and_licence_are_told(look):
    page = look("book/index", viewport=DESK).page
    told = page.locator(".mlx-byline").inner_text()
    assert "CC BY 4.0" in told and "MIT" in told
    footer = page.locator("footer.bd-footer-content").inner_text().strip()
    assert footer == edition(False), "nobody is named yet"


def test_authors_are_told_where_the_configuration_names_them(monkeypatch):
    for author, told in (("Ada Lovelace", "By Ada Lovelace"), ("the authors of A Book", "")):
        given = {"title": "A Book", "author": author}
        monkeypatch.setattr(colophon, "configured", lambda given=given: given)
        assert colophon.authors() == told


def test_the_large_experiment_lives_in_its_chapter(site):
    assert len(registry()["memory"].controls) == 11
    assert "{experiment} memory" not in INDEX
    chapter = (site / "chapters/memory.html").read_text("utf-8")
    assert "&quot;id&quot;: &quot;memory&quot;" in chapter


# --- the ledger ---


def test_the_ledger_is_filtered_by_source_and_verdict_without_scripts(visit):
    page = visit("book/ledger", java_script_enabled=False).page
    assert page.locator(".mlx-claim:visible").count() == len(claims())
    page.locator("label:has(#verdict-holds)").click()
    assert page.locator(".mlx-claim:visible").count() == counts(ROOT)["holds"]
    page.locator("label:has(#source-ddp)").click()
    both = [
        c for c, (v, _) in all_verdicts(ROOT).items() if v.scale == "holds" and c.startswith("D")
    ]
    assert page.locator(".mlx-claim:visible").count() == len(both) > 0
    page.locator("label:has(#verdict-all)").click()
    mine = [c for c in claims().values() if c["source"] == "ddp"]
    assert page.locator(".mlx-claim:visible").count() == len(mine)


def test_every_source_has_a_choice_that_hides_the_others(visit):
    page = visit("book/ledger").page
    for source in SOURCES:
        page.locator(f"label:has(#source-{source})").click()
        shown = page.locator(".mlx-claim:visible")
        assert {c.get_attribute("data-source") for c in shown.all()} == {source}


def test_a_verdict_stands_apart_from_the_claims_above_it(look):
    margins = (
        look("book/ledger")
        .page.locator(".mlx-judged")
        .evaluate_all("all => all.map(one => parseFloat(getComputedStyle(one).marginTop))")
    )
    assert len(margins) > 1 and min(margins) > 20


def test_evidence_opens_and_leads_to_the_run(visit):
    page = visit("book/ledger").page
    claim, (verdict, chapter) = next(iter(all_verdicts(ROOT).items()))
    row = page.locator(f"#ledger-{claim}")
    summary, fact = row.locator("> summary"), row.locator(":scope > p, :scope > ul > li").first
    assert not fact.is_visible()
    assert verdict.headline.split()[-1] in summary.inner_text(), "the headline stands in the row"
    summary.click()
    assert verdict.facts()[0].replace("'", "’") in fact.inner_text().replace("\u00a0", " ")
    assert row.locator("a").first.get_attribute("href") == f"../{chapter}.html#claim-{claim}"


def test_verdicts_have_colours_and_signs_of_their_own(look):
    page = look("book/ledger").page
    seen = {
        kind: page.locator(f"em .mlx-{kind}").first.evaluate(
            "e => [getComputedStyle(e).color, getComputedStyle(e, '::before').content]"
        )
        for kind, n in counts(ROOT).items()
        if n
    }
    for either in zip(*seen.values(), strict=True):
        assert len(set(either)) == len(seen), "nor do they differ by colour alone"
