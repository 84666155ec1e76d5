"""The cube of ranks: its groups, bytes and memory are those of mesh, formulas and planner."""

import re

from charts import boxes, widths

from mathlib.explore import together
from mathlib.layout import Layout
from mathlib.plan.room import Room, find_keeps
from mathlib.show import says
from mathlib.show.experiments import find
from mathlib.specs import find_model
from mathlib.traffic import mesh
from mathlib.traffic.by_axis import by_axis

LAYOUT = Layout(data=4, tensor=8, pipeline=2, zero=1, sequence_parallel=True, micro_batches=128)


def plain(html):
    return html.replace("\u00a0", " ")


def test_bytes_memory_and_groups_are_the_formulas():
    html = plain(find("ranks-cube").run())
    shape = find_model("llama3-70b").but(context=8192)
    for axis, size in by_axis(shape, layout=LAYOUT, gradient_bytes=4).items():
        assert axis in html and says.size(size) in html
    needed = Room(shape, 8192, keeps=find_keeps()).total(LAYOUT)
    assert says.size(needed) in html and "<b>fits</b>" in html
    hints = list(boxes(widths(html)[0]))
    assert len([h for h in hints if h.startswith("GPU ")]) == 64
    grid = mesh.of_layout(LAYOUT)
    for g, group in enumerate(grid.groups("tp")):
        assert all(f"GPU {r}, tensor group {g}, node {r // 8}" in hints for r in group)


def test_the_link_is_that_of_the_group():
    """A group inside a node has NVLink, one that leaves it the network cards of its ranks."""
    for tensor, data in ((8, 4), (16, 2)):
        html = plain(find("ranks-cube").run({"tensor": tensor, "data": data}))
        lay = Layout(
            data=data, tensor=tensor, pipeline=2, zero=1, sequence_parallel=True,
            micro_batches=512 // data,
        )  # fmt: skip
        size = by_axis("llama3-70b", layout=lay, tokens=8192, gradient_bytes=4).amount("tensor")
        link = together.NVLINK if tensor == 8 else 8 * together.NIC
        assert says.time(size / link) in html


def test_what_is_no_cube_of_8_to_64_is_refused_with_a_way_out():
    html = find("ranks-cube").run({"data": 64})
    assert "1024 GPUs in all, expected 8 to 64" in html
    assert re.search(r"replicas can be: 1, 2, 4\.", html)
    assert "does not fit" in find("ranks-cube").run({"model": "llama3-405b"})
