"""The experiment of the together chapter: all ranks of a layout, their groups, bytes and memory."""

from functools import partial

from mathlib import specs
from mathlib.checks import InputError
from mathlib.layout import Layout
from mathlib.plan.room import HELD, Room, find_keeps
from mathlib.show import says, svg
from mathlib.show.experiments import Choice, doubling, experiment
from mathlib.show.figures import both, figure_html
from mathlib.show.schemes.together import AXIS, ranks_drawn
from mathlib.show.tables import table
from mathlib.traffic import mesh
from mathlib.traffic.by_axis import by_axis

MODELS = ("llama3.2-1b", "llama3-8b", "llama3-70b", "llama3-405b")
SEQUENCES, TOKENS, NODE, MOST = 512, 8192, 8, 64
RESERVE = 4e9  # bytes for context, buffers and fragments, as the planner leaves
NVLINK, NIC = 450e9, 50e9  # bytes a second of a GPU, one direction
DEVICE = specs.find_device("h100-sxm")
STAGES = (("0, whole", 0), ("1, states", 1), ("2, and gradients", 2), ("3, and weights", 3))


@experiment(
    "ranks-cube",
    "A cube of ranks",
    Choice("model", "Model", specs.titled("models", MODELS), "llama3-70b"),
    doubling("pipeline", "Pipeline stages", 1, 16, 2),
    doubling("data", "Data-parallel replicas", 1, 64, 4),
    doubling("tensor", "Tensor-parallel degree", 1, 16, 8),
    Choice("axis", "Groups to show", tuple((axis, axis) for axis in AXIS), "tensor"),
    Choice("zero", "ZeRO stage", STAGES, 1, slider=True),
    doubling("context", "Context-parallel degree", 1, 8, 1),
    code=(by_axis, mesh.neighbours),
    main=5,
)
def ranks_cube(
    model: str, pipeline: int, data: int, tensor: int, axis: str, zero: int, context: int
) -> str:
    N = pipeline * data * tensor * context
    if not NODE <= N <= MOST:
        raise InputError(f"data = {data}: {N} GPUs in all, expected {NODE} to {MOST}")
    layout = Layout(
        data=data,
        tensor=tensor,
        pipeline=pipeline,
        context=context,
        zero=zero,
        sequence_parallel=tensor > 1,
        micro_batches=SEQUENCES // data,
    )
    shape = specs.find_model(model)
    keeps = find_keeps()
    parts = dict(zip(HELD, Room(shape, TOKENS, keeps=keeps).parts(layout), strict=True))
    picture = figure_html(both(partial(ranks_drawn, layout=layout, axis=axis, node=NODE)))
    bars = svg.bars(
        [("fullest GPU", {name: size for name, size in parts.items() if size})],
        title=f"Memory, of {says.size(DEVICE.room)}",
        show=says.size,
    )
    return _say(N, sum(parts.values())) + picture + _sent(shape, layout) + bars


def _say(N: int, needed: float) -> str:
    word = "fits" if needed <= DEVICE.room - RESERVE else "does not fit"
    return (
        f'<p class="mlx-say">On {N} H100s the fullest GPU needs <b>{says.size(needed)}</b>. With '
        f"{says.size(RESERVE)} in reserve, it <b>{word}</b>.</p>"
    )


def _sent(shape: specs.Model, layout: Layout) -> str:
    """Of each axis: the first group, whether it stays in a node, bytes and their time."""
    sent = by_axis(shape, layout=layout, tokens=TOKENS, gradient_bytes=4)
    grid, rows = mesh.of_layout(layout), []
    for axis in sent:
        size = sent.amount(axis)
        names = ("cp", "dp") if axis == "data" else AXIS.get(axis, ("pp",))
        group = grid.groups(*names)[0]
        near = sum(rank < NODE for rank in group)
        rings = near if axis in ("tensor", "data") else 1  # one for each card of the group
        link = NVLINK if near == len(group) else NIC * rings
        rows.append([axis, _listed(group), says.size(size), says.time(size / link)])
    return table(["axis", "first group", "sent", "alone takes"], rows)._repr_html_()


def _listed(group: list[int]) -> str:
    return ", ".join(map(str, group)) if len(group) < 4 else f"{group[0]}, {group[1]} … {group[-1]}"
