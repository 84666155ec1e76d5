"""What a model is, exactly enough of it to count parameters, FLOP and bytes: frozen and validated.

L layers · h width · a heads · k kv_heads · d head_dim · f ffn_width · V vocab · s context
"""

from typing import Any

from mathlib.checks import InputError, flag, keep_title, keep_whole, one_of
from mathlib.records import dataclass, field, fields, replace

POSITIONS = ("learned", "rotary", "alibi", "relative", "none")
MOST_LAYERS = 10**6  # some formulas list them one by one
NORMS = ("layernorm", "layernorm-no-bias", "rmsnorm", "none")
ATTENTION = ("standard", "flash")
# one weight vector of head_dim for all heads, one for each head, one as wide as all heads together
QUERY_KEY_NORMS = ("", "head", "heads", "full")


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
        keep_whole(self, 1, "kv_rank", "rope_dim", "nope_dim", "value_dim")
        keep_whole(self, 0, "query_rank")


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
        keep_whole(self, 1, "routed", "active", "width", "every")
        keep_whole(self, 0, "shared", "dense_layers")
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
        keep_whole(self, 1, "width")
        keep_whole(self, 0, "full_every", "full_first")
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
    unread: tuple[str, ...] = field(default=(), compare=False)  # keys of its file without a part

    def __post_init__(self) -> None:
        keep_title(self)
        keep_whole(self, 1, "layers", "width", "heads", "vocab", "context")
        keep_whole(self, 0, "block_norms", "parameters", *self.usual())
        for one in fields(self):
            if one.type is bool:
                flag(one.name, getattr(self, one.name))
        one_of("positions", self.positions, POSITIONS)
        one_of("norm", self.norm, NORMS)
        one_of("attention", self.attention, ATTENTION)
        one_of("query_key_norm", self.query_key_norm, QUERY_KEY_NORMS)
        self._check_parts()
        for name, value in self.usual().items():
            object.__setattr__(self, name, getattr(self, name) or value)
        self._check_sizes()

    def usual(self) -> dict[str, int]:
        """Sizes that follow from others where nothing else is said; 0 where none does."""
        return {
            "kv_heads": self.heads,
            "head_dim": 0 if self.width % self.heads else self.width // self.heads,
            "ffn_width": 4 * self.width,
            "padded_vocab": self.vocab,
            "position_rows": self.context,
        }

    def _check_parts(self) -> None:
        for name, kind in PARTS.items():
            part = getattr(self, name)
            if not isinstance(part, kind | None):
                raise InputError(f"{name} = {part!r}: expected a specs.{kind.__name__} or None")
        if self.query_key_norm and self.latent:
            raise InputError(
                f"query_key_norm = {self.query_key_norm!r}: expected none with latent attention, "
                "which norms its latents"
            )
        if self.experts and self.experts.dense_layers > self.layers:
            raise InputError(
                f"dense_layers = {self.experts.dense_layers}: expected at most layers = "
                f"{self.layers}"
            )

    def _check_sizes(self) -> None:
        if self.layers > MOST_LAYERS:
            raise InputError(f"layers = {self.layers}: expected at most {MOST_LAYERS:,}")
        if not self.head_dim:
            raise InputError(
                f"heads = {self.heads}: does not divide width = {self.width}; name head_dim as well"
            )
        if self.heads % self.kv_heads:
            raise InputError(f"kv_heads = {self.kv_heads}: does not divide heads = {self.heads}")
        if self.padded_vocab < self.vocab:
            raise InputError(
                f"padded_vocab = {self.padded_vocab}: expected at least vocab = {self.vocab}"
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
        """The same model with some fields changed; sizes that follow from others are worked out
        again.
        """
        known = [one.name for one in fields(self)]
        for name in changes:
            one_of("field", name, known)
        if "name" in changes:
            changes.setdefault("title", changes["name"])
        followed = [name for name, value in self.usual().items() if getattr(self, name) == value]
        return replace(self, **dict.fromkeys(followed, 0) | changes)


PARTS = {"latent": Latent, "experts": Experts, "window": Window}  # fields that are specs themselves
