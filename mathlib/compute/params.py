"""Parameters, counted exactly from the architecture.

L layers · h width · a heads · k kv_heads · d head_dim · f ffn_width · V padded vocabulary
s context · r LoRA rank
Counts are whole numbers.  A matrix from n_in to n_out features holds n_in * n_out weights, and
n_out biases if any.
"""

from collections.abc import Collection
from functools import lru_cache
from typing import NamedTuple

from mathlib.checks import InputError, flag, one_of, whole
from mathlib.parts import Part, Parts
from mathlib.specs import Latent, Model, find_model

EMBEDDINGS = ("both", "head", "none")
NOT_IN_BODY = ("embedding", "positions", "head")


class Matrix(NamedTuple):
    """A weight that tokens are multiplied with; parameters and FLOP are both read from this."""

    group: str  # attention, mlp, experts, shared experts, router, head
    name: str
    inputs: int
    outputs: int
    layers: int  # layers that hold it
    bias: bool = False
    copies: int = 1  # how many of it a layer holds
    used: int = 1  # how many of these one token visits

    @property
    def parameters(self) -> int:
        return self.layers * self.copies * (self.inputs + self.bias) * self.outputs

    @property
    def active(self) -> int:
        bias = (
            self.bias and self.group != "router"
        )  # a router's correction only steers the choice of experts
        return self.layers * self.used * (self.inputs + bias) * self.outputs


def _latent_attention(model: Model, z: Latent) -> list[Matrix]:
    """DeepSeek-V2, section 2.1: what the heads see is unpacked from narrow latents.

    Biases, where a model has them, are on the way down into the latents and on the output.
    """
    L, h, a, down = model.layers, model.width, model.heads, model.qkv_bias
    scored = a * (z.nope_dim + z.rope_dim)
    query = [("query", h, scored, False)]
    if z.query_rank:
        query = [("query down", h, z.query_rank, down), ("query up", z.query_rank, scored, False)]
    rest = [
        ("key-value down", h, z.kv_rank + z.rope_dim, down),
        ("key-value up", z.kv_rank, a * (z.nope_dim + z.value_dim), False),
        ("output", a * z.value_dim, h, model.output_bias),
    ]
    return [Matrix("attention", name, n, m, L, bias) for name, n, m, bias in query + rest]


def _attention(model: Model) -> list[Matrix]:
    L, h, d, a, k = model.layers, model.width, model.head_dim, model.heads, model.kv_heads
    if model.latent:
        return _latent_attention(model, model.latent)
    found = [
        Matrix("attention", name, h, n * d, L, model.qkv_bias)
        for name, n in (("query", a), ("key", k), ("value", k))
    ]
    if model.positions == "relative":  # Transformer-XL, equation 5: W_{k,R} projects the distances
        found.append(Matrix("attention", "position", h, a * d, L))
    return found + [Matrix("attention", "output", a * d, h, L, model.output_bias)]


def _feed_forward(
    model: Model, group: str, width: int, layers: int, copies: int = 1, used: int = 1
) -> list[Matrix]:
    h, shape = model.width, (layers, model.mlp_bias, copies, used)
    gate = [Matrix(group, "gate", h, width, *shape)] if model.gated else []
    return gate + [Matrix(group, "up", h, width, *shape), Matrix(group, "down", width, h, *shape)]


def matrices(model: str | Model) -> list[Matrix]:
    """Every weight that takes part in a matmul, in the order a token meets them; the head
    is the last.

    Chapter: compute
    """
    return list(_matrices(find_model(model)))


@lru_cache(256)  # every formula begins with them
def _matrices(model: Model) -> tuple[Matrix, ...]:
    L, h, experts = model.layers, model.width, model.experts
    found = _attention(model)
    sparse = model.expert_layers
    if sparse < L:
        found += _feed_forward(model, "mlp", model.ffn_width, L - sparse)
    if experts and sparse:
        found.append(Matrix("router", "router", h, experts.routed, sparse, experts.router_bias))
        found += _feed_forward(
            model, "experts", experts.width, sparse, experts.routed, experts.active
        )
        if experts.shared:
            found += _feed_forward(
                model, "shared experts", experts.width, sparse, experts.shared, experts.shared
            )
        if experts.shared_gate:
            found.append(Matrix("shared experts", "output gate", h, 1, sparse))
    return (*found, Matrix("head", "head", h, model.padded_vocab, 1, model.head_bias))


def _norms(model: Model) -> Parts:
    """A LayerNorm has 2h numbers, one without bias and an RMSNorm h; one on a latent or on heads
    has its width.
    """
    L, h, per = model.layers, model.width, {"layernorm": 2, "none": 0}.get(model.norm, 1)
    parts = {"block": L * model.block_norms * h * per}
    if model.query_key_norm:
        heads = 2 if model.query_key_norm == "head" else model.heads + model.kv_heads
        parts["query and key"] = L * heads * model.head_dim * (1 + model.query_key_norm_bias)
    if model.latent:
        parts["latent"] = L * (model.latent.kv_rank + model.latent.query_rank)
    parts["embedding"] = model.embedding_norm * h * per
    parts["final"] = model.final_norm * h * per
    return Parts("norms", "parameter", {name: n for name, n in parts.items() if n})


def _positions(model: Model) -> int:
    """A learned table has a row a position; Transformer-XL's u and v have a number a feature of
    every head.
    """
    if model.positions == "learned":
        return model.position_rows * model.width
    return model.layers * 2 * model.heads * model.head_dim if model.positions == "relative" else 0


def _assembled(
    model: Model, title: str, amounts: list[tuple[Matrix, int]], embedding: int, head: int
) -> Parts:
    parts: dict[str, Part] = {"embedding": embedding, "positions": _positions(model)}
    for group in dict.fromkeys(m.group for m, _ in amounts):
        found = {m.name: n for m, n in amounts if m.group == group}
        parts[group] = Parts(group, "parameter", found) if len(found) > 1 else found[group]
    if model.attention_sinks:
        parts["sinks"] = model.layers * model.heads
    return Parts(
        f"{title} of {model.title}", "parameter", parts | {"norms": _norms(model), "head": head}
    )


def count(model: str | Model) -> Parts:
    """Parameters by part, exact.  A GPT-2: V h + s h + L (12 h^2 + 13 h) + 2h (Narayanan et al.
    2021, equation 2).

    A tied head is the embedding table again and counts 0.

    Chapter: compute
    """
    model = find_model(model)
    *body, head = matrices(model)
    own = model.head_bias * model.padded_vocab if model.tied else head.parameters
    return _assembled(
        model,
        "parameters",
        [(m, m.parameters) for m in body],
        model.padded_vocab * model.width,
        own,
    )


def total(model: str | Model) -> int:
    """All parameters a model holds, each once.

    Chapter: compute
    """
    return int(count(model).total)


def active(model: str | Model, *, embeddings: str = "both") -> Parts:
    """Parameters one token meets: of the experts only those the router picks.

    embeddings: "both" counts the input table and the head, "head" the head alone (the table is a
    look-up, no matmul; DeepSeek-V3's 37B), "none" neither.  A tied table counts once, under "both"
    and under "head".

    Chapter: compute
    """
    model = find_model(model)
    one_of("embeddings", embeddings, EMBEDDINGS)
    *body, last = matrices(model)
    table = model.padded_vocab * model.width
    tied_bias = model.head_bias * model.padded_vocab
    own = tied_bias if model.tied else last.parameters
    shown = {"both": (table, own), "head": (0, last.parameters), "none": (0, 0)}
    return _assembled(model, "active parameters", [(m, m.active) for m in body], *shown[embeddings])


def met(model: str | Model) -> int:
    """Weights that one token is multiplied with: n_in n_out of every matrix it visits, no bias, no
    norm, no look-up.

    L (2 h d (a + k) + 3 h f) + h V where the MLP is gated; of the experts those that the router
    picks, and the router (Chowdhery et al. 2022, appendix B, have all of P here).

    Chapter: compute (eq-met)
    """
    return sum(m.layers * m.used * m.inputs * m.outputs for m in matrices(model))


def non_embedding(model: str | Model, *, without: Collection[str] = NOT_IN_BODY) -> int:
    """Parameters less tables: Kaplan et al. 2020 leave out token table, positions and
    head (section 2.1).

    without: the parts left out; ("positions",) is nanoGPT's count, ("embedding",)
    leaves the head in.

    Chapter: compute
    """
    parts = count(model)
    if isinstance(without, str) or not isinstance(without, Collection):
        told = "expected names of parts, such as ('embedding', 'head')"
        raise InputError(f"without = {without!r}: {told}")
    for name in without:
        one_of("without", name, parts)
    return int(parts.total - sum(parts.amount(name) for name in set(without)))


def tensors(model: str | Model) -> dict[int, int]:
    """How many tensors of which size a model has: size in parameters, and how many.

    Queries, keys and values are one tensor, as GPT-NeoX and Megatron-LM keep them, and so are
    the norms on the heads or latents of a layer.

    Chapter: mics
    """
    shape = find_model(model)
    counted = count(shape)
    found: dict[int, int] = {}

    def add(size: float, many: int) -> None:
        if size:
            found[int(size)] = found.get(int(size), 0) + many

    qkv = {True: 0, False: 0}  # weights, and biases
    for m in matrices(shape):
        if m.name in ("query", "key", "value"):
            qkv[True] += m.inputs * m.outputs
            qkv[False] += m.bias * m.outputs
        elif m.group != "head":
            add(m.inputs * m.outputs, m.layers * m.copies)
            add(m.bias * m.outputs, m.layers * m.copies)
    for size in qkv.values():
        add(size, shape.layers)
    for part in ("embedding", "positions", "head"):
        add(counted.amount(part), 1)
    norms = _norms(shape)
    for name in norms:
        odd = name in ("query and key", "latent")
        many = shape.layers if odd else round(norms.amount(name) / shape.width)
        add(norms.amount(name) / many, many)
    return found


def shorthand(*, layers: int, width: int) -> int:
    """12 L h^2: the matrices of a plain transformer's layers, nothing else (Kaplan et al. 2020,
    equation 2.1).

    Chapter: compute
    """
    L, h = whole("layers", layers), whole("width", width)
    return 12 * L * h**2


def lora(
    model: str | Model,
    *,
    rank: int,
    targets: Collection[str] = ("query", "value"),
    magnitude: bool = False,
) -> Parts:
    """Trainable parameters of LoRA: r (n_in + n_out) for every adapted matrix (Hu et al. 2021,
    section 4.1).

    targets: names as in `matrices`; the paper adapts query and value. `magnitude`: DoRA adds one
    number for each output (Liu et al. 2024, section 4.1).

    Chapter: after (eq-adapter-size)
    """
    model, r, magnitude = find_model(model), whole("rank", rank), flag("magnitude", magnitude)
    body = matrices(model)[:-1]
    if isinstance(targets, str) or not isinstance(targets, Collection) or not targets:
        raise InputError(
            f"targets = {targets!r}: expected names of matrices, such as ('query', 'value')"
        )
    for name in targets:
        one_of("targets", name, dict.fromkeys(m.name for m in body))
    found = [m for m in body if m.name in targets]
    groups = {
        g: sum(
            (r * (m.inputs + m.outputs) + magnitude * m.outputs) * m.layers * m.copies
            for m in found
            if m.group == g
        )
        for g in dict.fromkeys(m.group for m in found)
    }
    return Parts(f"LoRA of rank {r} on {model.title}", "parameter", groups)
