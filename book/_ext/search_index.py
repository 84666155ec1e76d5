"""What the search knows: sections, equations, experiments, words of the glossary, claims; no stored
code, no tool bars.

Other names of a word are the further terms of its glossary entry. The search page alone loads the
file; book/live/search.mjs ranks what is in it.
"""

import json
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any
from unicodedata import lookup

import places
from claims_ledger import all_verdicts
from docutils import nodes
from figures import before
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

from mathlib.show.experiments import find
from mathlib.show.ledger import Verdict, claims, verdicts_in

FILE = "sections.json"
KINDS = {"chapters/trials/": "trial", "chapters/": "section", "book/map": "map"}  # first that fits
NOT_TEXT = (nodes.literal_block, nodes.raw, nodes.title, nodes.comment, nodes.target)
BLOCKS = (nodes.paragraph, nodes.entry, nodes.list_item, nodes.term, nodes.definition)
SIGNS = {  # of formulas, as people type them; Greek letters beside these
    "cdot": "·", "times": "×", "approx": "≈", "le": "≤", "ge": "≥", "sum": "Σ", "to": "→",
    "partial": "∂", "quad": " ", ",": " ", ";": " ", "%": "%",
}  # fmt: skip
CAPTION = re.compile(r"<figcaption>(.*?)</figcaption>", re.S)
EXPERIMENT = r'data-mlx="\{&quot;id&quot;: &quot;([\w-]+)&quot;'
INSIDE = r"(?:[^{}]|\{[^{}]*\})*"  # braces, with braces in them


def formula(tex: str) -> str:
    """A formula as a line of text: fractions with a stroke, no commands."""
    text = re.sub(r"\\(?:begin|end)\{[^{}]*\}", "", tex)
    text = re.sub(r"\\(?:text|mathrm|operatorname|mathbf)\{([^{}]*)\}", r"\1", text)
    for _ in range(3):  # fractions in fractions
        text = re.sub(rf"\\[dt]?frac\{{({INSIDE})\}}\{{({INSIDE})\}}", r"(\1)/(\2)", text)
    text = re.sub(r"\((\w+)\)/\((\w+)\)", r"\1/\2", text)
    text = re.sub(r"\\([a-zA-Z]+|[,;%])", lambda command: sign(command[1]), text)
    return re.sub(r"\s+", " ", re.sub(r"[{}\\&]", "", text)).strip()


def sign(command: str) -> str:
    """What a command stands for; nothing if it only says how to write."""
    case = "CAPITAL" if command.istitle() else "SMALL"
    try:
        return SIGNS.get(command) or lookup(f"GREEK {case} LETTER {command}")
    except KeyError:
        return ""


def words(node: nodes.Node) -> Iterator[str]:
    """The text of a node, in reading order, with captions; without code and subsections."""
    for child in node.children:
        if isinstance(child, nodes.math | nodes.math_block):
            yield formula(child.astext())
        elif isinstance(child, nodes.Text):
            yield child.astext()
        elif isinstance(child, nodes.Element) and child.get("nb_element") == "cell_code":
            for raw in child.findall(nodes.raw):
                for said in verdicts_in(raw.astext()):
                    yield f" {said.claim}: {claims()[said.claim]['claim']}. {in_words(said)} "
                for caption in CAPTION.findall(raw.astext()):
                    yield f" {unescape(re.sub('<[^>]*>', '', caption))} "
        elif isinstance(child, addnodes.pending_xref) and child["refdomain"] in ("cite", "math"):
            continue  # a key of the bibliography, a label of a formula: numbers come later
        elif not isinstance(child, NOT_TEXT) and not places.title_of(child):
            yield from words(child)
            yield " " if isinstance(child, BLOCKS) else ""


def in_words(said: Verdict) -> str:
    """A verdict with its evidence, as text."""
    return " ".join((said.said(), *said.facts()))


def text_of(node: nodes.Node) -> str:
    text = re.sub(r"\s+", " ", "".join(words(node))).replace(" ()", "")  # a reference left out
    return re.sub(r" ([,;:)]|[.?!](?!\w))", r"\1", text).strip()


def named(env: BuildEnvironment, page: str) -> str:
    """The page's title, with the chapter's number before it: 7. MiCS."""
    number = env.toc_secnumbers.get(page, {}).get("", ())
    return "".join(f"{part}. " for part in number) + env.titles[page].astext()


def of_page(app: Sphinx, page: str) -> Iterator[dict[str, Any]]:
    """A record for each section of a page; of the glossary, one for each word."""
    env, doctree = app.env, app.env.get_doctree(page)
    address, whole = app.builder.get_target_uri(page), named(env, page)
    kind = next((kind for place, kind in KINDS.items() if page.startswith(place)), "page")
    for section in doctree.findall(nodes.section):
        title = places.title_of(section)
        if not title:
            continue
        text = "" if page == "book/glossary" else text_of(section)
        top = isinstance(section.parent, nodes.document)
        anchor = "" if top else f"#{section['ids'][0]}"
        found = {"url": address + anchor, "page": whole, "title": title, "text": text, "kind": kind}
        yield found
        yield from experiments(section, found)
    yield from equations(app, page, address, whole)
    if page == "book/glossary":
        yield from glossary(env, doctree, address, whole)


def experiments(section: nodes.section, found: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Those of a section, by their titles and controls; the section is their place."""
    for cell in (node for node in section.children if node.get("nb_element") == "cell_code"):
        for name in re.findall(
            EXPERIMENT, " ".join(raw.astext() for raw in cell.findall(nodes.raw))
        ):
            shown = find(name)
            labels = ", ".join(control.label for control in shown.controls)
            title, text = f"Experiment: {shown.title}", f"Settings: {labels}."
            yield {**found, "title": title, "text": text, "kind": "experiment"}


def equations(app: Sphinx, page: str, address: str, whole: str) -> Iterator[dict[str, Any]]:
    """The numbered ones of a page, by number, label and formula."""
    for node in app.env.get_doctree(page).findall(nodes.math_block):
        if label := node.get("label"):
            number = f"{before(Path(app.confdir), page)}{node['number']}"
            yield {
                "url": f"{address}#{node['ids'][0]}",
                "page": whole,
                "title": f"Equation {number}: {label.removeprefix('eq-').replace('-', ' ')}",
                "text": formula(node.astext()),
                "kind": "equation",
            }


def glossary(
    env: BuildEnvironment, doctree: nodes.document, address: str, whole: str
) -> Iterator[dict[str, Any]]:
    """Words with their other names, and the section that introduces them."""
    for item in doctree.findall(nodes.definition_list_item):
        terms = [child for child in item if isinstance(child, nodes.term)]
        names = [term.next_node(nodes.Text).astext() for term in terms]
        made = {
            "url": f"{address}#{terms[0]['ids'][0]}",
            "page": whole,
            "title": ", ".join(names),
            "text": text_of(item[-1]),
            "kind": "word",
            "names": names,
        }
        for place in list(item.findall(places.At))[:1]:
            where = place["page"]
            made["first"] = f"{where}.html{places.find(env, where, place['section'])}"
        yield made


def of_ledger(app: Sphinx) -> Iterator[dict[str, Any]]:
    """A record for each claim."""
    settled = all_verdicts(Path(app.srcdir))
    for claim, entry in claims().items():
        said = settled[claim][0] if claim in settled else None
        verdict = in_words(said) if said else "open"
        yield {
            "url": f"{app.builder.get_target_uri('book/ledger')}#ledger-{claim}",
            "page": "The claims ledger",
            "title": f"Claim {claim}",
            "text": f"{entry['claim']}. Verdict: {verdict}",
            "kind": "claim",
        }


def records(app: Sphinx) -> list[dict[str, Any]]:
    pages = sorted(app.env.found_docs)
    return [*(one for page in pages for one in of_page(app, page)), *of_ledger(app)]


def write(app: Sphinx, error: Exception | None) -> None:
    if error is None and app.builder.format == "html":
        text = json.dumps(records(app), ensure_ascii=False, separators=(",", ":"))
        (Path(app.outdir) / FILE).write_text(text, "utf-8")


def add_script(
    app: Sphinx, pagename: str, templatename: str, context: dict, doctree: object
) -> None:
    if pagename == "search":
        app.add_js_file(f"{app.config.livebook_folder}/search.mjs", type="module")


def setup(app: Sphinx) -> dict:
    app.connect("html-page-context", add_script)
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
