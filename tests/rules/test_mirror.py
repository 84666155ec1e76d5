"""What is added is found by itself; what a person must write anyway is asked for in a sentence."""

import re
from pathlib import Path

import pytest
import whereabouts

from mathlib.show.experiments import registry
from mathlib.show.ledger import claims

ROOT = Path(__file__).resolve().parents[2]
LIBRARY, TESTS = ROOT / "mathlib", ROOT / "tests"
MODULES = sorted(path for path in LIBRARY.rglob("[!_]*.py"))
CHAPTERS = whereabouts.notebooks()
NO_CLAIM = {
    "roofline",
    "sequences",
}  # the one says why of compute's C05, C06; of the other nobody claims


def room(path: Path) -> str:
    return "base" if path.parent == LIBRARY else path.parent.relative_to(LIBRARY).as_posix()


def test_a_module_has_a_test_of_its_name():
    for module in MODULES:
        wanted = TESTS / room(module) / f"test_{module.stem}.py"
        found = list(wanted.parent.glob(f"test_{module.stem}*.py"))
        assert found, f"write {wanted.relative_to(ROOT)}"


def test_a_test_stands_where_its_module_stands():
    rooms = {room(path) for path in MODULES}
    for path in TESTS.rglob("test_*.py"):
        place = path.parent.relative_to(TESTS).as_posix()
        if place in rooms:
            leaf = path.stem.removeprefix("test_")
            names = [m.stem for m in MODULES if room(m) == place]
            assert any(leaf == name or leaf.startswith(f"{name}_") for name in names), (
                f"{path.relative_to(ROOT)}: mathlib/{place} has no such module; "
                f"name the test after one of {', '.join(names)}"
            )


@pytest.mark.parametrize("word", CHAPTERS)
def test_a_chapter_has_what_belongs_to_it(word):
    path = CHAPTERS[word]
    told = f"{path.stem} is a chapter: "
    assert (LIBRARY / "explore" / f"{word}.py").exists(), f"{told}write mathlib/explore/{word}.py"
    agreement = TESTS / "agreement" / f"test_{word}.py"
    assert agreement.exists(), f"{told}write tests/agreement/test_{word}.py, formula beside run"
    assert word in NO_CLAIM or any(row["chapter"] == word for row in claims().values()), (
        f"{told}no claim of data/claims.toml names {word!r} as its chapter"
    )
    index = (ROOT / "book" / "index.md").read_text("utf-8")
    card = f"{{chapter-card}} {path.stem}"
    assert card in index, f"{told}give it a card in book/index.md that says what it is good for"
    toc = (ROOT / "_toc.yml").read_text("utf-8")
    assert f"chapters/{path.stem}" in toc, f"{told}add it to _toc.yml"


def test_an_experiment_is_shown_by_its_chapter_or_trial():
    shown = {
        id: path.stem
        for path in whereabouts.contents.notebooks(ROOT)
        for id in re.findall(r"explore\(\\\"([\w-]+)\\\"", path.read_text("utf-8"))
    }
    pages = "".join(page.read_text("utf-8") for page in (ROOT / "book").glob("*.md"))
    for id, experiment in registry().items():
        word = experiment.draw.__module__.rpartition(".")[2]  # together_prover: of together
        if f"{{experiment}} {id}\n" in pages:
            continue
        assert id in shown and word in (shown[id], f"{shown[id]}_{word.partition('_')[2]}"), (
            f"show it: explore({id!r}) in a cell of the chapter {word}, or of its trial"
        )


def test_every_bench_and_every_page_is_told_nowhere_else():
    toc = (ROOT / "_toc.yml").read_text("utf-8")
    for page in (ROOT / "book").glob("*.md"):
        assert f"book/{page.stem}" in toc, f"book/{page.name} is in no table of contents: _toc.yml"
