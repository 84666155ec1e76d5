"""The book as one PDF, of two pages of it: numbers, links, solutions, nothing blank."""

import re
import subprocess
import sys

import pdf
import pytest
from pages import ROOT, toc_pages
from pypdf import PdfReader

PAGES = "chapters/roofline", "chapters/trials/roofline"
LINE = re.compile(r"^(.*\S)\s+(\d+)$")


@pytest.fixture(scope="module")
def file(site, tmp_path_factory) -> PdfReader:
    path = tmp_path_factory.mktemp("pdf") / "book.pdf"
    command = [sys.executable, ROOT / "tools/pdf.py", site, path, "--only", *PAGES]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "2 of 2: chapters/trials/roofline" in done.stdout
    return PdfReader(path)


@pytest.fixture(scope="module")
def texts(file) -> list[str]:
    return [" ".join(page.extract_text().split()) for page in file.pages]


def test_each_line_of_the_contents_names_the_page_where_it_begins(file, texts):
    front = file.page_labels.index("1")
    contents = [i for i in range(front) if "Contents" in texts[i]]
    lines = [
        found.groups()
        for i in contents
        for found in map(LINE.match, file.pages[i].extract_text().split("\n"))
        if found
    ]
    assert len(lines) > 10
    for title, number in lines:
        words = re.sub(r"[\W_]+", "", title)
        assert words in re.sub(r"[\W_]+", "", texts[front + int(number) - 1]), title


def test_pages_are_numbered_and_none_is_blank(file, texts):
    front = file.page_labels.index("1")
    for i, text in enumerate(texts[front:], 1):
        assert re.search(rf"\b{i}$", text), f"page {i} has its number at its foot"
        assert len(text) > 100, f"page {i}"
    assert all(len(text) > 50 for text in texts[:front])


def test_links_inside_go_to_pages_and_none_to_the_machine_that_printed(file):
    notes = [n.get_object() for page in file.pages for n in page.get("/Annots", [])]
    pages = {page.indirect_reference.idnum for page in file.pages}
    inside = [note["/Dest"][0].idnum for note in notes if "/Dest" in note]
    assert len(inside) > 20 and set(inside) <= pages
    outside = [note["/A"]["/URI"] for note in notes if "/A" in note]
    assert not [uri for uri in outside if "127.0.0.1" in uri]


def test_a_link_to_the_other_page_goes_there(file, texts):
    front = file.page_labels.index("1")
    trial = next(i for i in range(front, len(texts)) if "on trial" in texts[i][:200])
    chapter = range(front, trial)
    number = {page.indirect_reference.idnum: i for i, page in enumerate(file.pages)}
    notes = [n.get_object() for i in chapter for n in file.pages[i].get("/Annots", [])]
    assert any(number[note["/Dest"][0].idnum] >= trial for note in notes if "/Dest" in note)


def test_solutions_stand_at_the_end_of_their_chapter(texts):
    solutions = [i for i, text in enumerate(texts) if "Solution to Exercise" in text]
    exercises = [i for i, text in enumerate(texts) if re.search(r"(?<!to )Exercise \d", text)]
    assert max(set(exercises) - set(solutions)) < min(solutions)
    assert texts[min(solutions)].startswith("Solutions")


def test_the_outline_has_parts_chapters_and_sections(file):
    part, (chapter, sections, *_), *_ = file.outline
    assert part.title == "One device" and chapter.title.startswith("5. ")
    assert sections[0].title.startswith("5.1. ")


def test_the_ledger_leads_the_appendix_and_what_is_left_out_is_named_with_its_address(texts):
    appendix = pdf.book()["Appendix: claims on trial"]
    assert appendix[:2] == ["book/ledger", "chapters/trials/compute"]
    every = {page for of in pdf.book().values() for page in of} | set(pdf.LEFT_OUT)
    assert every == set(toc_pages()) - {"book/index"}
    contents = next(text for text in texts if "On the site alone" in text)
    assert "Plan a run book/plan.html" in contents and "book/map.html" in contents
    assert next(iter(pdf.elsewhere("https://a.b/"))) == "https://a.b/book/plan.html"


def test_what_is_missing_is_named(tmp_path):
    with pytest.raises(SystemExit, match=r"expected chapters/roofline.html in it; run `make html`"):
        pdf.bind(tmp_path, pdf.parts(["chapters/roofline"]), "")
    with pytest.raises(SystemExit, match="--only chapters/none: expected some of"):
        pdf.parts(["chapters/none"])
