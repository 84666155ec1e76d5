"""A verdict stands only with its evidence, and can be read back from what a chapter stores."""

import pytest

from mathlib.checks import InputError
from mathlib.show import ledger, verdict
from mathlib.show.ledger import SCALE, claims, verdicts_in

CLAIM = next(iter(claims()))


SAID = "Yes & no: plan with 3e23, or 2 < 3."
FACTS = ["1 & 2", "16 GB 'so' & \"so\""]


@pytest.mark.parametrize("evidence", ["3 < 4\n\n16 GB", FACTS])
@pytest.mark.parametrize("scale", SCALE)
def test_a_verdict_is_marked_as_what_it_is_and_read_back_as_it_was_said(scale, evidence):
    said = verdict(CLAIM, scale, SAID, check=True, evidence=evidence)
    html, kind = said._repr_html_(), scale.replace(" ", "-")
    assert f'class="mlx-verdict mlx-{kind}"' in html and f'id="claim-{CLAIM}"' in html
    (found,) = verdicts_in(f"<div>{html}<p>more</p></div>")
    assert vars(found) == vars(said) and str(found) == str(said)
    word = {"only if": "Only if"}.get(scale, f"{scale.capitalize()}.")
    assert f"{word} {SAID}" in str(said) and claims()[CLAIM]["claim"] in str(said)
    before, after = html.split('<p class="mlx-said">')
    shown = "Yes &amp; no: plan with 3\u00a0×\u00a010<sup>23</sup>, or 2 &lt; 3."
    assert after.startswith(f'<b class="mlx-word mlx-{kind}">{word}</b> {shown}</p>')
    assert '<details class="mlx-evidence"><summary>The evidence</summary>' in after
    assert f"<b>{CLAIM}</b>" in before


@pytest.mark.parametrize(
    ("evidence", "shown"),
    [
        ("16 GB here", "<p>16\u00a0GB here</p>"),
        ("1 GB\n\n2 < 3", "<p>1\u00a0GB</p>\n<p>2 &lt; 3</p>"),
        (
            FACTS,
            "<ul><li>1 &amp; 2</li><li>16\u00a0GB &#x27;so&#x27; &amp; &quot;so&quot;</li></ul>",
        ),
    ],
)
def test_evidence_is_paragraphs_or_a_list_of_facts(evidence, shown):
    html = verdict(CLAIM, "holds", SAID, check=True, evidence=evidence)._repr_html_()
    assert html.endswith(f"</summary>{shown}</details></section>")


def test_evidence_that_does_not_support_it_stops_the_chapter():
    with pytest.raises(AssertionError, match=r"does not support 'Roughly\. Yes"):
        verdict(CLAIM, "roughly", SAID, check=False, evidence="1 < 2")


def words(n: int) -> str:
    return " ".join(["word"] * n)


@pytest.mark.parametrize(
    ("claim", "scale", "headline", "evidence", "why"),
    [
        ("C00", "holds", SAID, "x", "claim = 'C00'"),
        (CLAIM, "holds when N > 2", SAID, "x", "one of holds, roughly, only if, wrong, undecided"),
        (CLAIM, "holds", " ", "x", "expected 1 to 25 words, and these are 0"),
        (CLAIM, "holds", words(26), "x", "expected 1 to 25 words, and these are 26"),
        (CLAIM, "only if", words(13) + ". Do.", "x", "condition .* 1 to 12 words, and .* are 13"),
        (CLAIM, "holds", SAID, " ", "evidence = ' '"),
        (CLAIM, "holds", SAID, [], "evidence = "),
        (CLAIM, "holds", SAID, ["1 < 2", ""], "evidence = "),
    ],
)
def test_a_verdict_needs_a_known_claim_its_scale_few_words_and_evidence(
    claim, scale, headline, evidence, why
):
    with pytest.raises(InputError, match=why):
        verdict(claim, scale, headline, check=True, evidence=evidence)


def test_the_longest_headline_and_condition_are_taken():
    for scale, headline in [("holds", words(25)), ("only if", f"{words(12)}. {words(13)}")]:
        assert verdict(CLAIM, scale, headline, check=True, evidence="x").headline == headline


def quoted(monkeypatch, **words):
    row = {key: said for key, said in claims()[CLAIM].items() if not key.startswith("quote")}
    rows = {CLAIM: row | {"source": "ddp"} | words}
    monkeypatch.setattr("mathlib.show.ledger.claims", lambda: rows)
    return verdict(CLAIM, "holds", SAID, check=True, evidence="16 GB")._repr_html_()


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
