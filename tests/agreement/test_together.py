"""What a rank sends along each axis: the formula of a layout, and what two runs have counted. The
chapter's notebook compares the first rank of one.
"""

from mathlib.layout import Layout
from mathlib.traffic.by_axis import by_axis
from mathlib.trials import together_run as study

COUNT = 8  # bytes of the number of tokens that count, which data-parallel ranks add up


def formula(layout, stage):
    """By the names that the run has, with the count."""
    found = dict(by_axis(study.SHAPE, layout=layout, stage=stage, bytes_per_element=study.NUMBER))
    found["copies"] = found.pop("tied table", 0)
    N = layout.replicas
    found["data"] += 2 * (N - 1) / N * COUNT
    return {axis: size for axis, size in found.items() if size}


def test_bytes_by_axis_are_counted_in_a_3d_run():
    for one in study.taken_apart():
        assert one.sent[1] == formula(study.THREE, one.held.stage)


def test_and_with_a_sequence_cut_over_tensor_and_context_ranks():
    layout = Layout(context=2, tensor=2, sequence_parallel=True, zero=1, micro_batch=8)
    for _, program, _ in study.sent_in(layout):
        found = formula(layout, 0)
        assert found["tensor"] < program.pop("tensor") < 1.02 * found.pop("tensor")  # norms
        assert program == found
