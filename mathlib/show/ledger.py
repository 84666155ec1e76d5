"""Claims on trial: a chapter's cell computes the evidence and says the verdict; the ledger page
collects them.

The verdict stands in the chapter and nowhere else. data/claims.toml holds what the sources say,
never how it ended.
"""

import tomllib
from functools import cache
from html import escape
from html.parser import HTMLParser
from importlib.resources import files

from mathlib.checks import InputError, one_of
from mathlib.show.says import html

FORMS = ("holds", "holds when ", "wrong, rather ", "undecided, because ")
KINDS = ("holds", "depends", "wrong", "undecided")
LANGUAGES = {"interview": "zh-Hant", "ddp": "zh-Hans", "sagemaker": "de", "pipeline": "zh-Hans"}


@cache
def claims() -> dict[str, dict[str, str]]:
    """Every claim by its number: source, chapter, text, the test it has to pass; some with the
    source's own words (`quote`) and, where these are not English, their translation (`quote_en`).
    """
    return tomllib.loads((files("mathlib") / "data" / "claims.toml").read_text("utf-8"))


def quotation(claim: str) -> str:
    """The source's own words in English as HTML, and where it speaks another language its own
    beneath a fold; nothing for a claim without a quotation.
    """
    row = claims()[claim]
    if "quote" not in row:
        return ""
    if "quote_en" not in row:
        return f'<blockquote class="mlx-quote"><p>{escape(row["quote"])}</p></blockquote>'
    return (
        f'<blockquote class="mlx-quote"><p>{escape(row["quote_en"])}</p>'
        "<details><summary>In the original</summary>"
        f'<p lang="{LANGUAGES[row["source"]]}">{escape(row["quote"])}</p></details></blockquote>'
    )


class Verdict:
    """What became of one claim, with the evidence that decided it."""

    def __init__(self, claim: str, words: str, evidence: str):
        self.claim, self.words, self.evidence = claim, words, evidence

    def __str__(self) -> str:
        return (
            f"{self.claim}: {claims()[self.claim]['claim']}\nVerdict: {self.words}\nEvidence: "
            f"{self.evidence}"
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        kind, word = self.kind()
        data = (
            f'data-claim="{self.claim}" data-words="{escape(self.words)}" '
            f'data-evidence="{escape(self.evidence)}"'
        )
        row, more = claims()[self.claim], html(self.words.removeprefix(word))
        return (
            f'<section class="mlx-verdict mlx-{kind}" id="claim-{self.claim}" {data} '
            f'aria-label="Claim {self.claim}">'
            f'<p class="mlx-claim"><b>{self.claim}</b> {html(row["claim"])} '
            f"<small>({escape(row['source'])})</small></p>{quotation(self.claim)}"
            f'<p class="mlx-said"><b class="mlx-word">{word}</b>'
            f"{more and more + '.'}</p>"
            '<details class="mlx-evidence"><summary>The evidence</summary>'
            f"<p>{self.evidence_html()}</p></details></section>"
        )

    def evidence_html(self) -> str:
        """The evidence for between <p> and </p>; an empty line begins a paragraph."""
        return "</p>\n<p>".join(html(part) for part in self.evidence.split("\n\n"))

    def kind(self) -> tuple[str, str]:
        """What the verdict is, and the words that say so."""
        form = next(form for form in reversed(FORMS) if self.words.startswith(form))
        return KINDS[FORMS.index(form)], form.partition(",")[0].strip()


def verdict(claim: str, words: str, *, check: bool, evidence: str) -> Verdict:
    """The verdict on a claim, refused unless `check`, computed in the same cell, is true.

    `words` is "holds", "holds when ...", "wrong, rather ..." or "undecided, because ...";
    `evidence` says in a sentence what was computed.
    """
    one_of("claim", claim, claims())
    if not (words == FORMS[0] or words.startswith(FORMS[1:])):
        raise InputError(
            f"words = {words!r}: expected 'holds', 'holds when ...', 'wrong, rather ...' or "
            "'undecided, because ...'"
        )
    if not evidence.strip():
        raise InputError("evidence = '': expected a sentence with the computed numbers")
    if not check:
        raise AssertionError(f"{claim}: the evidence does not support {words!r} ({evidence})")
    return Verdict(claim, words, evidence)


class _Finder(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[Verdict] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if "data-claim" in given:
            self.found.append(
                Verdict(
                    given["data-claim"] or "",
                    given["data-words"] or "",
                    given["data-evidence"] or "",
                )
            )


def verdicts_in(html: str) -> list[Verdict]:
    """The verdicts that a stored output holds."""
    if "data-claim" not in html:  # most hold none, and reading a drawing takes long
        return []
    finder = _Finder()
    finder.feed(html)
    return finder.found
