"""What a model, a device, a cluster and a layout are: frozen, validated, and read from data/*.toml.

L layers · h width · a heads · k kv_heads · d head_dim · f ffn_width · V vocab · s context
p pipeline · t tensor · dp data · v chunks a stage · b micro_batch · m micro_batches
"""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from mathlib.checks import InputError, divides, flag, listed, non_negative, one_of, positive, whole

POSITIONS = ("learned", "rotary", "alibi", "relative", "none")
TABLES = ("models", "devices", "clusters", "types", "recipes", "runs", "compressors")
MOST_LAYERS = 10**6  # some formulas list them one by one
NORMS = ("layernorm", "layernorm-no-bias", "rmsnorm", "none")
RECOMPUTE = ("none", "selective", "full")
ATTENTION = ("standard", "flash")
# one weight vector of head_dim for all heads, one for each head, one as wide as all heads together
QUERY_KEY_NORMS = ("", "head", "heads", "full")
NOT_COVERED = {  # names that begin so, and what stands in the way
    "an encoder-decoder": ("t5", "flan-t5", "mt5", "ul2", "bart", "mbart", "pegasus", "whisper"),
    "an encoder": ("bert", "roberta", "distilbert", "deberta", "electra", "albert", "modernbert"),
    "a state space model": ("mamba", "falcon_mamba", "falcon-mamba", "jamba", "rwkv"),
}


def _whole(spec: Any, name: str, least: int) -> None:
    """Check a field of a frozen spec and keep it as a whole number, 12.0 as 12."""
    object.__setattr__(spec, name, whole(name, getattr(spec, name), least))


def _called(spec: Any) -> None:
    """What no data file names is called by its name."""
    object.__setattr__(spec, "title", spec.title or spec.name)


@dataclass(frozen=True)
class Latent:
    """Multi-head latent attention (DeepSeek-V2): queries, keys and values pass through narrow
    latents.
    """

    kv_rank: int  # width of the latent that keys and values share; it is what the cache keeps
    rope_dim: int  # rotary part of a head, one key for all heads
    nope_dim: int  # part of a head without position
    value_dim: int  # width of a head's value
    query_rank: int = 0  # width of the queries' latent; 0: queries are projected directly

    def __post_init__(self) -> None:
        for name in ("kv_rank", "rope_dim", "nope_dim", "value_dim"):
            _whole(self, name, 1)
        _whole(self, "query_rank", 0)


@dataclass(frozen=True)
class Experts:
    """A mixture-of-experts feed-forward: `routed` experts, of which a router picks `active` for
    every token.
    """

    routed: int  # experts a layer has
    active: int  # experts a token visits
    width: int  # feed-forward width of one expert
    shared: int = 0  # experts that every token visits besides
    dense_layers: int = 0  # first layers that keep an ordinary feed-forward
    every: int = 1  # after these, every n-th layer has experts (Llama 4 Maverick: 2)
    router_bias: bool = False  # one number an expert: DeepSeek's correction, gpt-oss's bias
    shared_gate: bool = False  # h weights that scale what the shared experts add (Qwen1.5-MoE)

    def __post_init__(self) -> None:
        for name, least in (
            ("routed", 1),
            ("active", 1),
            ("width", 1),
            ("shared", 0),
            ("dense_layers", 0),
            ("every", 1),
        ):
            _whole(self, name, least)
        flag("router_bias", self.router_bias)
        if flag("shared_gate", self.shared_gate) and not self.shared:
            raise InputError("shared_gate = True: expected shared of at least 1, which it scales")
        if self.active > self.routed:
            raise InputError(f"active = {self.active}: expected at most routed = {self.routed}")

    def at(self, index: int) -> bool:
        """Whether the layer of this number, counted from 0, has experts."""
        return index >= self.dense_layers and (index + 1) % self.every == 0


@dataclass(frozen=True)
class Window:
    """Attention to the newest tokens only, on all layers or on most (Mistral 7B, section 2)."""

    width: int  # tokens that a token sees, itself included
    full_every: int = 0  # every n-th layer sees the whole sequence (Gemma 2: 2); 0: none does
    full_first: int = 0  # first layers that see the whole sequence
    chunked: bool = False  # windows do not slide: they begin at multiples of width (Llama 4)

    def __post_init__(self) -> None:
        for name, least in (("width", 1), ("full_every", 0), ("full_first", 0)):
            _whole(self, name, least)
        flag("chunked", self.chunked)

    def at(self, index: int) -> bool:
        """Whether the layer of this number, counted from 0, sees no more than the window."""
        last_of_its_group = self.full_every and (index + 1) % self.full_every == 0
        return index >= self.full_first and not last_of_its_group


@dataclass(frozen=True)
class Model:
    """A decoder-only transformer, exactly enough of it to count parameters, FLOP and bytes."""

    name: str
    layers: int  # L
    width: int  # h, of the residual stream
    heads: int  # a, query heads
    vocab: int  # V, tokens the tokeniser knows
    context: int  # s, tokens of a training sequence
    kv_heads: int = 0  # k, key and value heads; 0: as many as query heads
    head_dim: int = 0  # d; 0: h / a
    ffn_width: int = 0  # f; 0: 4h
    padded_vocab: int = 0  # rows the embedding table really has; 0: V
    gated: bool = False  # a gated MLP has three matrices (SwiGLU, GeGLU), a plain one two
    tied: bool = True  # the head reuses the embedding table
    positions: str = "learned"  # one of POSITIONS
    position_rows: int = 0  # rows of the learned table; 0: s
    norm: str = "layernorm"  # one of NORMS
    block_norms: int = 2  # norms of a layer (1 where attention and MLP share one)
    final_norm: bool = True
    embedding_norm: bool = False  # BLOOM has one behind the embedding
    query_key_norm: str = ""  # one of QUERY_KEY_NORMS; "": none
    query_key_norm_bias: bool = False
    attention_sinks: bool = False  # a learned score a head that takes part in the softmax (gpt-oss)
    parallel_block: bool = False  # attention and MLP read the same stream, their sums are added
    window: Window | None = None  # sliding-window attention; None: a token sees all before it
    qkv_bias: bool = True  # with latent attention: of the projections down to the latents
    output_bias: bool = True  # of the attention's output projection
    mlp_bias: bool = True
    head_bias: bool = False
    dropout: bool = True  # trained with dropout, as GPT-2
    attention: str = "standard"  # the kernel it was trained with, one of ATTENTION
    latent: Latent | None = None  # multi-head latent attention
    experts: Experts | None = None  # mixture of experts
    parameters: int = field(
        default=0, compare=False
    )  # published count of the released checkpoint; 0: none is
    source: str = field(default="", compare=False)
    date: str = field(default="", compare=False)  # when the source was published or read
    title: str = field(default="", compare=False)  # what people call it; "": the name

    def __post_init__(self) -> None:
        _called(self)
        for name in ("layers", "width", "heads", "vocab", "context"):
            _whole(self, name, 1)
        if self.layers > MOST_LAYERS:
            raise InputError(f"layers = {self.layers}: expected at most {MOST_LAYERS:,}")
        for name in ("block_norms", "parameters"):
            _whole(self, name, 0)
        for name in (
            "gated",
            "tied",
            "final_norm",
            "embedding_norm",
            "query_key_norm_bias",
            "attention_sinks",
            "parallel_block",
            "qkv_bias",
            "output_bias",
            "mlp_bias",
            "head_bias",
            "dropout",
        ):
            flag(name, getattr(self, name))
        for name, kind in (("latent", Latent), ("experts", Experts), ("window", Window)):
            if not isinstance(getattr(self, name), kind | None):
                raise InputError(
                    f"{name} = {getattr(self, name)!r}: expected a specs.{kind.__name__} or None"
                )
        if not self.head_dim and self.width % self.heads:
            raise InputError(
                f"heads = {self.heads}: does not divide width = {self.width}; name head_dim as well"
            )
        defaults = {
            "kv_heads": self.heads,
            "head_dim": self.width // self.heads,
            "ffn_width": 4 * self.width,
            "padded_vocab": self.vocab,
            "position_rows": self.context,
        }
        for name, default in defaults.items():
            object.__setattr__(self, name, whole(name, getattr(self, name), least=0) or default)
        if self.heads % self.kv_heads:
            raise InputError(f"kv_heads = {self.kv_heads}: does not divide heads = {self.heads}")
        if self.padded_vocab < self.vocab:
            raise InputError(
                f"padded_vocab = {self.padded_vocab}: expected at least vocab = {self.vocab}"
            )
        if self.experts and self.experts.dense_layers > self.layers:
            raise InputError(
                f"dense_layers = {self.experts.dense_layers}: expected at most layers = "
                f"{self.layers}"
            )
        one_of("positions", self.positions, POSITIONS)
        one_of("norm", self.norm, NORMS)
        one_of("attention", self.attention, ATTENTION)
        one_of("query_key_norm", self.query_key_norm, QUERY_KEY_NORMS)
        if self.query_key_norm and self.latent:
            raise InputError(
                f"query_key_norm = {self.query_key_norm!r}: expected none with latent attention, "
                "which norms its latents"
            )

    @property
    def expert_layers(self) -> int:
        """How many layers have experts."""
        return sum(map(self.experts.at, range(self.layers))) if self.experts else 0

    @property
    def windowed_layers(self) -> int:
        """How many layers see no more than the window."""
        return sum(map(self.window.at, range(self.layers))) if self.window else 0

    def reach(self, tokens: int, past: int = 0) -> int:
        """`tokens` behind `past` others; refused where the learned table has no row for them."""
        last = past + tokens
        if self.positions == "learned" and last > self.position_rows:
            told = f"tokens = {tokens}" + (f" after past = {past}" if past else "")
            raise InputError(
                f"{told}: {self.name} has learned positions, expected at most {self.position_rows}"
            )
        return tokens

    def but(self, **changes: Any) -> "Model":
        """The same model with some fields changed; widths that follow from others are worked out
        again.
        """
        for name, follows in (
            ("head_dim", {"width", "heads"}),
            ("ffn_width", {"width"}),
            ("kv_heads", {"heads"}),
            ("padded_vocab", {"vocab"}),
            ("position_rows", {"context"}),
        ):
            derived = {
                "head_dim": self.width // self.heads,
                "ffn_width": 4 * self.width,
                "kv_heads": self.heads,
                "padded_vocab": self.vocab,
                "position_rows": self.context,
            }[name]
            if follows & set(changes) and name not in changes and getattr(self, name) == derived:
                changes[name] = 0
        known = [f.name for f in fields(self)]
        for name in changes:
            one_of("field", name, known)
        if "name" in changes:
            changes.setdefault("title", changes["name"])
        return replace(self, **changes)


@dataclass(frozen=True)
class Device:
    """An accelerator as its data sheet describes it. Peaks are dense: never the figures with
    sparsity.
    """

    name: str
    peak: dict[str, float]  # FLOP/s by number type: fp32, tf32, fp16, bf16, fp8, fp4, int8
    memory: float  # bytes as sold, a round number
    memory_bandwidth: float  # bytes/s
    link_bandwidth: float  # bytes/s to its neighbours in the node, one direction
    power: float  # watts, as rated; 0: the maker publishes none
    reported_memory: float = 0  # bytes as the device itself reports them; 0: nobody told
    source: str = field(default="", compare=False)
    date: str = field(default="", compare=False)
    title: str = field(default="", compare=False)  # what people call it; "": the name

    def __post_init__(self) -> None:
        _called(self)
        for name in ("memory", "memory_bandwidth"):
            positive(name, getattr(self, name))
        for name in ("link_bandwidth", "power", "reported_memory"):
            non_negative(name, getattr(self, name))
        for kind, rate in self.peak.items():
            positive(f"peak.{kind}", rate)

    @property
    def half(self) -> float:
        """Dense peak for products of 16-bit numbers: bf16, or fp16 where the device has no bf16."""
        return self.peak["bf16"] if "bf16" in self.peak else self.peak["fp16"]

    @property
    def room(self) -> float:
        """Bytes there are: as the device reports them, as sold where that is not known."""
        return self.reported_memory or self.memory

    def flops_per_second(self, dtype: str = "bf16") -> float:
        """Dense peak for a number type, in FLOP/s."""
        return self.peak[one_of("dtype", dtype, self.peak)]


@dataclass(frozen=True)
class Cluster:
    """Nodes of one kind of device."""

    name: str
    device: str  # a name in devices.toml
    devices_per_node: int
    node_bandwidth: float  # bytes/s out of one node, one direction, all its network cards together
    source: str = field(default="", compare=False)
    date: str = field(default="", compare=False)
    title: str = field(default="", compare=False)  # what people call it; "": the name

    def __post_init__(self) -> None:
        _called(self)
        whole("devices_per_node", self.devices_per_node)
        positive("node_bandwidth", self.node_bandwidth)


@dataclass(frozen=True)
class Layout:
    """How a model is spread over devices. World size = data * tensor * pipeline."""

    data: int = 1  # dp, replicas that see different data
    tensor: int = 1  # t, devices that share every matrix product
    pipeline: int = 1  # p, stages
    chunks: int = 1  # v, model chunks a stage holds (interleaving); 1: plain
    zero: int = 0  # ZeRO stage
    shard: int = 0  # ranks over which ZeRO shards; 0: all of data
    sequence_parallel: bool = (
        False  # what tensor parallelism leaves whole is split along the sequence
    )
    micro_batch: int = 1  # b, sequences a forward pass takes
    micro_batches: int = 1  # m, micro-batches a step
    recompute: str = "none"  # none, selective, full

    def __post_init__(self) -> None:
        for name in ("data", "tensor", "pipeline", "chunks", "micro_batch", "micro_batches"):
            _whole(self, name, 1)
        one_of("zero", self.zero, (0, 1, 2, 3))
        one_of("recompute", self.recompute, RECOMPUTE)
        flag("sequence_parallel", self.sequence_parallel)
        shard = whole("shard", self.shard, least=0) or self.data
        object.__setattr__(self, "shard", divides("shard", shard, "data", self.data))
        if self.chunks > 1 and self.micro_batches % self.pipeline:
            raise InputError(
                f"micro_batches = {self.micro_batches}: interleaving (chunks = {self.chunks}) "
                "needs a "
                f"multiple of pipeline = {self.pipeline}"
            )
        if self.chunks > 1 and self.pipeline == 1:
            raise InputError(f"chunks = {self.chunks}: interleaving needs pipeline of at least 2")

    @property
    def world(self) -> int:
        return self.data * self.tensor * self.pipeline

    @property
    def sequences(self) -> int:
        """Sequences of a global batch."""
        return self.data * self.micro_batch * self.micro_batches

    def layers_of_stage(self, layers: int) -> int:
        """Layers one stage holds; refused when they do not divide."""
        return len(stage_layers(layers, self.pipeline, self.chunks)[0])


def stage_layers(
    layers: int, pipeline: int = 1, chunks: int = 1, first: int = 0
) -> list[list[int]]:
    """Layers of each stage, counted from `first`: chunk c of stage i is the (c p + i)-th slice of
    L / (p v) layers.

    16 layers, 4 stages, 2 chunks: stage 0 holds [0, 1, 8, 9].
    """
    L, p, v = whole("layers", layers), whole("pipeline", pipeline), whole("chunks", chunks)
    size, start = L // (p * v), whole("first", first, least=0)
    if L % (p * v):
        raise InputError(f"layers = {L}: pipeline * chunks = {p * v} does not divide it")
    return [
        [start + (c * p + i) * size + j for c in range(v) for j in range(size)] for i in range(p)
    ]


def tensor_degree(model: Model, tensor: int) -> int:
    """A tensor-parallel degree, refused by the name of what it does not divide: heads, shared key
    heads, the MLP's width.
    """
    t = divides("tensor", tensor, "heads", model.heads)
    if model.kv_heads % t and t % model.kv_heads:
        raise InputError(
            f"tensor = {t}: neither divides kv_heads = {model.kv_heads} nor is a multiple of it"
        )
    if model.expert_layers < model.layers:
        divides("tensor", t, "ffn_width", model.ffn_width)
    if model.experts:
        divides("tensor", t, "experts.width", model.experts.width)
    return t


@cache
def table(kind: str) -> dict[str, dict[str, Any]]:
    """One data file as it stands."""
    name = one_of("table", kind, TABLES)
    return tomllib.loads((Path(__file__).parent / "data" / f"{name}.toml").read_text("utf-8"))


def _model_row(name: str) -> dict[str, Any]:
    """A row of models.toml; `like` names a row it differs from in the fields that follow."""
    row = dict(table("models")[one_of("model", name, table("models"))])
    parent = _model_row(row.pop("like")) if "like" in row else {}
    own = ("parameters", "title")
    return {field: value for field, value in parent.items() if field not in own} | row


def find_model(name: str | Model) -> Model:
    """A model by its name in models.toml; a Model is returned as it is, so that formulas take
    either.
    """
    if isinstance(name, Model):
        return name
    if isinstance(name, str) and name not in table("models"):
        refuse_uncovered("model", name)
    row = _model_row(name)
    for part, kind in (("latent", Latent), ("experts", Experts), ("window", Window)):
        if part in row:
            row[part] = kind(**row[part]) if row[part] else None
    return Model(name=name, **row)


def refuse_uncovered(argument: str, name: str) -> None:
    """Say of a T5, a BERT, a Mamba that no formula here is about them, instead of guessing."""
    for kind, names in NOT_COVERED.items():
        if name.lower().startswith(names):
            raise InputError(
                f"{argument} = {name!r}: {kind} is not covered; expected a decoder-only transformer"
            )


def find_device(name: str) -> Device:
    """A device by its name in devices.toml."""
    return Device(name=name, **table("devices")[one_of("device", name, table("devices"))])


def titled(kind: str, names: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Rows of a data file for a menu: what each is called, and its name."""
    rows = table(kind)
    names = listed("names", names)
    return tuple((rows[one_of("names", n, rows)].get("title", n), n) for n in names)


def find_cluster(name: str) -> Cluster:
    """A cluster by its name in clusters.toml."""
    return Cluster(name=name, **table("clusters")[one_of("cluster", name, table("clusters"))])
