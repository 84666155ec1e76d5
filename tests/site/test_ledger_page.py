"""The published ledger says what the chapters say."""

import re
from html import unescape

from claims_ledger import all_verdicts
from pages import ROOT

from mathlib.show.ledger import claims


def test_the_page_repeats_the_chapters(site):
    page = re.sub(
        r"\s+",
        " ",
        unescape(re.sub(r"<[^>]+>", " ", (site / "book/ledger.html").read_text("utf-8"))),
    )
    settled = all_verdicts(ROOT)
    for claim, row in claims().items():
        for said in (f"{claim} {row['claim']}", row.get("quote", ""), row.get("quote_en", "")):
            assert re.sub(r"\s+", " ", said) in page
    for said, _ in settled.values():
        assert said.words in page and said.evidence in page
    assert f"{len(claims()) - len(settled)} are open" in page
