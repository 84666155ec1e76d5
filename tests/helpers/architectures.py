"""Random architectures, and their tensors written out one by one: the oracle that params and flops
must agree with.
"""

from hypothesis import strategies as st

from mathlib.specs import Experts, Latent, Model, Window

SIZES = st.integers(1, 5)
FLAGS = st.booleans()
GPTS = st.builds(
    lambda L, d, a, V, s: Model("gpt", L, a * d, a, V, s),
    st.integers(1, 100),
    st.integers(1, 128),
    st.integers(1, 96),
    st.integers(1, 10**5),
    st.integers(1, 8192),
)

# Keeps every tensor that a plain layer can keep; small enough to be counted by hand.
EVERY = Model(
    "every tensor",
    layers=2,
    width=64,
    heads=4,
    kv_heads=2,
    vocab=101,
    context=10,
    query_key_norm="head",
)


@st.composite
def models(draw):
    layers, kv, group, dim = (
        draw(SIZES),
        draw(st.integers(1, 3)),
        draw(st.integers(1, 3)),
        draw(st.integers(1, 6)),
    )
    vocab = draw(st.integers(1, 40))
    experts = latent = None
    if draw(FLAGS):
        routed, shared = draw(st.integers(1, 6)), draw(st.integers(0, 2))
        experts = Experts(
            routed,
            draw(st.integers(1, routed)),
            draw(SIZES),
            shared,
            draw(st.integers(0, layers)),
            draw(st.integers(1, 3)),
            draw(FLAGS),
            bool(shared) and draw(FLAGS),
        )
    if draw(FLAGS):
        latent = Latent(*[draw(SIZES) for _ in range(4)], draw(st.integers(0, 4)))
    return Model(
        "random",
        layers,
        kv * group * draw(SIZES),
        kv * group,
        vocab,
        draw(st.integers(1, 9)),
        kv_heads=kv,
        head_dim=dim,
        ffn_width=draw(st.integers(1, 12)),
        padded_vocab=vocab + draw(st.integers(0, 9)),
        gated=draw(FLAGS),
        tied=draw(FLAGS),
        positions=draw(st.sampled_from(["learned", "rotary", "alibi", "none", "relative"])),
        position_rows=draw(st.integers(100, 120)),
        norm=draw(st.sampled_from(["layernorm", "layernorm-no-bias", "rmsnorm", "none"])),
        block_norms=draw(st.integers(0, 3)),
        final_norm=draw(FLAGS),
        embedding_norm=draw(FLAGS),
        query_key_norm="" if latent else draw(st.sampled_from(["", "head", "heads", "full"])),
        query_key_norm_bias=draw(FLAGS),
        attention_sinks=draw(FLAGS),
        parallel_block=draw(FLAGS),
        window=draw(
            st.none() | st.builds(Window, SIZES, st.integers(0, 3), st.integers(0, 2), FLAGS)
        ),
        qkv_bias=draw(FLAGS),
        output_bias=draw(FLAGS),
        mlp_bias=draw(FLAGS),
        head_bias=draw(FLAGS),
        latent=latent,
        experts=experts,
    )


def _linear(found, name, inputs, outputs, bias):
    found[f"{name}.weight"] = (inputs, outputs)
    if bias:
        found[f"{name}.bias"] = (outputs,)


def _norm(found, name, kind, size):
    if kind != "none":
        found[f"{name}.weight"] = (size,)
    if kind == "layernorm":
        found[f"{name}.bias"] = (size,)


def _mlp(found, name, model, width):
    if model.gated:
        _linear(found, f"{name}.gate", model.width, width, model.mlp_bias)
    _linear(found, f"{name}.up", model.width, width, model.mlp_bias)
    _linear(found, f"{name}.down", width, model.width, model.mlp_bias)


def _attention(found, name, model):
    h, a, k, d, z = model.width, model.heads, model.kv_heads, model.head_dim, model.latent
    if z:
        if z.query_rank:
            _linear(found, f"{name}.query.down", h, z.query_rank, model.qkv_bias)
            found[f"{name}.query.norm"] = (z.query_rank,)
            _linear(found, f"{name}.query.up", z.query_rank, a * (z.nope_dim + z.rope_dim), False)
        else:
            _linear(found, f"{name}.query", h, a * (z.nope_dim + z.rope_dim), False)
        _linear(found, f"{name}.kv.down", h, z.kv_rank + z.rope_dim, model.qkv_bias)
        found[f"{name}.kv.norm"] = (z.kv_rank,)
        _linear(found, f"{name}.kv.up", z.kv_rank, a * (z.nope_dim + z.value_dim), False)
        _linear(found, f"{name}.output", a * z.value_dim, h, model.output_bias)
    else:
        for what, heads in (("query", a), ("key", k), ("value", k)):
            _linear(found, f"{name}.{what}", h, heads * d, model.qkv_bias)
        if model.positions == "relative":
            _linear(found, f"{name}.position", h, a * d, False)
        _linear(found, f"{name}.output", a * d, h, model.output_bias)
    if model.positions == "relative":
        found[f"{name}.u"] = found[f"{name}.v"] = (a, d)
    for what, heads in (("query", a), ("key", k)):
        parts = {"": 0, "head": 1, "heads": heads, "full": 1}[model.query_key_norm]
        wide = heads * d if model.query_key_norm == "full" else d
        for i in range(parts):
            found[f"{name}.{what}_norm{i}.weight"] = (wide,)
            if model.query_key_norm_bias:
                found[f"{name}.{what}_norm{i}.bias"] = (wide,)
    if model.attention_sinks:
        found[f"{name}.sinks"] = (a,)


def tensors(model):
    """Every tensor of a checkpoint: name -> shape, as a state dict would hold them."""
    found = {"embedding": (model.padded_vocab, model.width)}
    if model.positions == "learned":
        found["positions"] = (model.position_rows, model.width)
    if model.embedding_norm:
        _norm(found, "embedding_norm", model.norm, model.width)
    for layer in range(model.layers):
        name, e = f"layers.{layer}", model.experts
        for i in range(model.block_norms):
            _norm(found, f"{name}.norm{i}", model.norm, model.width)
        _attention(found, f"{name}.attention", model)
        if e is None or layer < e.dense_layers or (layer + 1) % e.every:
            _mlp(found, f"{name}.mlp", model, model.ffn_width)
            continue
        _linear(found, f"{name}.router", model.width, e.routed, e.router_bias)
        for i in range(e.routed):
            _mlp(found, f"{name}.experts.{i}", model, e.width)
        for i in range(e.shared):
            _mlp(found, f"{name}.shared.{i}", model, e.width)
        if e.shared_gate:
            _linear(found, f"{name}.shared.output_gate", model.width, 1, False)
    if model.final_norm:
        _norm(found, "final_norm", model.norm, model.width)
    if not model.tied:
        found["head.weight"] = (model.width, model.padded_vocab)
    if model.head_bias:
        found["head.bias"] = (model.padded_vocab,)
    return found


def _sees(model, layer, past, i, j, causal):
    """Whether the product of query i with key j is done in this layer, `past` keys being cached."""
    w = model.window
    if causal and j > i:
        return False
    if w is None or layer < w.full_first or (w.full_every and (layer + 1) % w.full_every == 0):
        return True
    if causal:
        return i // w.width == j // w.width if w.chunked else i - j < w.width
    return j >= (past - past % w.width if w.chunked else past - w.width + 1)


def size(shape):
    return shape[0] * (shape[1] if len(shape) > 1 else 1)


def matmuls(model, sequences, tokens, past=0, causal=False):
    """Every matmul of a forward pass as (part, m, k, n), one entry for each matmul a
    program would do.
    """
    done = []
    for name, shape in tensors(model).items():
        if len(shape) < 2 or name in ("embedding", "positions") or name.endswith((".u", ".v")):
            continue
        e = model.experts
        if ".experts." in name and int(name.split(".")[3]) >= e.active:
            continue  # a token visits some of the experts: which, is the router's business
        part = next(
            (p for p in ("attention", "router", "experts", "shared", "mlp") if f".{p}" in name),
            "head",
        )
        done.append((part, sequences * tokens, *shape))
    if model.tied:
        done.append(("head", sequences * tokens, model.width, model.padded_vocab))
    z, d = model.latent, model.head_dim
    scored, valued = (z.nope_dim + z.rope_dim, z.value_dim) if z else (d, d)
    for at in [*range(model.layers)] * sequences * model.heads:
        for i in range(tokens):
            keys = sum(_sees(model, at, past, past + i, j, causal) for j in range(past + tokens))
            done.append(("scores", 1, scored, keys))
            if model.positions == "relative" and not z:
                done.append(("scores", 1, scored, keys))
            done.append(("values", 1, keys, valued))
    return done
