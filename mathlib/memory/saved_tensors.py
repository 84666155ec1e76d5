"""The tensors that a layer saves for its backward pass, by name, as programs save them.

h width · a heads · k kv_heads · d head_dim · s tokens · b micro_batch · t tensor
e bytes an element
`memory.activations` adds them up, layer by layer and stage by stage.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from mathlib.checks import InputError, ceil_div, flag, non_negative, one_of, positive
from mathlib.parts import Part, Parts
from mathlib.records import dataclass, replace
from mathlib.specs import ATTENTION, Experts, Latent, Model

MASK = 1  # bytes of a dropout or causal mask's bool
FP32 = 4  # of a statistic, and of the residual stream under autocast
INDEX = 8  # of a token's number (int64)


@dataclass(frozen=True)
class Saving:
    """How a program saves: the conventions that go with a model through all functions below."""

    attention: str = "standard"  # flash never holds the s x s scores
    dropout: bool = True
    bytes_per_element: float = 2
    fused_gate: bool = False  # a gate's matmul keeps three tensors instead of four
    expert_results: bool = True  # False where the router's weight multiplies in the gate's kernel
    small_tensors: bool = False  # norm statistics, causal mask, log-sum-exp, token numbers
    autocast: bool = False  # fp32 residual stream and softmax, the rest in bytes_per_element
    separate: bool = False  # layers of their own for q, k, v, gate and up: autocast copies for each
    selective: tuple[str, ...] = ()  # what selective recomputation keeps; (): all but the core
    rounded: float = 0  # bytes a number, if layers keep their inputs as they multiply them; 0: not

    def __post_init__(self) -> None:
        one_of("attention", self.attention, ATTENTION)
        positive("bytes_per_element", self.bytes_per_element)
        flags = ("dropout", "fused_gate", "expert_results", "small_tensors", "autocast", "separate")
        for name in flags:
            flag(name, getattr(self, name))
        non_negative("rounded", self.rounded)
        if not isinstance(self.selective, tuple):
            raise InputError(f"selective = {self.selective!r}: expected a tuple of names")

    def copies(self, readers: int) -> int:
        """How often an input is kept that so many matrices read: autocast casts it for each layer
        of its own.
        """
        return readers if self.autocast and self.separate else 1

    @property
    def input_bytes(self) -> float:
        """Bytes of a number that a linear layer alone reads."""
        return self.rounded or self.bytes_per_element

    @property
    def stream_bytes(self) -> float:
        """Bytes of a number in the residual stream."""
        return FP32 if self.autocast else self.bytes_per_element

    @property
    def words(self) -> str:
        """For a title: what was taken."""
        cast = ", autocast" if self.autocast else ""
        return f"{self.attention} attention, {'' if self.dropout else 'no '}dropout{cast}"


def saving_of(
    model: Model,
    attention: str | None = None,
    dropout: bool | None = None,
    *rest: Any,
    separate: bool | None = None,
    **named: Any,
) -> Saving:
    """The conventions asked for; attention and dropout are the model's own unless said, and models
    with a gate have separate projections, as LLaMA's in transformers.
    """
    kernel = model.attention if attention is None else attention
    drops = model.dropout if dropout is None else dropout
    apart = model.gated if separate is None else separate
    return replace(Saving(kernel, drops, *rest, **named), separate=apart)


class Kept(NamedTuple):
    """A tensor that the backward pass needs."""

    group: str  # norms, attention, mlp
    name: str
    bytes: float
    split: bool  # tensor parallelism splits it; the rest only sequence parallelism does
    core: bool = False  # inside the attention's core: selective recomputation drops it
    whole: bool = False  # nobody splits it: it has no row for each token, or is of the batch


def norm_bytes(group: str, name: str, model: Model, tokens: int, how: Saving) -> Iterator[Kept]:
    yield Kept(group, f"{name} norm input", how.stream_bytes * tokens * model.width, False)
    if how.small_tensors:  # 1/deviation of every token in fp32, a LayerNorm its mean as well
        numbers = 1 if model.norm == "rmsnorm" else 2
        yield Kept(group, f"{name} norm statistics", numbers * FP32 * tokens, False)


def _heads(model: Model, tokens: int, e: float, t: int) -> Iterator[Kept]:
    """Queries, keys and values; multi-head latent attention also keeps its latents before and after
    their norm.
    """
    a, d, latent = model.heads, model.head_dim, model.latent
    k = ceil_div(model.kv_heads, t) * t  # a device holds at least one head of keys and values
    if isinstance(latent, Latent):
        for name, wide in (
            ("query latent", latent.query_rank),
            ("key-value latent", latent.kv_rank),
        ):
            if wide:
                yield Kept("attention", name, 2 * e * tokens * wide, False)
        scored, valued = a * (latent.nope_dim + latent.rope_dim), a * latent.value_dim
    else:
        scored, valued = a * d, k * d
        if model.query_key_norm:
            yield Kept("attention", "before query and key norm", e * tokens * (a + k) * d, True)
    yield Kept("attention", "queries", e * tokens * scored, True)
    yield Kept("attention", "keys", e * tokens * (scored if latent else k * d), True)
    yield Kept("attention", "values", e * tokens * valued, True)


def _core(model: Model, s: int, b: int, how: Saving) -> Iterator[Kept]:
    """Between queries and values: softmax of the scores, or what a fused kernel keeps instead."""
    scores, e = model.heads * s * s * b, how.bytes_per_element
    if how.attention == "flash":
        if how.small_tensors:
            yield Kept("attention", "log-sum-exp", FP32 * model.heads * s * b, True, core=True)
        return
    sinks = model.heads * s * b if model.attention_sinks else 0  # a column more, then cut off
    wide = FP32 if how.autocast else e
    yield Kept("attention", "softmax", wide * (scores + sinks), True, core=True)
    if how.dropout:
        yield Kept("attention", "softmax mask", MASK * scores, True, core=True)
        yield Kept("attention", "softmax after dropout", e * scores, True, core=True)
    elif how.autocast:
        yield Kept("attention", "softmax, cast", e * scores, True, core=True)
    if how.small_tensors:
        yield Kept("attention", "causal mask", MASK * s * s, False, core=True, whole=True)


def _attention(model: Model, s: int, b: int, t: int, how: Saving) -> Iterator[Kept]:
    tokens, e = s * b, how.bytes_per_element
    copies = how.copies(2 if model.latent else 3)
    yield Kept("attention", "input", copies * how.input_bytes * tokens * model.width, False)
    yield from _heads(model, tokens, e, t)
    yield from _core(model, s, b, how)
    wide = model.heads * (model.latent.value_dim if model.latent else model.head_dim)
    own = e if how.rounded and how.attention == "flash" else 0  # the kernel keeps its result too
    yield Kept("attention", "projection input", (own + how.input_bytes) * tokens * wide, True)
    if how.dropout:
        yield Kept("attention", "output mask", MASK * tokens * model.width, False)


def _linear_pair(model: Model, width: int, tokens: int, how: Saving) -> Iterator[Kept]:
    """Between the linear layers: GELU keeps its input, its output is the next input; a gate adds
    one tensor or two.
    """
    names = ["activation input", "second input"]
    if model.gated:
        names = ["gate", "up", "second input"]
        if not how.fused_gate:
            names.append("activated gate")
    for name in names:
        each = how.input_bytes if name == "second input" else how.bytes_per_element
        yield Kept("mlp", name, each * tokens * width, True)


def _mlp(model: Model, tokens: int, how: Saving, experts: Experts | None) -> Iterator[Kept]:
    h, e = model.width, how.bytes_per_element
    # with one norm a layer, attention and MLP read the same tensor, of which autocast makes copies
    if model.block_norms != 1 or how.autocast:
        copies = how.copies(2 if model.gated and not experts else 1)
        each = e if experts else how.input_bytes  # the router reads it as it is
        yield Kept("mlp", "input", copies * each * tokens * h, False)
    # balanced load: every token is copied to the experts it visits, their outputs are weighted and
    # added
    if experts:
        visited = experts.active + experts.shared
        yield Kept("mlp", "router probabilities", FP32 * tokens * experts.routed, False)
        yield Kept("mlp", "copies to experts", how.input_bytes * tokens * h * experts.active, False)
        yield from _linear_pair(model, experts.width * visited, tokens, how)
        if how.expert_results:
            yield Kept("mlp", "outputs of experts", e * tokens * h * experts.active, False)
        if experts.shared_gate:  # its gradient is read from what it scales
            yield Kept("mlp", "output of shared experts", e * tokens * h, False)
            if how.small_tensors:
                yield Kept("mlp", "shared gate", e * tokens, False)
    else:
        yield from _linear_pair(model, model.ffn_width, tokens, how)
    if how.dropout:
        yield Kept("mlp", "output mask", MASK * tokens * h, False)


@lru_cache(256)  # a step asks at every moment
def _tensors(
    model: Model, s: int, b: int, t: int, how: Saving, recompute: str, moe: Experts | None
) -> tuple[Kept, ...]:
    """Every tensor that a layer keeps, one with experts or one without."""
    if recompute == "full":
        size = how.stream_bytes * s * b * model.width
        return (Kept("kept for recomputation", "layer input", size, False),)
    kept: list[Kept] = []
    for i in range(model.block_norms):
        kept += norm_bytes("norms", f"{i + 1}.", model, s * b, how)
    kept += [*_attention(model, s, b, t, how), *_mlp(model, s * b, how, moe)]
    if recompute == "selective" and how.selective:  # what no backward needs, and is kept if named
        kept.append(Kept("mlp", "result", how.bytes_per_element * s * b * model.width, False))
        return tuple(one for one in kept if one.name in how.selective)
    return tuple(one for one in kept if not (one.core and recompute == "selective"))


def layer_tensors(
    model: Model, s: int, b: int, t: int, how: Saving, recompute: str, index: int
) -> tuple[Kept, ...]:
    """Every tensor that layer `index` keeps."""
    moe = model.experts if has_experts(model, index) else None
    return _tensors(model, s, b, t, how, recompute, moe)


def has_experts(model: Model, index: int) -> bool:
    """Whether layer `index` has experts instead of an ordinary MLP."""
    return bool(model.experts and model.experts.at(index))


def shares(kept: Iterable[Kept], tensor: int, sequence_parallel: bool) -> dict[str, Part]:
    """What one device holds of the tensors, by group."""
    groups: dict[str, dict[str, float]] = {}
    for one in kept:
        cut = one.split or (sequence_parallel and not one.whole)
        share = one.bytes / tensor if cut else one.bytes
        groups.setdefault(one.group, {})[one.name] = share
    return {group: Parts(group, "byte", named) for group, named in groups.items()}
