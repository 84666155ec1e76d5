"""The ledger: every claim of the sources beside the verdict that its chapter's stored outputs hold.

Nothing is typed here. A claim without a verdict in a chapter is open.
"""

import json
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

from mathlib.show.ledger import FORMS, Verdict, claims, verdicts_in

SOURCES = {
    "interview": "Latent Space podcast with Quentin Anthony, August 2023, "
    'on EleutherAI\'s "Transformer Math 101"',
    "ddp": "A blog post on PyTorch's DistributedDataParallel, May 2024, "
    "after Li et al. (VLDB 2020)",
    "sagemaker": 'AWS documentation, "Sharded Data Parallelism", '
    "SageMaker model parallelism library v1",
    "pipeline": "A blog post on pipeline parallelism (cnblogs 18270017), June 2024",
}
COLUMNS = ("Claim", 45), ("Verdict", 20), ("Evidence", 35)


def stored_verdicts(chapter: Path) -> list[Verdict]:
    """The verdicts in one notebook's stored outputs, in reading order."""
    cells = json.loads(chapter.read_text("utf-8"))["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    return [
        v for o in outputs for v in verdicts_in("".join(o.get("data", {}).get("text/html", "")))
    ]


def all_verdicts(root: Path) -> dict[str, tuple[Verdict, str]]:
    """Verdict and chapter (as a page's name) of every claim that a chapter has settled."""
    return {
        v.claim: (v, f"chapters/{chapter.stem}")
        for chapter in sorted((root / "chapters").glob("[0-9]*.ipynb"))
        for v in stored_verdicts(chapter)
    }


def row(app: Sphinx, page: str, claim: str, settled: dict[str, tuple[Verdict, str]]) -> nodes.row:
    """One claim: number and text, verdict, evidence with a link to the cell."""
    said = nodes.paragraph(
        "", "", nodes.strong("", claim), nodes.Text(" " + claims()[claim]["claim"])
    )
    if claim in settled:
        verdict, chapter = settled[claim]
        address = app.builder.get_relative_uri(page, chapter) + f"#claim-{claim}"
        link = nodes.reference("", "see the run", refuri=address, internal=True)
        middle = nodes.paragraph("", "", nodes.strong("", verdict.words))
        right = nodes.paragraph("", "", nodes.Text(verdict.evidence + " "), link)
    else:
        middle = nodes.paragraph("", "open")
        right = nodes.paragraph(
            "", "", nodes.emphasis("", "Will be tried: " + claims()[claim]["test"] + ".")
        )
    return nodes.row("", *[nodes.entry("", cell) for cell in (said, middle, right)])


def table(rows: list[nodes.row]) -> nodes.table:
    head = nodes.row("", *[nodes.entry("", nodes.paragraph("", name)) for name, _ in COLUMNS])
    group = nodes.tgroup(
        "",
        *[nodes.colspec(colwidth=width) for _, width in COLUMNS],
        nodes.thead("", head),
        nodes.tbody("", *rows),
        cols=len(COLUMNS),
    )
    return nodes.table("", group, classes=["mlx-ledger"])


class Pending(nodes.General, nodes.Element):
    """Where the ledger will stand; addresses of chapters are known only when pages are written."""


class ClaimsLedger(Directive):
    def run(self) -> list[nodes.Node]:
        env: BuildEnvironment = self.state.document.settings.env
        for chapter in (Path(env.srcdir) / "chapters").glob("*.ipynb"):
            env.note_dependency(str(chapter))
        return [Pending()]


def fill(app: Sphinx, doctree: nodes.document, page: str) -> None:
    for pending in list(doctree.findall(Pending)):
        settled = all_verdicts(Path(app.srcdir))
        kinds = [v.words for v, _ in settled.values()]
        counts = [
            sum(words == FORMS[0] for words in kinds),
            *(sum(w.startswith(f) for w in kinds) for f in FORMS[1:]),
        ]
        summary = (
            f"{len(claims())} claims: {counts[0]} hold, {counts[1]} hold under a condition, "
            f"{counts[2]} are wrong, "
            f"{len(claims()) - len(settled)} are open."
        )
        made: list[nodes.Node] = [nodes.paragraph("", "", nodes.strong("", summary))]
        for source, title in SOURCES.items():
            mine = [claim for claim, entry in claims().items() if entry["source"] == source]
            made += [
                nodes.rubric("", title),
                table([row(app, page, claim, settled) for claim in mine]),
            ]
        pending.replace_self(made)


def setup(app: Sphinx) -> dict:
    app.add_node(Pending)
    app.add_directive("claims-ledger", ClaimsLedger)
    app.connect("doctree-resolved", fill)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
