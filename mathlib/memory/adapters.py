"""What a layer keeps for its backward pass where its weights are frozen, with adapters beside some.

s b tokens of a micro-batch · h width · r rank of an adapter
e bytes of a number · e_a bytes of a number in an adapter
A frozen matrix needs no input for a gradient of its own. What is left: inputs that an adapter
reads, and what norms, attention and the activation function need to pass the gradient on.
"""

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from mathlib.checks import InputError, flag, one_of, positive, whole
from mathlib.compute import params
from mathlib.memory import fit, states
from mathlib.memory.precision import Recipe
from mathlib.memory.saved_tensors import FP32, INDEX, MASK
from mathlib.parts import Part, Parts
from mathlib.specs import Model, find_model

READERS = {  # of an input, the matrices that read it
    "attention input": ("query", "key", "value"),
    "projection input": ("output",),
    "mlp input": ("gate", "up"),
    "second input": ("down",),
}
TARGETS = tuple(name for readers in READERS.values() for name in readers)


class _Layer(NamedTuple):
    """A layer of a model with a gated MLP, RMSNorms and flash attention."""

    model: Model
    n: int
    targets: frozenset[str]
    rank: int
    e: float
    adapter_bytes: float
    dropout: bool
    small: bool
    magnitude: bool

    def norm(self, name: str) -> Iterator[tuple[str, float]]:
        yield f"{name} norm input", self.e * self.n * self.model.width
        if self.small:
            yield f"{name} norm statistics", FP32 * self.n

    def read(self, name: str, wide: int, live: bool) -> Iterator[tuple[str, float]]:
        """An input of matrices, if adapters read it: as it is, or for each of them a copy of its
        own, which a cast to the adapter's type makes, and dropout, with a mask if it passes a
        gradient on.
        """
        readers = self.targets.intersection(READERS[name])
        if not readers:
            return
        if self.dropout:
            yield f"{name}, dropped", self.adapter_bytes * self.n * wide * len(readers)
            if live:
                yield f"{name}, masks", MASK * self.n * wide * len(readers)
        elif self.adapter_bytes != self.e:
            yield f"{name}, cast", self.adapter_bytes * self.n * wide * len(readers)
        elif name != "projection input":  # the attention kernel keeps its result anyway
            yield name, self.e * self.n * wide
        yield f"{name}, times A", self.adapter_bytes * self.n * self.rank * len(readers)
        if self.magnitude:
            outputs = sum(self.outputs(reader) for reader in readers)
            yield f"{name}, results before magnitudes", self.e * self.n * outputs
            if self.small:
                yield f"{name}, norms and scales", (self.adapter_bytes + self.e) * outputs

    def outputs(self, name: str) -> int:
        """Features that a matrix of this name puts out."""
        return next(one.outputs for one in params.matrices(self.model) if one.name == name)

    def kept(self, live: bool) -> Iterator[tuple[str, float]]:
        """All of it; `live`: whether a gradient flows out of the layer, to adapters below."""
        m, wide = self.model, self.e * self.n
        a, k, d = m.heads, m.kv_heads, m.head_dim
        if live:
            yield from self.norm("1.")
        yield from self.read("attention input", m.width, live)
        if live or self.targets.intersection(READERS["attention input"]):
            live = True
            yield "queries", wide * a * d
            yield "keys and values", wide * 2 * k * d
            yield "attention output", wide * a * d
            if self.small:
                yield "log-sum-exp", FP32 * self.n * a
        elif "output" in self.targets and self.adapter_bytes == self.e and not self.dropout:
            yield "attention output", wide * a * d
        yield from self.read("projection input", a * d, live)
        live = live or "output" in self.targets
        if live:
            yield from self.norm("2.")
        yield from self.read("mlp input", m.width, live)
        if live or "gate" in self.targets:
            yield "gate", wide * m.ffn_width
            yield "up", wide * m.ffn_width
        if live or "up" in self.targets:
            yield "activated gate", wide * m.ffn_width
        yield from self.read(
            "second input", m.ffn_width, live or bool(self.targets & {"gate", "up"})
        )


def layer(
    model: str | Model,
    *,
    rank: int,
    targets: Collection[str] = ("query", "value"),
    micro_batch: int = 1,
    tokens: int | None = None,
    bytes_per_element: float = 2,
    adapter_bytes: float | None = None,
    dropout: bool = False,
    magnitude: bool = False,
    first: bool = False,
    small_tensors: bool = False,
) -> Parts:
    """Bytes that a layer with frozen weights keeps of a micro-batch, with adapters of some rank
    beside the matrices named in `targets`.

    `adapter_bytes`: of a number in an adapter; if not that of the layer, every adapter casts its
    input, as peft does. `dropout` of an adapter's input makes a copy and a mask for each.
    `magnitude`: DoRA, whose trained magnitudes keep the results that they multiply. `first`: the
    layer has no adapter below it, so that no gradient leaves it.

    Chapter: memory
    """
    widths = bytes_per_element, adapter_bytes
    how = _checked(
        model, rank, targets, micro_batch, tokens, widths, (dropout, small_tensors, magnitude)
    )
    parts: dict[str, Part] = dict(how.kept(not flag("first", first)))
    return Parts(f"A layer of {how.model.title} with adapters of rank {rank}", "byte", parts)


def _checked(
    model: str | Model,
    rank: int,
    targets: Collection[str],
    micro_batch: int,
    tokens: int | None,
    widths: tuple[float, float | None],
    flags: tuple[bool, bool, bool],
) -> _Layer:
    """The layer that was asked for, if it is one that is counted here."""
    m = find_model(model)
    wanted = {"gated": True, "norm": "rmsnorm", "block_norms": 2, "query_key_norm": ""}
    wanted |= {"latent": None, "experts": None, "parallel_block": False}
    for name, value in wanted.items():
        if (has := getattr(m, name)) != value:
            raise InputError(
                f"{m.name}: {name} = {has!r}; adapters are counted with {value!r} only"
            )
    params.lora(m, rank=rank, targets=targets)  # refuses what is no matrix
    e = positive("bytes_per_element", widths[0])
    own = e if widths[1] is None else positive("adapter_bytes", widths[1])
    n = m.context if tokens is None else whole("tokens", tokens)
    n *= whole("micro_batch", micro_batch)
    names = "dropout", "small_tensors", "magnitude"
    how = [flag(name, value) for name, value in zip(names, flags, strict=True)]
    return _Layer(m, n, frozenset(targets), rank, e, own, *how)


def activations(
    model: str | Model,
    *,
    rank: int,
    targets: Collection[str] = ("query", "value"),
    micro_batch: int = 1,
    tokens: int | None = None,
    recompute: str = "none",
    bytes_per_element: float = 2,
    adapter_bytes: float | None = None,
    logits_bytes: float = 4,
    dropout: bool = False,
    magnitude: bool = False,
    small_tensors: bool = False,
) -> Parts:
    """Bytes that a whole model with adapters keeps of a micro-batch: its layers, the first of which
    passes no gradient on, the final norm's input, and the loss's probabilities.

    The head is frozen, so its input goes; the probabilities, V numbers a token, stay. With full
    recomputation a layer keeps its input alone.

    Chapter: memory
    """
    widths = bytes_per_element, adapter_bytes
    how = _checked(
        model, rank, targets, micro_batch, tokens, widths, (dropout, small_tensors, magnitude)
    )
    return _kept(how, recompute, logits_bytes)


def _kept(how: _Layer, recompute: str, logits_bytes: float) -> Parts:
    """The activations of all layers and of the loss."""
    m, row = how.model, how.e * how.n * how.model.width
    parts = dict[str, Part]()
    if one_of("recompute", recompute, ("none", "full")) == "full":
        parts["layer inputs"] = m.layers * row
    else:
        parts["first layer"] = Parts("first layer", "byte", dict(how.kept(False)))
        rest = Parts("a layer", "byte", dict(how.kept(True)))
        parts["other layers"] = rest.scaled(m.layers - 1, f"{m.layers - 1} layers")
    parts["final norm input"] = row
    parts["probabilities"] = positive("logits_bytes", logits_bytes) * how.n * m.padded_vocab
    if how.small:
        parts["small tensors"] = (FP32 + INDEX) * how.n + FP32
    return Parts(f"Activations of {m.title} with adapters", "byte", parts)


def training(
    model: str | Model,
    *,
    rank: int,
    targets: Collection[str] = TARGETS,
    quantised: bool = False,
    recipe: str | Recipe = "mixed-adam",
    micro_batch: int = 1,
    tokens: int | None = None,
    recompute: str = "none",
    bytes_per_element: float = 2,
    adapter_bytes: float | None = None,
    logits_bytes: float = 4,
    dropout: bool = False,
    magnitude: bool = False,
    fused_loss: bool = False,
    small_tensors: bool = False,
    binary: bool = False,
) -> Parts:
    """Bytes of fine-tuning with adapters on one device, when it holds most: at the loss, with all
    activations, and beside the probabilities two gradients of that size; or in the backward pass
    of a layer that is computed again, if that is more.

    `quantised`: matrices of the layers in nf4 with scales of scales, as QLoRA; embedding, norms and
    head stay as they are (peft's prepare_model_for_kbit_training makes them fp32, twice as much). A
    fused loss writes its gradient over the probabilities.

    Chapter: after (eq-adapter-bytes)
    """
    widths = bytes_per_element, adapter_bytes
    how = _checked(
        model, rank, targets, micro_batch, tokens, widths, (dropout, small_tensors, magnitude)
    )
    parts = _states(how, flag("quantised", quantised), recipe)
    kept = _kept(how, recompute, logits_bytes)
    parts["activations"], spike = kept, 2 * kept.amount("probabilities")
    if flag("fused_loss", fused_loss):
        spike = 0
    # the last layer is computed again when the probabilities are gone
    again = sum(n for _, n in how.kept(True)) - kept.amount("probabilities")
    if recompute == "full" and again > spike:
        parts["recomputed layer"] = again
    elif spike:
        parts["gradients of logits"] = spike
    title = f"{how.model.title} with adapters of rank {rank}, when it holds most"
    return Parts(title, "byte", parts, flag("binary", binary))


def _states(how: _Layer, quantised: bool, recipe: str | Recipe) -> dict[str, Part]:
    """Frozen weights, and what training keeps of adapters."""
    own = params.lora(how.model, rank=how.rank, targets=how.targets, magnitude=how.magnitude).total
    total = params.total(how.model)
    parts = dict[str, Part]()
    if quantised:
        body = sum(one.parameters for one in params.matrices(how.model)[:-1])
        held = states.adapters(body, own, recipe=recipe, base="nf4", block=64, second_block=256)
        parts |= {"matrices in 4 bits": held["frozen weights"], "scales": held["scales"]}
        parts["other frozen weights"] = how.e * (total - body)
    else:
        parts["frozen weights"] = how.e * total
    return parts | {"adapters": states.model_states(own, recipe=recipe)}


def sharded(
    model: str | Model,
    *,
    devices: int,
    rank: int,
    zero: int = 3,
    whole_bits: bool = False,
    **options: Any,
) -> Parts:
    """Bytes of one of some devices that share what a ZeRO stage shares: states of
    adapters, from stage 2 on their gradients, in stage 3 all weights, as FSDP does: an
    equal part of each, one gathered layer, embedding and head, which stay gathered from
    forward to backward, and its own activations.

    `whole_bits`: 4-bit matrices lie in buffers, which FSDP leaves whole; a layer is
    then gathered without them. `options` go to `training`.

    Chapter: after (eq-adapters-sharded)
    """
    many = whole("devices", devices)
    parts, m = dict(training(model, rank=rank, **options)), find_model(model)
    own: dict[str, Any] = {"targets": TARGETS, "magnitude": False}
    own |= {name: options[name] for name in own if name in options}
    trained = params.lora(m, rank=rank, **own).total
    how: dict[str, Any] = {"recipe": options.get("recipe", "mixed-adam"), "zero": zero}
    parts["adapters"] = states.model_states(trained, shard=many, **how)
    if zero == 3 and many > 1:
        e = positive("bytes_per_element", options.get("bytes_per_element", 2))
        parts = _cut(m, many, parts, flag("whole_bits", whole_bits), e)
    over = f", ZeRO stage {zero} over {many} devices" if zero and many > 1 else ""
    title = f"{m.title} with adapters of rank {rank}{over}, when it holds most"
    return Parts(title, "byte", parts, options.get("binary", False))


def _cut(
    m: Model, many: int, parts: dict[str, Part], whole_bits: bool, e: float
) -> dict[str, Part]:
    """The same with weights in shards, and what is gathered."""
    packed = ("matrices in 4 bits", "scales")
    whole = fit.gathered(m, e)
    body = sum(parts.get(name, 0) for name in packed)  # type: ignore[misc]
    for name in ("frozen weights", *packed, "other frozen weights"):
        if name in parts and not (whole_bits and name in packed):
            parts[name] = parts[name] / many  # type: ignore[operator]
    if not (body and whole_bits):
        parts["gathered layer"] = body / m.layers or whole["gathered layer"]
    return parts | {"gathered ends": whole["gathered ends"]}
