"""The ledger: every claim of the sources beside the verdict that its chapter's stored outputs hold.

Nothing is typed here. A claim without a verdict in a chapter is open. Numbers are typeset, but for
those of a quotation, which stays as its source has it.
"""

import re
from collections import Counter
from html import escape
from pathlib import Path

import contents
from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from stored import html_outputs

from mathlib.show import says
from mathlib.show.ledger import SCALE, Verdict, claims, quotation, verdicts_in

SOURCES = {  # what each is called in a filter, in full, and in the bibliography
    "interview": (
        "Interview",
        "Latent Space podcast with Quentin Anthony, August 2023, "
        'on EleutherAI\'s "Transformer Math 101"',
        "latentspace2023",
    ),
    "ddp": (
        "DDP blog post",
        "A blog post on PyTorch's DistributedDataParallel, May 2024, after Li et al. (VLDB 2020)",
        "ddpblog2024",
    ),
    "sagemaker": (
        "SageMaker manual",
        'AWS documentation, "Sharded Data Parallelism", SageMaker model parallelism library v1',
        "sagemaker",
    ),
    "pipeline": (
        "Pipeline blog post",
        "A blog post on pipeline parallelism (cnblogs 18270017), June 2024",
        "pipelineblog2024",
    ),
    "megatron": (
        "Megatron guide",
        'NVIDIA, "Megatron Core MoE", the guide of Megatron-LM to models with experts',
        "megatronmoe",
    ),
    "deepep": (
        "DeepEP",
        "README of DeepEP, DeepSeek's library for expert parallelism",
        "deepep2025",
    ),
}
KINDS = {word.replace(" ", "-"): word for word in (*SCALE, "open")}  # the style sheet's names


def stored_verdicts(chapter: Path) -> list[Verdict]:
    """The verdicts in one notebook's stored outputs, in reading order."""
    return [verdict for html in html_outputs(chapter) for verdict in verdicts_in(html)]


def all_verdicts(root: Path) -> dict[str, tuple[Verdict, str]]:
    """Verdict and chapter (as a page's name) of every claim that a chapter has settled."""
    return {
        v.claim: (v, contents.page(root, chapter))
        for chapter in contents.notebooks(root)
        for v in stored_verdicts(chapter)
    }


def kind(verdict: Verdict | None) -> str:
    """One of KINDS."""
    return verdict.kind() if verdict else "open"


def counts(root: Path) -> dict[str, int]:
    """How many claims there are of each kind."""
    settled = all_verdicts(root)
    found = Counter(kind(settled[claim][0] if claim in settled else None) for claim in claims())
    return {name: found[name] for name in KINDS}


def count_bar(found: dict[str, int]) -> str:
    """The counts as a bar with its words beneath it; the words alone say everything."""
    x, boxes, words = 0, [], []
    for name, n in found.items():
        if n:
            boxes.append(f'<rect class="mlx-{name}" x="{x}" y="0" width="{n}" height="1"/>')
            words.append(
                f'<span class="mlx-count"><b>{n}</b> '
                f'<span class="mlx-word mlx-{name}">{KINDS[name]}</span></span>'
            )
        x += n
    return (
        f'<span class="mlx-counts"><svg viewBox="0 0 {x} 1" preserveAspectRatio="none" '
        f'aria-hidden="true" focusable="false">{"".join(boxes)}</svg>'
        f'<span class="mlx-legend">{" ".join(words)}</span></span>'
    )


def row(claim: str, verdict: Verdict | None, address: str) -> str:
    """One claim: number, text and verdict, and on opening the evidence with a link to the run."""
    entry = claims()[claim]
    said = verdict.said_html() if verdict else '<b class="mlx-word mlx-open">Open.</b>'
    more = f"<p>Will be tried: {says.html(entry['test'])}.</p>"
    if verdict:
        more = f'{verdict.evidence_html()}<p><a href="{address}#claim-{claim}">See the run</a></p>'
    return (
        f'<details class="mlx-claim" id="ledger-{claim}" data-source="{entry["source"]}" '
        f'data-verdict="{kind(verdict)}"><summary><b>{claim}</b> '
        f"<span>{says.html(entry['claim'])}</span> <em>{said}</em></summary>"
        f"{quotation(claim)}{more}</details>"
    )


def choices(name: str, legend: str, options: dict[str, str]) -> str:
    """Radio buttons that the style sheet reads; they need no script."""
    made = "".join(
        f'<label><input type="radio" name="{name}" id="{name}-{value}"'
        f"{' checked' if value == 'all' else ''}> {escape(words)}</label>"
        for value, words in {"all": "all", **options}.items()
    )
    return f"<fieldset><legend>{legend}</legend>{made}</fieldset>"


def linked(root: Path, key: str, title: str) -> str:
    """A source's title, as a link where the bibliography has its address."""
    entries = (root / "book/references.bib").read_text("utf-8")
    found = re.search(rf"^@\w+\{{{key},.*\burl=\{{([^}}]+)\}}", entries, re.M)
    return f'<a href="{found[1]}">{escape(title)}</a>' if found else escape(title)


def ledger(root: Path, address_of: dict[str, str]) -> str:
    """The whole ledger: counts, filter, and the claims source by source."""
    settled, found = all_verdicts(root), counts(root)
    sections = []
    for source, (short, title, key) in SOURCES.items():
        rows = []
        for claim, entry in claims().items():
            if entry["source"] == source:
                verdict, page = settled.get(claim, (None, ""))
                rows.append(row(claim, verdict, address_of.get(page, "")))
        sections.append(
            f'<section data-source="{source}" aria-label="{escape(short)}">'
            f'<p class="mlx-source">{linked(root, key, title)} '
            f"<small>{len(rows)} claims</small></p>"
            f"{''.join(rows)}</section>"
        )
    words = {name: word for name, word in KINDS.items() if found[name]}
    sources = {name: short for name, (short, *_) in SOURCES.items()}
    return (
        f'<div class="mlx-ledger"><p class="mlx-total"><b>{len(claims())} claims</b></p>'
        f"{count_bar(found)}"
        f'<div class="mlx-filter">{choices("verdict", "Verdict", words)}'
        f"{choices('source', 'Source', sources)}</div>"
        f"{''.join(sections)}</div>"
    )


class ClaimsLedger(Directive):
    """```{claims-ledger}```: all of it, where this stands."""

    def run(self) -> list[nodes.Node]:
        env: BuildEnvironment = self.state.document.settings.env
        root = Path(env.srcdir)
        chapters = contents.notebooks(root)
        for chapter in chapters:
            env.note_dependency(str(chapter))
        pages = [contents.page(root, chapter) for chapter in chapters]
        address_of = {p: env.app.builder.get_relative_uri(env.docname, p) for p in pages}
        return [nodes.raw("", ledger(root, address_of), format="html")]


def setup(app: Sphinx) -> dict:
    app.add_directive("claims-ledger", ClaimsLedger)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
