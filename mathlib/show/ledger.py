"""Claims on trial: a chapter's cell computes the evidence and says the verdict; the ledger page
collects them.

The verdict stands in the chapter and nowhere else. data/claims.toml holds what the sources say,
never how it ended.
"""

import json
import re
import tomllib
from functools import cache
from html import escape
from html.parser import HTMLParser
from importlib.resources import files

from mathlib.checks import InputError, one_of
from mathlib.show.says import html

SCALE = ("holds", "roughly", "only if", "wrong", "undecided")
HEADLINE, CONDITION = 25, 12  # words at most
LANGUAGES = {"interview": "zh-Hant", "ddp": "zh-Hans", "sagemaker": "de", "pipeline": "zh-Hans"} | {
    "megatron": "en",
    "deepep": "en",
}


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
    """What became of one claim, in a word of the scale and a headline, with the evidence that
    decided it: paragraphs, or facts.
    """

    def __init__(self, claim: str, scale: str, headline: str, evidence: str | list[str]):
        self.claim, self.scale, self.headline = claim, scale, headline
        self.evidence = evidence

    def __str__(self) -> str:
        facts = self.evidence if isinstance(self.evidence, str) else "\n- ".join(self.facts())
        return (
            f"{self.claim}: {claims()[self.claim]['claim']}\nVerdict: {self.said()}\nEvidence: "
            f"{facts}"
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        data = (
            f'data-claim="{self.claim}" data-scale="{self.scale}" '
            f'data-headline="{escape(self.headline)}" '
            f'data-evidence="{escape(json.dumps(self.evidence, ensure_ascii=False))}"'
        )
        row = claims()[self.claim]
        return (
            f'<section class="mlx-verdict mlx-{self.kind()}" id="claim-{self.claim}" {data} '
            f'aria-label="Claim {self.claim}">'
            f'<p class="mlx-claim"><b>{self.claim}</b> {html(row["claim"])} '
            f"<small>({escape(row['source'])})</small></p>{quotation(self.claim)}"
            f'<p class="mlx-said">{self.said_html()}</p>'
            '<details class="mlx-evidence"><summary>The evidence</summary>'
            f"{self.evidence_html()}</details></section>"
        )

    def said(self) -> str:
        """The verdict in a line: Holds. Plan with it. Or: Only if N > 2. Plan with it."""
        return f"{self._word()} {self.headline}"

    def said_html(self) -> str:
        """The same, its word marked with the scale's colour and sign."""
        return f'<b class="mlx-word mlx-{self.kind()}">{self._word()}</b> {html(self.headline)}'

    def _word(self) -> str:
        return self.scale.capitalize() + ("" if self.scale == "only if" else ".")

    def facts(self) -> list[str]:
        """The evidence in parts: its facts, or its paragraphs, between which a line is empty."""
        return self.evidence.split("\n\n") if isinstance(self.evidence, str) else self.evidence

    def evidence_html(self) -> str:
        """Paragraphs, or a list of facts."""
        if isinstance(self.evidence, str):
            return "\n".join(f"<p>{html(part)}</p>" for part in self.facts())
        return "<ul>" + "".join(f"<li>{html(fact)}</li>" for fact in self.facts()) + "</ul>"

    def kind(self) -> str:
        """The word of the scale as style sheets name it."""
        return self.scale.replace(" ", "-")


def verdict(
    claim: str, scale: str, headline: str, *, check: bool, evidence: str | list[str]
) -> Verdict:
    """The verdict on a claim, refused unless `check`, computed in the same cell, is true.

    `scale` is "holds", "roughly", "only if", "wrong" or "undecided". `headline` says in at most 25
    words what to do with the claim; after "only if" its first sentence is the condition, in at most
    12. `evidence` says what was computed: sentences, or a list of facts.
    """
    one_of("claim", claim, claims())
    one_of("scale", scale, SCALE)
    _short("headline", headline, HEADLINE)
    if scale == "only if":
        _short("condition", re.split(r"(?<=[.!?]) ", headline)[0], CONDITION)
    said = Verdict(claim, scale, headline, evidence)
    if not all(fact.strip() for fact in said.facts() or [""]):
        raise InputError(f"evidence = {evidence!r}: expected sentences with the computed numbers")
    if not check:
        raise AssertionError(f"{claim}: the evidence does not support {said.said()!r} ({evidence})")
    return said


def _short(name: str, text: str, most: int) -> None:
    if not 0 < len(text.split()) <= most:
        raise InputError(
            f"{name} = {text!r}: expected 1 to {most} words, and these are {len(text.split())}"
        )


class _Finder(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[Verdict] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if "data-claim" in given:
            names = ("data-claim", "data-scale", "data-headline")
            claim, scale, headline = (given[name] or "" for name in names)
            evidence = json.loads(given["data-evidence"] or "")
            self.found.append(Verdict(claim, scale, headline, evidence))


def verdicts_in(html: str) -> list[Verdict]:
    """The verdicts that a stored output holds."""
    if "data-claim" not in html:  # most hold none, and reading a drawing takes long
        return []
    finder = _Finder()
    finder.feed(html)
    return finder.found
