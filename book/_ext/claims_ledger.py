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
from mathlib.show.ledger import Verdict, claims, quotation, verdicts_in

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
WORST_FIRST = ("wrong", "only if", "roughly", "undecided", "holds", "open")
KINDS = {word.replace(" ", "-"): word for word in WORST_FIRST}  # by the style sheet's names


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
    """The counts as a bar with its words beneath it; the words alone say everything. Each part has
    a pattern of its own, which its word repeats.
    """
    kept = {name: n for name, n in found.items() if n}
    boxes = "".join(f'<i class="mlx-{name}" style="flex-grow:{n}"></i>' for name, n in kept.items())
    words = " ".join(
        f'<span class="mlx-count"><i class="mlx-{name}"></i> <b>{n}</b> '
        f'<span class="mlx-word mlx-{name}">{KINDS[name]}</span></span>'
        for name, n in kept.items()
    )
    return (
        f'<span class="mlx-counts"><span class="mlx-bar" aria-hidden="true">{boxes}</span>'
        f'<span class="mlx-legend">{words}</span></span>'
    )


def row(claim: str, verdict: Verdict | None, address: str, source: str) -> str:
    """One claim: number, text, verdict, and who says it; on opening the evidence, with links to the
    run and to the source.
    """
    entry = claims()[claim]
    said = verdict.said_html() if verdict else '<b class="mlx-word mlx-open">Open.</b>'
    more = f"<p>Will be tried: {says.html(entry['test'])}. Source: {source}</p>"
    if verdict:
        run = f'<a href="{address}#claim-{claim}">See the run</a>'
        more = f"{verdict.evidence_html()}<p>{run}. Source: {source}</p>"
    return (
        f'<details class="mlx-claim" id="ledger-{claim}" data-source="{entry["source"]}">'
        f"<summary><b>{claim}</b> <span>{says.html(entry['claim'])}</span> <em>{said} "
        f"<small>{escape(SOURCES[entry['source']][0])}</small></em></summary>"
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
    """The whole ledger: counts, filter, and the claims verdict by verdict, the wrong ones first."""
    settled, found = all_verdicts(root), counts(root)
    sources = {name: linked(root, key, title) for name, (_, title, key) in SOURCES.items()}
    rows: dict[str, list[str]] = {name: [] for name in KINDS}
    for claim, entry in claims().items():
        verdict, page = settled.get(claim, (None, ""))
        made = row(claim, verdict, address_of.get(page, ""), sources[entry["source"]])
        rows[kind(verdict)].append(made)
    sections = "".join(
        f'<section data-verdict="{name}" aria-label="{word}"><p class="mlx-judged">'
        f'<span class="mlx-word mlx-{name}">{word.capitalize()}</span> <small>{found[name]} '
        f"{'claims' if found[name] > 1 else 'claim'}</small></p>{''.join(rows[name])}</section>"
        for name, word in KINDS.items()
        if found[name]
    )
    words = {name: word for name, word in KINDS.items() if found[name]}
    shorts = {name: short for name, (short, *_) in SOURCES.items()}
    told = Counter(entry["source"] for entry in claims().values())
    listed = "".join(f"<li>{sources[name]}, {told[name]} claims</li>" for name in SOURCES)
    return (
        f'<div class="mlx-ledger"><p class="mlx-total"><b>{len(claims())} claims</b></p>'
        f"{count_bar(found)}"
        f'<div class="mlx-filter">{choices("verdict", "Verdict", words)}'
        f"{choices('source', 'Source', shorts)}</div>"
        f'{sections}<p class="mlx-judged">The sources</p><ul>{listed}</ul></div>'
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
