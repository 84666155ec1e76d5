"""Execute chapters, and store them in the one form that compares well: `python tools/notebooks.py
[notebook ...]`.

Stored outputs are what readers see and what `make test` compares with a fresh run, so nothing in a
notebook may depend on the day, the machine or the order of packets: no timing, no widget state, no
kernel version, keys sorted. What the site folds, JupyterLab folds: it reads other metadata than the
tags, and that is written here.
"""

import argparse
import json
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parents[1]
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
LANGUAGE = {"name": "python", "pygments_lexer": "ipython3"}
WIDGET = "application/vnd.jupyter.widget-view+json"
KEPT = {"tags", "mystnb", "slideshow"}  # what a cell may say about itself
HIDDEN = {
    "source_hidden": {"hide-input", "hide-cell"},
    "outputs_hidden": {"hide-output", "hide-cell"},
}
CELL_SECONDS = 120
CHECKPOINT = ".ipynb_checkpoints/*"  # JupyterLab's, beside an open notebook


def merged(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Prints of one stream that arrived in pieces, as one output."""
    out: list[NotebookNode] = []
    for output in outputs:
        before = out[-1] if out else NotebookNode(output_type="none")
        both_print = before.output_type == output.output_type == "stream"
        if both_print and before.name == output.name:
            text = before.text + output.text
            out[-1] = nbformat.v4.new_output("stream", name=output.name, text=text)
        else:
            out.append(output)
    return out


def in_solution(cells: list[dict]) -> list[bool]:
    """Whether a cell stands between the start and the end of a solution, cell by cell."""
    inside, found = False, []
    for cell in cells:
        if cell["cell_type"] == "markdown":
            start, end = (cell["source"].rfind(f"{{solution-{at}}}") for at in ("start", "end"))
            inside = inside if start == end == -1 else start > end
        found.append(inside)
    return found


def folds(cell: dict, solution: bool) -> dict[str, bool]:
    """What JupyterLab shows folded of a code cell: what its tags hide, and a solution's all."""
    tags = set(cell["metadata"].get("tags", ()))
    return {part: True for part, hide in HIDDEN.items() if solution or tags & hide}


def normalised(notebook: NotebookNode) -> NotebookNode:
    """The notebook without anything that differs from run to run."""
    notebook.metadata = NotebookNode(kernelspec=KERNEL, language_info=LANGUAGE)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    number, solutions = 0, in_solution(notebook.cells)
    for position, cell in enumerate(notebook.cells):
        cell.id = f"cell-{position:03d}"
        cell.metadata = NotebookNode(
            {
                k: sorted(v) if k == "tags" else v
                for k, v in sorted(cell.metadata.items())
                if k in KEPT
            }
        )
        cell.source = cell.source.rstrip()
        if cell.cell_type != "code":
            continue
        if hidden := folds(cell, solutions[position]):
            cell.metadata["jupyter"] = NotebookNode(hidden)
        number += 1
        cell.execution_count = number
        cell.outputs = merged(cell.outputs)
        for output in cell.outputs:
            if "execution_count" in output:
                output.execution_count = number
            if "data" in output:
                output.data = NotebookNode(
                    {k: v for k, v in sorted(output.data.items()) if k != WIDGET}
                )
            if "metadata" in output:
                output.metadata = NotebookNode()
    return notebook


def written(notebook: NotebookNode) -> str:
    """The file's text: sorted keys, one space of indentation, as Jupyter itself writes."""
    text = nbformat.writes(notebook, version=4)
    return json.dumps(json.loads(text), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def execute(path: Path) -> None:
    """Run one chapter from top to bottom in its own folder and store the outputs."""
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=CELL_SECONDS,
        kernel_name="python3",
        resources={"metadata": {"path": path.parent}},
    )
    client.execute()
    path.write_text(written(normalised(notebook)), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("notebooks", nargs="*", type=Path, help="default: every chapter")
    parser.add_argument("--no-run", action="store_true", help="only normalise what is stored")
    args = parser.parse_args()
    stored = sorted(p for p in (ROOT / "chapters").rglob("*.ipynb") if not p.match(CHECKPOINT))
    for path in args.notebooks or stored:
        print(f"{path.name}", file=sys.stderr)
        if args.no_run:
            path.write_text(
                written(normalised(nbformat.read(path, as_version=4))), encoding="utf-8"
            )
        else:
            execute(path)


if __name__ == "__main__":
    main()
