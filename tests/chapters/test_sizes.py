"""`tools/sizes.py` counts what it says, on a notebook that is counted by hand."""

import json
from pathlib import Path

import sizes

TEXT = """# A *title*

Three {term}`words <word>` and $x^2$.

:::{note}
one more
:::

$$
a + b
$$ (eq-a)

## Problems

```{exercise}
Not these.
```

## What to remember

The end.
"""


def cell(source: str, *tags: str, **more: object) -> dict:
    return {"cell_type": "code", "source": [source], "metadata": {"tags": list(tags)}} | {
        "outputs": [{"data": {"text/html": "<figure></figure>"}}] if more else []
    }


def test_a_chapter_is_counted_as_by_hand(tmp_path: Path) -> None:
    first = cell("import os\n\na = 1\nassert a", "hide-input")
    between = [cell(f"b{i} = {i}") for i in range(sizes.FAR)]
    last = cell("def f():\n    return a\n", figure=True)
    markdown = {"cell_type": "markdown", "source": [TEXT], "metadata": {}}
    path = tmp_path / "one.ipynb"
    path.write_text(json.dumps({"cells": [markdown, first, *between, last]}), "utf-8")
    found = sizes.sizes(path)
    said = "# A *title* Three words and . one more (eq-a) What to remember The end."
    assert found["words"] == said.count(" ") + 1
    assert (found["cells"], found["open"], found["folded"]) == (sizes.FAR + 2, sizes.FAR + 2, 4)
    assert (found["defs"], found["asserts"], found["pictures"], found["problems"]) == (1, 1, 1, 1)
    assert found["globals"] == sizes.FAR + 2  # a, f and those between
    assert found["far"] == 1, "a is read by f, more than so many cells below"
