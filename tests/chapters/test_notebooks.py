"""Every chapter is stored in the one form that `make chapters` writes: executed in order, nothing
of the day in it.
"""

import ast
import json
import re
import sys
import tomllib
from importlib.metadata import packages_distributions

import nbformat
from notebooks import in_solution, normalised, written
from pages import CHAPTERS, ROOT, code_cells, each_chapter

LONGEST_CELL, LONGEST_FOLDED = 15, 20  # lines; a folded cell is shown on request
LONGEST_VERDICT = 30  # of a check and one fact a line
WIDEST = 88  # columns of what stands open, or in a solution
TIMES = re.compile(
    r"\b(perf_counter|monotonic|time\.time|timeit|process_time|throughput)\b|seconds"
)


@each_chapter
def test_stored_in_normal_form(path):
    stored = path.read_text("utf-8")
    assert stored == written(normalised(nbformat.reads(stored, as_version=4))), (
        "run `python tools/notebooks.py --no-run`"
    )


@each_chapter
def test_executed_from_top_to_bottom(path):
    assert [cell.execution_count for cell in code_cells(path)] == list(
        range(1, len(code_cells(path)) + 1)
    )
    assert any(cell.outputs for cell in code_cells(path)), "no stored output"


@each_chapter
def test_no_error_and_no_stderr_is_published(path):
    for cell in code_cells(path):
        for output in cell.outputs:
            assert output.output_type != "error", output.get("ename")
            assert output.get("name") != "stderr", output.get("text", "")[:200]


@each_chapter
def test_no_widget_state_and_no_address_in_memory(path):
    text = path.read_text("utf-8")
    assert "widget-view" not in text and "widget-state" not in text
    assert not re.search(r"\bat 0x[0-9a-f]{6,}", text)


@each_chapter
def test_no_path_of_a_machine(path):
    assert not re.search(
        r"(/home/|/root/|/Users/|/work/|/tmp/|site-packages)", path.read_text("utf-8")
    )


@each_chapter
def test_no_page_speaks_of_what_is_not_there_yet(path):
    promise = r"not recorded|has its place here|No GPU yet|what is missing</th>|coming soon|TODO"
    assert re.findall(promise, path.read_text("utf-8")) == []


@each_chapter
def test_cells_are_short_and_end_without_semicolon(path):
    cells = nbformat.read(path, as_version=4).cells
    for cell, folded in zip(cells, in_solution(cells), strict=True):
        if cell.cell_type == "markdown":
            continue
        assert not cell.source.rstrip().endswith(";"), cell.source
        hidden, lines = "hide-input" in cell.metadata.get("tags", []), cell.source.splitlines()
        most = LONGEST_FOLDED if folded or hidden else LONGEST_CELL
        most = LONGEST_VERDICT if hidden and "verdict(" in cell.source else most
        assert len(lines) <= most, cell.source
        assert hidden or all(len(line) <= WIDEST for line in lines), cell.source


@each_chapter
def test_jupyterlab_folds_what_the_site_folds(path):
    cells = nbformat.read(path, as_version=4).cells
    for cell, solution in zip(cells, in_solution(cells), strict=True):
        tags, hidden = cell.metadata.get("tags", []), cell.metadata.get("jupyter", {})
        code = cell.cell_type == "code"
        source = code and (solution or "hide-input" in tags or "hide-cell" in tags)
        outputs = code and (solution or "hide-output" in tags or "hide-cell" in tags)
        assert hidden.get("source_hidden", False) == source, cell.source
        assert hidden.get("outputs_hidden", False) == outputs, cell.source
    text = "".join(cell.source for cell in cells if cell.cell_type == "markdown")
    assert text.count("{solution-start}") == text.count("{solution-end}")
    assert any(in_solution(cells)) == (path.parent.name != "trials"), "a trial has no problems"
    assert not in_solution(cells)[-1]


@each_chapter
def test_only_cells_that_show_times_are_excused_from_comparison(path):
    for cell in code_cells(path):
        if "nbval-ignore-output" in cell.metadata.get("tags", []):
            assert TIMES.search(cell.source), (
                f"shows no time, so its output must be compared:\n{cell.source}"
            )
            assert "assert" in cell.source or "compare(" in cell.source, (
                f"nothing holds in this cell:\n{cell.source}"
            )


@each_chapter
def test_an_experiment_can_be_read_without_widgets(path):
    for cell in code_cells(path):
        if "explore(" in cell.source:
            assert any("text/html" in o.get("data", {}) for o in cell.outputs)


def test_normalising_removes_what_differs_from_run_to_run():
    messy = nbformat.v4.new_notebook(
        metadata={"widgets": {"state": 1}, "language_info": {"name": "python", "version": "3.11.7"}}
    )
    cell = nbformat.v4.new_code_cell(
        "print(1)\n\n", metadata={"execution": {"iopub.status.busy": "now"}, "tags": ["b", "a"]}
    )
    cell.outputs = [
        nbformat.v4.new_output("stream", name="stdout", text="1"),
        nbformat.v4.new_output("stream", name="stdout", text="\n"),
        nbformat.v4.new_output(
            "display_data", data={"text/plain": "x", "application/vnd.jupyter.widget-view+json": {}}
        ),
    ]
    messy.cells = [cell]
    clean = json.loads(written(normalised(messy)))
    assert clean["metadata"] == {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python", "pygments_lexer": "ipython3"},
    }
    (cell,) = clean["cells"]
    assert (
        cell["metadata"] == {"tags": ["a", "b"]}
        and cell["execution_count"] == 1
        and cell["source"] == ["print(1)"]
    )
    assert cell["outputs"][0]["text"] == ["1\n"] and list(cell["outputs"][1]["data"]) == [
        "text/plain"
    ]


def imported(source: str) -> set[str]:
    """The packages that some code imports; and numpy where a tensor becomes one."""
    tree = ast.walk(ast.parse(re.sub(r"^\s*[%!].*$", "", source, flags=re.M)))
    names = {"numpy"} if ".numpy()" in source else set()
    for node in tree:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add(node.module)
    return {name.partition(".")[0] for name in names} - sys.stdlib_module_names


def test_binder_and_colab_install_what_chapters_and_library_import():
    sources = [cell.source for path in CHAPTERS for cell in code_cells(path)]
    sources += [path.read_text("utf-8") for path in (ROOT / "mathlib").rglob("*.py")]
    brings = packages_distributions()
    needed = {
        brings[name][0].lower() for name in set().union(*map(imported, sources)) - {"mathlib"}
    }
    lists = (ROOT / "requirements.txt", ROOT / "book/requirements.txt")
    everything = [line for one in lists for line in one.read_text("utf-8").splitlines()]
    binder = (ROOT / ".binder/requirements.txt").read_text().splitlines()
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    colab = extras["optional-dependencies"]["notebooks"]
    assert set(binder) <= {*everything, "-e ."} and "-e ." in binder, "the same pins"
    assert {line for line in colab if "==" in line} <= set(everything), "the same pins"
    for listed in (binder, colab):
        names = {re.split("[=<>]", line)[0].lower() for line in listed} - {"-e ."}
        assert names == needed, "what is installed there, and what is imported"


def test_every_chapter_is_published():
    assert set((ROOT / "chapters").rglob("*.ipynb")) == set(CHAPTERS)
