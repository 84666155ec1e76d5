"""A verdict stands only with its evidence, and can be read back from what a chapter stores."""

import pytest

from mathlib.checks import InputError
from mathlib.show import ledger, verdict
from mathlib.show.ledger import claims, verdicts_in

CLAIM = next(iter(claims()))


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("holds", "holds"),
        ("holds when N > 2", "depends"),
        ("wrong, rather 3", "wrong"),
        ("undecided, because nobody says when", "undecided"),
    ],
)
def test_a_verdict_is_marked_as_what_it_is(words, kind):
    html = verdict(CLAIM, words, check=True, evidence="1 & 2")._repr_html_()
    assert f'class="mlx-verdict mlx-{kind}"' in html and f'id="claim-{CLAIM}"' in html


def test_a_verdict_is_read_back_as_it_was_said():
    said = verdict(CLAIM, "wrong, rather 'so' & \"so\"", check=True, evidence="3 < 4")
    (found,) = verdicts_in(f"<div>{said._repr_html_()}<p>more</p></div>")
    assert (found.claim, found.words, found.evidence) == (CLAIM, said.words, said.evidence)
    assert str(found) == str(said) and claims()[CLAIM]["claim"] in str(said)


def test_evidence_that_does_not_support_it_stops_the_chapter():
    with pytest.raises(AssertionError, match="does not support 'holds'"):
        verdict(CLAIM, "holds", check=False, evidence="1 < 2")


@pytest.mark.parametrize(
    ("claim", "words", "evidence"),
    [("C00", "holds", "x"), (CLAIM, "true", "x"), (CLAIM, "holds if", "x"), (CLAIM, "holds", " ")],
)
def test_a_verdict_needs_a_known_claim_its_form_and_evidence(claim, words, evidence):
    with pytest.raises(InputError):
        verdict(claim, words, check=True, evidence=evidence)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("holds", '<b class="mlx-word">holds</b></p>'),
        ("holds when N > 2", '<b class="mlx-word">holds when</b> N &gt; 2.</p>'),
        (
            "undecided, because 2 < 3",
            '<b class="mlx-word">undecided</b>, because 2 &lt; 3.</p>',
        ),
        ("wrong, rather 3e23", '<b class="mlx-word">wrong</b>, rather 3\u00a0×\u00a010<sup>23'),
    ],
)
def test_the_verdict_shows_its_word_and_folds_its_evidence(words, said):
    html = verdict(CLAIM, words, check=True, evidence="16 GB here")._repr_html_()
    before, after = html.split('<p class="mlx-said">')
    assert said in after and after.endswith("<p>16\u00a0GB here</p></details></section>")
    assert '<details class="mlx-evidence"><summary>The evidence</summary>' in after
    assert f"<b>{CLAIM}</b>" in before


def test_an_empty_line_in_the_evidence_begins_a_paragraph():
    said = verdict(CLAIM, "holds", check=True, evidence="1 GB\n\n2 < 3")
    assert "<p>1\u00a0GB</p>\n<p>2 &lt; 3</p></details>" in said._repr_html_()
    assert verdicts_in(said._repr_html_())[0].evidence == said.evidence


def quoted(monkeypatch, **words):
    row = {key: said for key, said in claims()[CLAIM].items() if not key.startswith("quote")}
    rows = {CLAIM: row | {"source": "ddp"} | words}
    monkeypatch.setattr("mathlib.show.ledger.claims", lambda: rows)
    return verdict(CLAIM, "holds", check=True, evidence="16 GB")._repr_html_()


def test_a_quote_stands_between_the_claim_and_its_verdict(monkeypatch):
    html = quoted(monkeypatch, quote="2K*(1-1/N) ~= 2K <br>", quote_en="about 2K & so on")
    claim, rest = html.split('<blockquote class="mlx-quote">')
    said, after = rest.split("</blockquote>")
    assert f"<b>{CLAIM}</b>" in claim and '<p class="mlx-said">' in after
    english, original = said.split("<details><summary>In the original</summary>")
    assert english == "<p>about 2K &amp; so on</p>"
    assert original == '<p lang="zh-Hans">2K*(1-1/N) ~= 2K &lt;br&gt;</p></details>'
    assert [v.evidence for v in verdicts_in(html)] == ["16 GB"]


def test_a_quote_without_translation_is_english_and_a_claim_may_have_none(monkeypatch):
    assert '"mlx-quote"><p>as it was said</p></blockquote>' in quoted(
        monkeypatch, quote="as it was said"
    )
    assert "blockquote" not in quoted(monkeypatch)


def test_html_without_a_claim_is_not_taken_apart(monkeypatch):
    monkeypatch.setattr(ledger._Finder, "feed", lambda *given: pytest.fail("it was"))
    assert verdicts_in("<svg><rect/></svg>") == []
