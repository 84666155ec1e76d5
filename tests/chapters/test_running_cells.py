"""Cells that run in the page show there what their notebooks store: each is run with those that it
needs, by a Python that has the browser's archive and no package at all.
"""

import json
import subprocess
import sys
import zipfile
from io import BytesIO

import cells
import pytest
from archive import cells_zip
from pages import ROOT

RUN = """
import json, sys
sys.path.insert(0, sys.argv[1])
from mathlib.show import cells

def shown(sources, at):
    printed, value, failed = cells.run(sources, at)
    html = value._repr_html_() if hasattr(value, "_repr_html_") else ""
    return printed, html, "" if html or value is None else repr(value), failed

print(json.dumps([[shown(code, at) for at in places] for code, places in json.load(sys.stdin)]))
"""
CHAPTERS = cells.chapters(ROOT)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """The library as the browser has it for cells."""
    folder = tmp_path_factory.mktemp("library")
    zipfile.ZipFile(BytesIO(cells_zip(ROOT / "mathlib"))).extractall(folder)
    return folder


def ran(library, every):
    """What cells at places of chapters show, in one process: neither torch nor any package."""
    command = [sys.executable, "-I", "-S", "-c", RUN, library]
    told = subprocess.run(command, input=json.dumps(every), capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    return json.loads(told.stdout)


def stored(cell):
    """What a notebook holds of a cell: text, HTML, a value in words."""
    found = {"text": "", "text/html": "", "text/plain": ""}
    for output in cell["outputs"]:
        data = output.get("data", {"text": output.get("text", "")})
        kind = "text/html" if "text/html" in data else next(iter(data))
        found[kind] += "".join(data[kind])
    return [*found.values(), ""]


def test_every_running_cell_shows_what_is_stored(library):
    every = [(cells.sources(one), cells.running(ROOT, one)) for one in CHAPTERS]
    for chapter, (code, places), found in zip(CHAPTERS, every, ran(library, every), strict=True):
        held = cells.code_cells(chapter)
        for at, shown in zip(places, found, strict=True):
            assert shown == stored(held[at]), f"{chapter.name}:\n{code[at]}"


def test_the_check_has_no_torch(library):
    ((torch, value),) = ran(library, [(["import torch", "a = 1", "a + 1"], [0, 2])])
    assert "No module named 'torch'" in torch[3]
    assert value == ["", "", "2", ""]


def test_half_of_what_stands_open_runs_and_some_of_each_chapter():
    counts = {one.stem: (len(cells.running(ROOT, one)), len(cells.opened(one))) for one in CHAPTERS}
    running, opened = (sum(pair) for pair in zip(*counts.values(), strict=True))
    assert all(some for some, _ in counts.values()), counts
    assert running / opened > 0.45, counts


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("itertools.product", True),
        ("torch.nn", False),
        ("matplotlib.pyplot", False),
        ("subprocess", False),
        ("mathlib.launch", False),
        ("mathlib.traffic.comm", True),
        ("mathlib.show.explore", False),
        ("mathlib.trials.unequal", True),
        ("mathlib.trials.unequal.said", True),
        ("mathlib.trials.zero", False),
        ("mathlib.trials.planning_gpus", True),
    ],
)
def test_what_a_cell_may_import(name, there):
    assert cells.in_browser(ROOT, name) is there
