"""The published ledger says what the chapters say."""

import re
from html import unescape

from claims_ledger import KINDS, SOURCES, all_verdicts, counts
from pages import ROOT

from mathlib.show import says
from mathlib.show.ledger import claims
from mathlib.show.unbroken import unbroken


def read(html: str) -> str:
    """What a reader sees of some HTML."""
    return re.sub(r"[\s\u2060]+", " ", unescape(re.sub(r"<[^>]+>", "", html)))


def test_the_page_repeats_the_chapters(site):
    page = read((site / "book/ledger.html").read_text("utf-8"))
    settled = all_verdicts(ROOT)
    for claim, row in claims().items():
        for said in (row.get("quote", ""), row.get("quote_en", "")):
            assert read(unbroken(said)) in page, "the source's words stay as they are"
        assert f"{claim} {read(unbroken(says.html(row['claim'])))}" in page
    for said, _ in settled.values():
        row = f"{says.html(claims()[said.claim]['claim'])} {says.html(said.said())}"
        assert read(unbroken(row)) in page
        for fact in said.facts():
            assert read(unbroken(says.html(fact))) in page
    for kind, n in counts(ROOT).items():
        assert not n or f"{n} {KINDS[kind]}" in page


def test_wrong_claims_come_first_and_each_line_names_its_source(site):
    html = (site / "book/ledger.html").read_text("utf-8")
    sections = re.findall(r'<section data-verdict="([^"]+)"(.*?)</section>', html, re.S)
    assert [name for name, _ in sections] == [name for name, n in counts(ROOT).items() if n]
    assert sections[0][0] == "wrong"
    for name, inside in sections:
        listed = re.findall(r'id="ledger-(\w+)"', inside)
        assert len(listed) == counts(ROOT)[name]
        for claim in listed:
            line = inside.partition(f'id="ledger-{claim}"')[2].partition("</summary>")[0]
            assert read(line).endswith(SOURCES[claims()[claim]["source"]][0])


def test_what_the_book_says_is_typeset(site):
    html = (site / "book/ledger.html").read_text("utf-8")
    ours = re.sub(r"<blockquote.*?</blockquote>|<script.*?</script>", "", html, flags=re.S)
    assert "3.14 × 1023" in read(ours), "three point one four, and a raised 23"
    assert re.findall(r"\b\d+(?:\.\d+)?e\+?\d+\b", read(ours)) == []
