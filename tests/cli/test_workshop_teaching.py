"""book/teaching.md: all chapters in order, every puzzle once, and a folder graded as it says."""

import json
import re
from pathlib import Path

import pytest
from solutions import edited

import mathlib
from mathlib.workshop import grade

ROOT = Path(mathlib.__file__).parent.parent
PAGE = (ROOT / "book" / "teaching.md").read_text("utf-8")
TOC = re.findall(r"file: chapters/(\w+)$", (ROOT / "_toc.yml").read_text("utf-8"), re.M)
WEEKS = re.split(r"^### Week \d+: ", PAGE.partition("\n## A week")[0], flags=re.M)[1:]
READ = [re.findall(r"</chapters/(\w+)>", week) for week in WEEKS]
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.M | re.S)


def of(verb):
    """The puzzles of each week's line that begins so."""
    found = [re.search(rf"^- {verb} (.*)$", week, re.M) for week in WEEKS]
    return [re.findall(r"`([\w-]+)`", line[1]) if line else [] for line in found]


def test_ten_weeks_take_the_chapters_in_their_order():
    assert len(WEEKS) == 10 and [word for week in READ for word in week] == TOC
    for name, word in re.findall(r"{doc}`([^<]+) </chapters/(\w+)>`", PAGE):
        cells = json.loads((ROOT / f"chapters/{word}.ipynb").read_text("utf-8"))["cells"]
        assert "".join(cells[0]["source"]).startswith(f"# {name}:"), word


@pytest.mark.parametrize(("verb", "case"), [("Write", False), ("Find the fault of", True)])
def test_every_puzzle_has_its_week_when_its_chapter_has_been_read(verb, case):
    weeks = of(verb)
    names = [one.name for one in grade.every() if bool(one.thread) == case]
    assert sorted(name for week in weeks for name in week) == sorted(names)
    for week, own in enumerate(weeks):
        read = {word for words in READ[: week + 1] for word in words}
        assert {grade.find(name).chapter for name in own} <= read


def test_a_folder_is_graded_as_the_page_shows(run, tmp_path, monkeypatch):
    (_, files), (_, typed), (_, data) = BLOCKS
    texts = {
        "ada/ring.py": edited("ring"),
        "ada/zero1.py": edited("zero1", (" / me.size", "")),
        "bob/ring.py": grade.find("ring").start,
        "bob/tied.py": edited("tied"),
        "bob/notes.py": "",
    }
    assert files.split() == [f"course/{name}" for name in texts]
    for name, text in texts.items():
        path = tmp_path / "course" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    monkeypatch.chdir(tmp_path)
    command, table = typed.split("\n", 1)
    assert command == "$ mathlib grade --all course"
    code, out, err = run("grade --all course")
    assert (code, out, err) == (1, table, "")
    assert run("grade --all course --json")[1] == data
