"""Every GPU has the group that the mesh gives it, and copies have one colour."""

import pytest
from charts import SPACE, boxes, drawn, said

from mathlib.checks import InputError
from mathlib.layout import Layout
from mathlib.show.schemes import together
from mathlib.traffic import mesh


@pytest.mark.parametrize(("of", "word"), [("tensor", "TPG"), ("shard", "SDPG")])
def test_every_gpu_is_drawn_in_its_group(of, word):
    groups = mesh.sagemaker(world=32, tensor=4, shard=4).groups(of)
    hints = list(boxes(drawn(together.groups(of=of))))
    by_rank = {rank: g for g, group in enumerate(groups) for rank in group}
    assert hints == [f"GPU {rank}, {word}{by_rank[rank]}" for rank in range(32)]


def test_copies_are_the_pages_pairs_and_are_said():
    grid = mesh.sagemaker(world=32, tensor=4, shard=4)
    for of in together.AXES:
        assert together.copies(grid, of) == [[0, 4], [1, 5], [2, 6], [3, 7]]
    told = said(drawn(together.groups()))
    assert told.startswith("8 groups, of which TPG0 has GPUs 0, 1, 2, 3.")
    assert told.endswith("TPG0 and TPG4; TPG1 and TPG5; TPG2 and TPG6; TPG3 and TPG7")


def test_every_second_copy_is_pale():
    fills = {}
    for rect in drawn(together.groups(8, 2, 2, 4)).iter(f"{SPACE}rect"):
        hint = rect.findtext(f"{SPACE}title")
        if hint:
            fills[hint] = rect.get("fill"), rect.get("fill-opacity")
    first, copy = fills["GPU 0, TPG0"], fills["GPU 4, TPG2"]
    assert first[0] == copy[0] and first[1] is None and copy[1]
    assert fills["GPU 2, TPG1"][0] != first[0]


def test_nodes_that_do_not_divide_and_other_axes_are_refused():
    with pytest.raises(InputError, match="node"):
        together.groups(32, node=5)
    with pytest.raises(InputError, match="of = 'replica'"):
        together.groups(of="replica")


LAYOUT = Layout(data=2, tensor=2, pipeline=2)


@pytest.mark.parametrize("axis", list(together.AXIS))
def test_every_rank_of_a_layout_is_drawn_in_its_group(axis):
    groups = mesh.of_layout(LAYOUT).groups(*together.AXIS[axis])
    hints = list(boxes(drawn(together.ranks(LAYOUT, axis, node=4))))
    assert len(hints) == 8
    for g, group in enumerate(groups):
        assert {f"GPU {r}, {axis} group {g}, node {r // 4}" for r in group} <= set(hints)
    rects = drawn(together.ranks(LAYOUT, axis)).iter(f"{SPACE}rect")
    full = [r.findtext(f"{SPACE}title") for r in rects if not r.get("fill-opacity")]
    assert [hint for hint in full if hint] == [
        f"GPU {r}, {axis} group 0, node 0" for r in groups[0]
    ]
    assert said(drawn(together.ranks(LAYOUT, axis))).startswith(
        f"{len(groups)} groups along {axis}"
    )


def test_the_last_level_of_a_job_is_taken_if_it_fits():
    jobs = {
        "one": [("data parallelism", "10% longer"), ("ZeRO 3", "the quickest")],
        "two": [("data parallelism", "does not fit")],
    }
    chart = drawn(together.path(jobs))
    assert said(chart) == (
        "one: data parallelism 10% longer, ZeRO 3 the quickest; two: data parallelism does not fit"
    )
    pale = [
        r.get("fill-opacity") for r in chart.iter(f"{SPACE}rect") if r.findtext(f"{SPACE}title")
    ]
    assert [one is None for one in pale] == [False, False, True]
