"""Bytes on one device in training: weights, gradients, master weights, optimizer states,
activations.

P parameters · t tensor · p stages · N data-parallel ranks · S ranks ZeRO shards over
M bytes of a device Tensor and pipeline divide first; ZeRO divides what is left by S, a degree of
the data axis, never by all devices.
GB is 1e9 bytes, GiB 2**30: `Parts(..., binary=True)` prints the latter.
"""

from collections.abc import Iterable

from mathlib.checks import InputError, ceil_div, flag, instance, one_of, positive, whole
from mathlib.compute import params
from mathlib.memory import activations, precision
from mathlib.memory.precision import Recipe
from mathlib.parts import Part, Parts
from mathlib.specs import Layout, Model, expert_degree, find_model, table, tensor_degree

STATES = ("weights", "gradients", "master weights", "optimizer states")
SHARDED_FROM = {
    "optimizer states": 1,
    "master weights": 1,
    "gradients": 2,
    "weights": 3,
}  # ZeRO stage
ENDS = {"embedding": 0, "final": -1}  # norms outside the layers, and the stage that holds them
COLUMN = {
    "query",
    "key",
    "value",
    "gate",
    "up",
    "query up",
    "key-value up",
    "position",
}  # outputs split: biases too
ROW = {"output", "down"}  # inputs split: biases stay whole


def per_parameter(
    recipe: str | Recipe = "mixed-adam",
    *,
    zero: int = 0,
    shard: int = 1,
    shapes: Iterable[tuple[int, ...]] = (),
) -> Parts:
    """Bytes a device keeps of each parameter: 4 + 12, 4 + 12/S, 2 + 14/S, 16/S for
    stage 0 to 3 (ZeRO, section 5).

    Stage 1 shards optimizer states and master weights over S ranks, stage 2 also
    gradients, stage 3 also weights. Main gradients, to which backward adds, are
    gradients; copies that the optimizer makes of gradients are its own.

    Chapter: zero (eq-copies)
    Chapter: mics (eq-mics-states)
    """
    stage, S = one_of("zero", zero, (0, 1, 2, 3)), whole("shard", shard)
    groups: dict[str, float] = dict.fromkeys(STATES, 0)
    widths = precision.bytes_per_parameter(recipe, shapes=shapes)
    for name in widths:
        group = "gradients" if name == "main gradients" else name
        if group not in STATES:
            group = "optimizer states"
        groups[group] += widths.amount(name)
    shared = {
        name: width / S if S > 1 and stage >= SHARDED_FROM[name] else width
        for name, width in groups.items()
    }
    title = f"{precision.recipe(recipe).title}, ZeRO stage {stage} over {S}"
    return Parts(f"{title}: bytes per parameter", "byte", shared)


def model_states(
    parameters: float,
    *,
    recipe: str | Recipe = "mixed-adam",
    zero: int = 0,
    shard: int = 1,
    tensor: int = 1,
    pipeline: int = 1,
    shapes: Iterable[tuple[int, ...]] = (),
    binary: bool = False,
) -> Parts:
    """Bytes of one device's model states: P / (t p) parameters, each as `per_parameter` (ZeRO,
    Table 1).

    Chapter: memory (eq-states)
    """
    P = positive("parameters", parameters) / whole("tensor", tensor) / whole("pipeline", pipeline)
    each = per_parameter(recipe, zero=zero, shard=shard, shapes=shapes)
    parts = {name: P * each.amount(name) for name in each}
    return Parts(
        f"Model states, ZeRO stage {zero} over {shard}", "byte", parts, flag("binary", binary)
    )


def largest_model(
    memory: float,
    *,
    recipe: str | Recipe = "mixed-adam",
    zero: int = 0,
    shard: int = 1,
    tensor: int = 1,
    pipeline: int = 1,
) -> float:
    """Parameters whose states alone fill a device: P = M t p / bytes per parameter (ZeRO, Table 2,
    left).

    Chapter: memory
    """
    each = per_parameter(recipe, zero=zero, shard=shard).total
    return positive("memory", memory) * whole("tensor", tensor) * whole("pipeline", pipeline) / each


def checkpoint(
    parameters: float, *, recipe: str | Recipe = "mixed-adam", weights_only: bool = False
) -> Parts:
    """Bytes of a checkpoint: everything that lives from step to step, so no gradients or copies of
    them; 14 P for mixed Adam.

    Chapter: memory
    """
    kept = model_states(parameters, recipe=precision.recipe(recipe, gradient_copies=""))
    names = (
        ("weights",)
        if flag("weights_only", weights_only)
        else ("weights", "master weights", "optimizer states")
    )
    return Parts("Checkpoint", "byte", {name: kept[name] for name in names if kept[name]})


def adapters(
    parameters: float,
    trainable: float,
    *,
    recipe: str | Recipe = "mixed-adam",
    base: str = "bf16",
    block: int = 0,
    second_block: int = 0,
    scale: str = "",
) -> Parts:
    """Bytes of LoRA and QLoRA: P frozen weights in type `base`, and all copies of the recipe for
    the trainable ones alone.

    `block` and `second_block` add the scales of a quantised base: QLoRA is nf4, 64, 256
    (arXiv:2305.14314). `scale` is their type: fp32 if not given, 8 bits below second scales. A type
    that has its own blocks, such as mxfp4, needs neither.

    Chapter: memory
    """
    frozen, own = (
        positive("parameters", parameters),
        model_states(positive("trainable", trainable), recipe=recipe),
    )
    parts: dict[str, Part] = {
        "frozen weights": frozen * precision.bytes_of(one_of("base", base, table("types")))
    }
    if whole("block", block, least=0):
        if precision.number_type(base).block:
            raise InputError(f"block = {block}: {base} has its own scales, expected 0")
        one_of("scale", scale, ("", *table("types")))
        wide = precision.number_type(scale).bits if scale else 8 if second_block else 32
        bits = precision.scale_bits(block=block, scale_bits=wide, second_block=second_block)
        parts["scales"] = frozen * bits / 8
    parts["adapters"] = Parts("adapters", "byte", own)
    return Parts("Frozen weights and adapters", "byte", parts)


def stage_parameters(model: str | Model, layout: Layout, stage: int = 0) -> Parts:
    """Parameters on one device of a stage, exact: embedding on the first, final norm and head on
    the last.

    Matrices split by t, experts by their own degrees.
    Norms, routers, positions, latents and the biases of row-split matrices
    stay whole on each.
    The vocabulary is padded to a multiple of t, as Megatron-LM pads it; the title says so.
    A tied head on another stage than the embedding is a second copy of the table.

    Chapter: together (eq-stage-parameters)
    """
    model, layout = find_model(model), instance("layout", layout, Layout)
    t, p = tensor_degree(model, layout.tensor), layout.pipeline
    expert_degree(model, layout)
    held = activations.layers_of(model, layout, stage)
    V = activations.vocabulary(model, t)
    parts: dict[str, float] = {"embedding": V * model.width / t} if stage == 0 else {}
    parts |= _positions(model, t, len(held), stage)
    parts |= layer_parameters(model, t, held, layout.expert, layout.expert_split)
    parts["norms"] = _norms(model, len(held), stage, p)
    if stage == p - 1:
        own = 0 if model.tied and p == 1 else V * model.width
        parts["head"] = (own + model.head_bias * V) / t
    whole = {name: round(n) for name, n in parts.items() if n}  # t divides what it splits
    padded = f", vocabulary padded to {V:,}" if model.padded_vocab != V else ""
    title = f"Parameters of {model.title} on a device of stage {stage}{padded}"
    return Parts(title, "parameter", whole)


def _positions(model: Model, t: int, held: int, stage: int) -> dict[str, float]:
    """A learned table stands on the first stage; relative positions belong to every layer."""
    if model.positions == "relative":
        every = params.count(model).amount("positions")
        return {"positions": every * held / model.layers / t}
    if model.positions == "learned" and stage == 0:
        return {"positions": params.count(model).amount("positions")}
    return {}


def layer_parameters(
    model: Model, t: int, held: list[int], expert: int = 1, expert_tensor: int = 0
) -> dict[str, float]:
    """Matrices of the layers held: attention in each, experts where the model has them, an MLP in
    the rest; attention sinks are split with the heads. `expert_tensor` 0: as t.
    """
    sparse = sum(activations.has_experts(model, i) for i in held) if model.experts else 0
    layers, parts = {"attention": len(held), "mlp": len(held) - sparse}, dict[str, float]()
    for m in params.matrices(model)[:-1]:
        degree, dealt = (expert_tensor or t, expert) if m.group == "experts" else (t, 1)
        each = on_device(m, model, degree) / dealt * layers.get(m.group, sparse)
        parts[m.group] = parts.get(m.group, 0) + each
    if model.attention_sinks:
        parts["sinks"] = model.heads * len(held) / t
    return parts


def _norms(model: Model, held: int, stage: int, p: int) -> float:
    """Norms of the layers held, and those at the stage's end of the model."""
    norms = params.count(model)["norms"]
    assert isinstance(norms, Parts)
    at_ends = {name: stage == at % p for name, at in ENDS.items()}
    return sum(norms.amount(n) * at_ends.get(n, held / model.layers) for n in norms)


def on_device(m: params.Matrix, model: Model, t: int) -> float:
    """Parameters of one layer's matrix that a tensor rank holds."""
    weight, bias = m.copies * m.inputs * m.outputs, m.copies * m.bias * m.outputs
    if m.name in ("key", "value"):  # a device holds at least one head
        return (weight + bias) * ceil_div(model.kv_heads, t) / model.kv_heads
    if m.name in COLUMN:
        return (weight + bias) / t
    return weight / t + bias if m.name in ROW else weight + bias
