"""A chapter's copy for JupyterLab, Binder and Colab says in plain Markdown what the page says."""

import json
import os
import re

import contents
import nbformat
import pytest
from pages import CHAPTERS, ROOT, each_chapter
from plain import MOVES, contents_cell, copy, numbers, paper, plain, without_directives, written

ONLY_THE_SITE = re.compile(r"\{[a-z:-]+\}`|^\s*(?:```|:::)|\$\$ \(|^\([\w-]+\)=|\{solution-", re.M)
UNFOLDS = re.compile(r"<details>.*?</details>", re.S)
ANSWER = re.compile(r"```\{solution-start\}.*?\n```\n(.*?)```\{solution-end\}", re.S)
PROSE = re.compile(r"(?!```|:|\$\$|\(|$)")  # neither directive, equation nor label


def copied(path):
    before = json.loads(path.read_text("utf-8"))
    return before, plain(before, contents.page(ROOT, path))


def outputs(cell):
    return ["".join(o.get("data", {}).get("text/html", "")) for o in cell.get("outputs", ())]


def texts(notebook):
    return ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "markdown"]


@each_chapter
def test_a_copy_has_nothing_that_only_the_site_can_read(path):
    before, after = copied(path)
    nbformat.validate(nbformat.from_dict(after))
    for text in texts(after):
        assert ONLY_THE_SITE.findall(text) == []
        assert text.count("<details>") == text.count("</details>") == len(UNFOLDS.findall(text))
    code = [[c for c in n["cells"] if c["cell_type"] == "code"] for n in (before, after)]
    assert code[0] == code[1], "code and outputs are untouched"


@each_chapter
def test_answers_unfold_and_all_else_stands_open(path):
    (before, after), page = copied(path), contents.page(ROOT, path)
    whole = "\n\n".join(texts(after))
    closed, stands_open = "\n".join(UNFOLDS.findall(whole)), UNFOLDS.sub("", whole)
    text = "\n\n".join(texts(before))
    for line in filter(PROSE.match, "\n".join(ANSWER.findall(text)).splitlines()):
        said = without_directives(line, page)
        assert said in closed and said not in stands_open
    for line in filter(PROSE.match, ANSWER.sub("", text).splitlines()):
        assert without_directives(line, page) in whole
    assert len(re.findall(r"<summary>Answer to exercise [\d.]+</summary>", whole)) == text.count(
        "{solution-start}"
    )


@pytest.mark.parametrize(
    ("site", "said"),
    [
        ("the {term}`tokens <token>` of a {term}`rank`", "the tokens of a rank"),
        ("{doc}`pipelines </chapters/pipeline>`", "[pipelines](pipeline.ipynb)"),
        (
            "({doc}`/chapters/precision`), {doc}`/book/plan`",
            "([Precision: how few bits are enough](precision.ipynb)), Plan a run",
        ),
        ("{doc}`the plan </book/plan>`, {ref}`below <there>`", "the plan, below"),
        ("by {eq}`eq-product` and {fig}`three-products`", "by (1.1) and Figure 1.1"),
        ("({ref}`acts-whole`)", f"(Exercise {numbers()['acts-whole']})"),
        ("$$\nF = 2\n$$ (eq-product)", "$$\nF = 2 \\tag{1.1}\n$$"),
        (":::{admonition} A `b`\n:class: note\nx\n:::", "> **A `b`**\n>\n> x"),
        (
            ":::{admonition} A `b`\n:class: dropdown\nx\n:::",
            "<details>\n<summary>A <code>b</code></summary>\n\nx\n\n</details>",
        ),
    ],
)
def test_what_the_site_says_in_markup(site, said):
    assert without_directives(site) == said


def test_papers_are_named_as_the_site_names_them_and_linked():
    assert paper("brown2020") == "[Brown et al., 2020](https://arxiv.org/abs/2005.14165)"
    assert paper("kingma2015").startswith("[Kingma and Ba, 2015]")
    assert "(https://" in paper("lamport1978") and "[Lamport, 1978]" in paper("lamport1978")


def test_pictures_have_their_numbers_below_and_experiments_say_how_they_move():
    before, after = copied(ROOT / "chapters/zero.ipynb")
    stored = "".join(html for cell in before["cells"] for html in outputs(cell))
    added = [c for c in after["cells"] if c["id"].endswith("-below")]
    lines = "".join(texts({"cells": added}))
    assert lines.count(MOVES) == stored.count("data-mlx=") > 1
    assert lines.count("Figure 9.") == stored.count("<figcaption>") > 9


def test_the_contents_lead_to_every_notebook_in_reading_order():
    text = "".join(contents_cell()["source"])
    links = re.findall(r"^- \[(?:(T?\d+) )?[^\]]+\]\((\S+)\)$", text, re.M)
    assert [ROOT / "chapters" / place for _, place in links] == contents.notebooks(ROOT)
    assert links[8] == ("9", "zero.ipynb") and ("T9", "trials/zero.ipynb") in links


def test_a_readers_copy_is_never_lost(tmp_path):
    chapter, folder = tmp_path / CHAPTERS[0].name, tmp_path / "lab"
    mine, page = folder / chapter.name, contents.page(ROOT, CHAPTERS[0])
    chapter.write_text(CHAPTERS[0].read_text("utf-8"), "utf-8")
    os.utime(chapter, ns=(1, 1))
    copy(chapter, mine, page)
    made = written(plain(json.loads(chapter.read_text("utf-8")), page))
    assert mine.read_text("utf-8") == made
    mine.write_text("changed", "utf-8")
    copy(chapter, mine, page)
    assert mine.read_text("utf-8") == "changed"
    os.utime(chapter, ns=(2, mine.stat().st_mtime_ns + 1))
    copy(chapter, mine, page)
    assert mine.read_text("utf-8") == made
    assert (folder / "earlier" / chapter.name).read_text("utf-8") == "changed"
