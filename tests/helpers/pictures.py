"""Every scheme of the library, with the arguments that a chapter would give it."""

from mathlib import specs
from mathlib.compute import operations
from mathlib.compute.autodiff import Value
from mathlib.explore.autograd import squared_error
from mathlib.memory import kept
from mathlib.meters.arrivals import Event
from mathlib.plan import bill
from mathlib.show.schemes import (
    activations,
    after,
    attention,
    autograd,
    collectives,
    compute,
    data_parallel,
    experts,
    links,
    memory,
    mics,
    pipeline,
    planning,
    poster,
    precision,
    roofline,
    schedules,
    sequences,
    sums,
    tensor,
    together,
    unequal,
    zero,
)
from mathlib.specs import Layout


def loss() -> dict[str, Value]:
    return squared_error(x=1.5, w=1.0, b=0.5, t=1.0)


def two_layers() -> dict[str, Value]:
    """Two tokens of three numbers, through a hidden layer of four to one number."""
    X, W1, W2 = Value([[0.1] * 3] * 2), Value([[0.1] * 4] * 3), Value([[0.1]] * 4)
    H = X @ W1
    Y = H @ W2
    return {"X": X, "W1": W1, "H = X W1": H, "W2": W2, "Y = H W2": Y, "sum of Y": Y.sum()}


ROUNDS = {
    "tree": collectives.tree_rounds(8),
    "halving": collectives.halving_rounds(8),
}
MESSAGES = {
    "forward": [("all-gather of the rest", 9600), ("all-gather of blocks.0", 50816)],
    "backward": [("reduce-scatter of blocks.0", 50816)] * 9,
    "step": [("all-reduce of blocks.0", 25408)],
}
ARRIVALS = [
    *(Event("saved", part, 1_000_000) for part in ("block 1", "block 1", "block 2", "loss")),
    Event("turn", "loss"),
    *(Event("released", part, 1_000_000) for part in ("loss", "block 2")),
    Event("gradient", "block 2", 4_000, "weight"),
    *[Event("released", "block 1", 1_000_000)] * 2,
    Event("gradient", "block 1", 4_000, "weight"),
]
SCHEMES = {
    "attention.one_query": attention.one_query,
    "attention.causal_mask": attention.causal_mask,
    "attention.window": attention.window,
    "roofline.larger": lambda: roofline.larger(
        operations.layer("gpt2", way="forward", attention="standard"),
        peak=1e14,
        bandwidth=1e12,
        title="A layer",
    ),
    "compute.linear_layer": compute.linear_layer,
    "compute.block": lambda: compute.block("gpt2"),
    "compute.block, parameters": lambda: compute.block("llama3-8b", of="parameters"),
    "compute.block, experts": lambda: compute.block("deepseek-v3"),
    "compute.utilisation": lambda: compute.utilisation("Megatron 1008B"),
    "compute.hours": lambda: compute.hours(
        {"16 devices": bill.device_time(flop=3.6e18, achieved=1e15, devices=16, stages=8)},
        title="Device-hours",
    ),
    "memory.life_of_a_step": lambda: memory.life_of_a_step("gpt2-xl", layout=Layout(micro_batch=8)),
    "memory.life_of_a_step, Llama": lambda: memory.life_of_a_step(
        "llama2-7b", recipe="adam-bf16", layout=Layout(data=8, zero=1)
    ),
    "memory.bytes_of_a_parameter": memory.bytes_of_a_parameter,
    "memory.bytes_of_a_parameter, 8 bit": lambda: memory.bytes_of_a_parameter(
        "mixed-adam-8bit", "mixed-adam-both-gradients"
    ),
    "memory.saved_by_a_layer": lambda: memory.saved_by_a_layer(specs.find_model("gpt2-xl")),
    "memory.lost_step": memory.lost_step,
    "autograd.values_and_gradients": lambda: autograd.values_and_gradients(loss()),
    "autograd.work": lambda: autograd.work(two_layers()),
    "autograd.order_of_arrival": lambda: autograd.order_of_arrival(loss()),
    "autograd.lives": lambda: autograd.lives(ARRIVALS, ["block 1", "block 2", "loss"]),
    "collectives.ring": collectives.ring,
    "collectives.ring, few": lambda: collectives.ring(3, rounds=(1, 4)),
    "collectives.before_and_after": collectives.before_and_after,
    "collectives.before_and_after, others": lambda: collectives.before_and_after(
        "reduce", "gather", "scatter", "all-to-all", ranks=3
    ),
    "collectives.who_talks": lambda: collectives.who_talks(ROUNDS, node=4),
    "sums.levels": sums.levels,
    "data_parallel.replicas": data_parallel.replicas,
    "data_parallel.four_versions": data_parallel.four_versions,
    "data_parallel.accumulation": data_parallel.accumulation,
    "planning.order": planning.order,
    "planning.cards": lambda: planning.cards(Layout(data=16, tensor=2, pipeline=2)),
    "poster.poster": poster.poster,
    "tensor.mlp": tensor.mlp,
    "tensor.mlp, three": lambda: tensor.mlp(3),
    "tensor.heads": tensor.heads,
    "tensor.heads, as many": lambda: tensor.heads(2, 8, 8),
    "tensor.meet": tensor.meet,
    "together.groups": together.groups,
    "together.groups, sharded": lambda: together.groups(of="shard"),
    "together.groups, eight": lambda: together.groups(8, 2, 2, 4, of="shard"),
    "together.ranks": lambda: together.ranks(Layout(data=4, tensor=8, pipeline=2)),
    "together.ranks, wide": lambda: together.ranks(Layout(tensor=16, context=4), "context"),
    "together.ranks, deep": lambda: together.ranks(Layout(data=4, pipeline=16), "pipeline"),
    "together.path": lambda: together.path(
        {
            "70B, 64 GPUs": [("data parallelism", "does not fit"), ("ZeRO 3", "19% longer")],
            "405B, 1,024 GPUs": [("data parallelism", "too few sequences")],
            "8B, 8 GPUs": [("data parallelism", "the quickest")],
        }
    ),
    "zero.copies": lambda: zero.copies(7.5e9),
    "zero.slices": lambda: zero.slices({"embedding": 12, "weight": 12, "bias": 6, "scale": 8}),
    "zero.step": zero.step,
    "zero.step, few": lambda: zero.step(2),
    "zero.gradients_leave": zero.gradients_leave,
    "zero.layers_come": zero.layers_come,
    "zero.accumulated": zero.accumulated,
    "zero.released": zero.released,
    "sequences.passed": sequences.passed,
    "sequences.passed, two": lambda: sequences.passed(2),
    "sequences.square": sequences.square,
    "sequences.square, two": lambda: sequences.square(2),
    "sequences.clock": sequences.clock,
    "sequences.clock, slow messages": lambda: sequences.clock(3, message=0.8),
    "sequences.exchanged": sequences.exchanged,
    "sequences.exchanged, two": lambda: sequences.exchanged(2, 4),
    "unequal.team": unequal.team,
    "unequal.by_speed": unequal.by_speed,
    "unequal.lives": lambda: unequal.lives([(0, 5), (3, 5), (3, 8)], 8),
    "unequal.by_speed, three": lambda: unequal.by_speed((2, 2, 2), (1, 2, 3), (0.25, 0.5, 1)),
    "after.beside": after.beside,
    "after.roles": after.roles,
    "after.roles, dpo": lambda: after.roles("dpo"),
    "after.sent": after.sent,
    "after.sent, three and one": lambda: after.sent(3, 1),
    "experts.groups": experts.groups,
    "experts.groups, one group": lambda: experts.groups(4, 4, 4),
    "experts.exchanged": experts.exchanged,
    "experts.exchanged, four": lambda: experts.exchanged(4),
    "links.feedback": links.feedback,
    "links.passes": links.passes,
    "links.passes, four": lambda: links.passes(4),
    "links.meetings": links.meetings,
    "links.meetings, eight": lambda: links.meetings(8, 4),
    "experts.boxes": experts.boxes,
    "experts.boxes, wide": lambda: experts.boxes(1.5),
    "mics.groups": mics.groups,
    "mics.groups, two in a node": lambda: mics.groups(8, 2, 4),
    "mics.groups, over two nodes": lambda: mics.groups(16, 8, 4),
    "mics.two_orders": mics.two_orders,
    "mics.two_orders, four": lambda: mics.two_orders(2, 4),
    "mics.step": lambda: mics.step(MESSAGES),
    "mics.cut_anew": mics.cut_anew,
    "activations.block": lambda: activations.block("gpt3-175b", caption="A layer's 34."),
    "activations.block, gated": lambda: activations.block("llama3-8b", caption="A layer's 41."),
    "activations.again": lambda: activations.again(caption="Three layers."),
    "activations.policies": lambda: activations.policies(
        "gpt3-175b",
        {policy: kept.names("gpt3-175b", policy=policy) for policy in ("none", "selective")},
        caption="Kept and dropped.",
    ),
    "schedules.versions_met": schedules.versions_met,
    "schedules.dealt": schedules.dealt,
    "schedules.dealt, two": lambda: schedules.dealt(8, 2),
    "schedules.two_halves": schedules.two_halves,
    "schedules.stages_hold": lambda: schedules.stages_hold(
        {"as it is": [580e3, 449e3, 316e3, 180e3], "there and back": [596e3] * 4},
        {"as it is": "105 units", "there and back": "97.5 units"},
        title="kB that each stage holds",
        caption="Two ways on stages 0 to 3.",
    ),
    "pipeline.cut": pipeline.cut,
    "pipeline.cut, two": lambda: pipeline.cut(6, 2),
    "pipeline.ways": pipeline.ways,
    "pipeline.ways, eight": lambda: pipeline.ways(8, 8),
    "precision.layouts": lambda: precision.layouts(0.1),
    "precision.layouts, one": lambda: precision.layouts(5.75, types=("fp32",)),
    "precision.gradients": lambda: precision.gradients(
        {"As they are": {-40: 0.1, -30: 0.5}, "Scaled": {-26: 0.1, -16: 0.5}}, caption="Moved."
    ),
    "precision.step": precision.step,
}
