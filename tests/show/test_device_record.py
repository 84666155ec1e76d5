"""A page shows what a device did, where one was recorded: tried with a CPU's own record."""

import importlib
import json
import re
from pathlib import Path

import pytest
from pages import CHAPTERS, code_cells

from mathlib.checks import InputError
from mathlib.meters import residuals
from mathlib.show import device_record, says
from mathlib.show.device_record import recorded

ROOT = Path(__file__).parents[2]
LINE = [2e9, 6e9, 9e9, 3e9]
ASKING = [c for path in CHAPTERS for c in code_cells(path) if c.source.startswith("recorded(")]


@pytest.fixture(scope="module")
def record():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "bench")
        return importlib.import_module("device").record("cpu", quick=True)


@pytest.fixture
def folder(record, tmp_path):
    held = residuals.Held(8e9, workspace=1, requested=9, allocated=10, reserved=11, used=12)
    other = record | {"date": "2020-01-01", "device": "an older one"}
    other |= {"memory": [{"parts": dict(held.parts().items()), "timeline_bytes": LINE}]}
    (tmp_path / "2026-cpu.json").write_text(json.dumps(record))
    (tmp_path / "z.json").write_text(json.dumps(other))
    (tmp_path / "races.json").write_text(json.dumps({"date": "2099-01-01", "sections": {}}))
    return tmp_path


def test_chapters_show_a_record_where_there_is_one_and_else_nothing(folder, tmp_path, monkeypatch):
    (tmp_path / "chapters").mkdir()
    (tmp_path / "bench/results").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "chapters")
    assert [cell.id for cell in ASKING if eval(cell.source) is not None] == []
    for file in folder.glob("*.json"):
        file.rename(tmp_path / "bench/results" / file.name)
    shown = [repr(eval(cell.source)) for cell in ASKING]
    assert len(shown) == 3 and all("bench/device.py" in words for words in shown)
    assert "decoding" not in shown[0], "only what the page asks for"


def test_every_section_of_the_bench_can_be_shown(record, folder):
    sections = [section.__name__ for section in importlib.import_module("device").SECTIONS]
    assert set(sections) == set(device_record.MEANS) == set(device_record.ROWS)
    words = repr(recorded(*sections, folder=folder))
    by = f"{record['device']}, {record['date']}, {record['command']}"
    assert words.count(by) == len(sections)
    for one in record["matmuls"]:
        assert says.speed(one["flop_per_second"]) in words
    for one in record["kept"]:
        assert words.count(says.size(one["saved_bytes"])) >= 2, "formula and run"
    for one in record["decode"]:
        for rate in ("formula_tokens_per_second", "tokens_per_second"):
            assert one[rate] > 0 and says.cell(one[rate]) in words
    assert "a CPU keeps no account" in words


def test_the_newest_device_is_shown(folder, record):
    assert device_record.newest(folder)["device"] == record["device"]
    (folder / "2026-cpu.json").unlink()
    shown = recorded("memory", folder=folder)
    words = repr(shown)
    assert "an older one, 2020-01-01" in words
    assert "workspace of matmuls" in words and "foreseen" in words
    assert re.search(r"all that is gone +12 B\n", words)
    picture = shown._repr_html_().split("</table>")[1]
    assert all(says.size(size) in picture for size in LINE) and "foreseen" in picture


def test_a_section_that_nobody_records_is_refused(tmp_path):
    with pytest.raises(InputError, match="section = 'power'"):
        recorded("power", folder=tmp_path)
