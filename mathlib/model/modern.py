"""Today's decoder, built from the same `specs.Model` that the formulas read: rotary positions,
grouped or latent heads, sliding windows, gates, experts.

Shapes: B sequences, S tokens, h width, a heads, k kv_heads, d head_dim, f ffn_width, V vocab rows.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mathlib.checks import InputError
from mathlib.model.gpt import initialise
from mathlib.specs import Latent, Model


def rotate(x: Tensor, places: Tensor | None = None) -> Tensor:  # B heads S d
    """Rotary positions: each pair of numbers turns by an angle that grows with its position.

    `places` says where each token stands, [S] or [B, S]; None: they are the first S.
    """
    S, half = x.shape[-2], x.shape[-1] // 2
    rates = 10_000.0 ** -(torch.arange(half, device=x.device) / half)
    places = torch.arange(S, device=x.device) if places is None else places
    angle = places[..., None, :, None] * rates  # (B) 1 S d/2
    one, two = x.chunk(2, -1)
    turned = (one * angle.cos() - two * angle.sin(), two * angle.cos() + one * angle.sin())
    return torch.cat(turned, -1)


def hidden(S: int, window: int, device: torch.device, new: int | None = None) -> Tensor:
    """True where a token may not look: ahead of itself, or farther back than its window.

    A row for each token; or for the `new` last ones only.
    """
    here = torch.arange(S, device=device)
    back = here[S - (S if new is None else new) :, None] - here
    return (back < 0) | (back >= window)


def split(x: Tensor, heads: int) -> Tensor:  # B S (heads d) -> B heads S d
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


class Grouped(nn.Module):
    """Queries of a heads, keys and values of k heads, each of which serves a/k queries."""

    def __init__(self, model: Model):
        super().__init__()
        h, a, k, d = model.width, model.heads, model.kv_heads, model.head_dim
        self.heads, self.kv_heads = a, k
        self.query = nn.Linear(h, a * d, bias=model.qkv_bias)
        self.key = nn.Linear(h, k * d, bias=model.qkv_bias)
        self.value = nn.Linear(h, k * d, bias=model.qkv_bias)
        normed = model.query_key_norm == "head"
        self.norms = nn.ModuleList(nn.RMSNorm(d) if normed else nn.Identity() for _ in "qk")

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = self.shared(x)
        each = self.heads // self.kv_heads
        return q, k.repeat_interleave(each, 1), v.repeat_interleave(each, 1)

    def shared(
        self, x: Tensor, places: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:  # B a S d, B k S d, B k S d
        """The keys and values once each, as a cache keeps them."""
        query_norm, key_norm = self.norms
        q, k = split(self.query(x), self.heads), split(self.key(x), self.kv_heads)
        v = split(self.value(x), self.kv_heads)
        return rotate(query_norm(q), places), rotate(key_norm(k), places), v


class FromLatents(nn.Module):
    """Queries, keys and values unpacked from narrow latents; one rotary key for all heads."""

    def __init__(self, model: Model, z: Latent):
        super().__init__()
        h, a, self.parts = model.width, model.heads, z
        self.heads, scored = a, a * (z.nope_dim + z.rope_dim)
        if z.query_rank:
            down = nn.Linear(h, z.query_rank, bias=model.qkv_bias)
            up = nn.Linear(z.query_rank, scored, bias=False)
            self.query = nn.Sequential(down, nn.RMSNorm(z.query_rank), up)
        else:
            self.query = nn.Sequential(nn.Linear(h, scored, bias=False))
        self.down = nn.Linear(h, z.kv_rank + z.rope_dim, bias=model.qkv_bias)
        self.norm = nn.RMSNorm(z.kv_rank)
        self.up = nn.Linear(z.kv_rank, a * (z.nope_dim + z.value_dim), bias=False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        z = self.parts
        q, q_rope, latent, k_rope = self.narrow(x)
        k, v = split(self.up(latent[:, 0]), self.heads).split([z.nope_dim, z.value_dim], -1)
        k_rope = k_rope.expand(-1, self.heads, -1, -1)
        return torch.cat([q, q_rope], -1), torch.cat([k, k_rope], -1), v

    def narrow(
        self, x: Tensor, places: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # B a S d twice, B 1 S rank, B 1 S rope
        """The queries' two parts, and what a cache keeps: the latent, and one rotary key."""
        z = self.parts
        q, q_rope = split(self.query(x), self.heads).split([z.nope_dim, z.rope_dim], -1)
        latent, k_rope = self.down(x).split([z.kv_rank, z.rope_dim], -1)
        return (
            q,
            rotate(q_rope, places),
            self.norm(latent)[:, None],
            rotate(k_rope[:, None], places),
        )


class Attention(nn.Module):
    def __init__(self, model: Model, window: int):
        super().__init__()
        self.window, z = window, model.latent
        self.heads = FromLatents(model, z) if z else Grouped(model)
        wide = model.heads * (z.value_dim if z else model.head_dim)
        self.out = nn.Linear(wide, model.width, bias=model.output_bias)

    def forward(self, x: Tensor) -> Tensor:  # B S h
        q, k, v = self.heads(x)
        scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5  # B a S S
        scores = scores.masked_fill(hidden(q.shape[2], self.window, x.device), float("-inf"))
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class Gated(nn.Module):
    def __init__(self, width: int, ffn_width: int):
        super().__init__()
        self.gate = nn.Linear(width, ffn_width, bias=False)
        self.up = nn.Linear(width, ffn_width, bias=False)
        self.down = nn.Linear(ffn_width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Experts(nn.Module):
    """Every token is sent to the experts that the router likes best, and to the shared one."""

    def __init__(self, model: Model):
        super().__init__()
        h, one = model.width, model.experts
        assert one
        self.active = one.active
        self.router = nn.Linear(h, one.routed, bias=False)
        self.experts = nn.ModuleList(Gated(h, one.width) for _ in range(one.routed))
        self.shared = Gated(h, one.width * one.shared) if one.shared else None

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.flatten(0, -2)
        weights, chosen = self.router(tokens).softmax(-1).topk(self.active)
        result = self.shared(tokens) if self.shared else torch.zeros_like(tokens)
        for number, expert in enumerate(self.experts):
            token, place = visitors(chosen, number, len(self.experts))
            part = expert(tokens[token]) * weights[token, place][:, None]
            # index_add would keep `part` for its shape alone
            result = result.scatter_add(0, token[:, None].expand_as(part), part)
        return result.view_as(x)


def visitors(chosen: Tensor, number: int, experts: int) -> tuple[Tensor, Tensor]:
    """Which tokens chose this expert, and as their first, second, ... choice."""
    if chosen.is_meta:  # shapes without numbers choose nothing: every expert gets as many
        some = torch.empty(chosen.numel() // experts, dtype=torch.long, device="meta")
        return some, some
    token, place = (chosen == number).nonzero(as_tuple=True)
    return token, place


class Block(nn.Module):
    """Two norms a layer, or four where the results are normed as well (Gemma 2 and 3)."""

    def __init__(self, model: Model, index: int):
        super().__init__()
        window = model.window
        reach = window.width if window and window.at(index) else model.context
        self.attention = Attention(model, reach)
        sparse = model.experts and model.experts.at(index)
        self.mlp = Experts(model) if sparse else Gated(model.width, model.ffn_width)
        self.before = nn.ModuleList(nn.RMSNorm(model.width) for _ in range(2))
        after = nn.RMSNorm if model.block_norms == 4 else nn.Identity
        self.after = nn.ModuleList(after(model.width) for _ in range(2))

    def forward(
        self, x: Tensor, attention: Callable[[Tensor], Tensor] | None = None
    ) -> Tensor:  # B S h
        """`attention`: what to call instead of the block's own, such as one with a cache."""
        x = x + self.after[0]((attention or self.attention)(self.before[0](x)))
        return x + self.after[1](self.mlp(self.before[1](x)))


class Decoder(nn.Module):
    """Tokens to logits: a look-up, the blocks one after the other, a norm, the head."""

    tokens: nn.Embedding
    blocks: nn.ModuleList
    norm: nn.Module
    head: nn.Linear

    def forward(self, tokens: Tensor) -> Tensor:  # B S -> B S V
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))

    def loss(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """Mean cross-entropy in nats over all tokens of the batch."""
        return F.cross_entropy(self(tokens).flatten(0, 1), targets.flatten())


class Modern(Decoder):
    """Llama, Qwen 3, Mixtral, Gemma 3 or DeepSeek-V3 at any size, as its `specs.Model` says."""

    def __init__(self, model: Model, seed: int = 0):
        super().__init__()
        check_buildable(model)
        self.model, self.tokens = model, nn.Embedding(model.padded_vocab, model.width)
        self.blocks = nn.ModuleList(Block(model, index) for index in range(model.layers))
        self.norm = nn.RMSNorm(model.width)
        self.head = nn.Linear(model.width, model.padded_vocab, bias=False)
        if model.tied:
            self.head.weight = self.tokens.weight
        initialise(self, seed)


WANTED = {
    "positions": ("rotary",),
    "norm": ("rmsnorm",),
    "block_norms": (2, 4),
    "gated": (True,),
    "mlp_bias": (False,),
    "head_bias": (False,),
    "final_norm": (True,),
    "embedding_norm": (False,),
    "query_key_norm": ("", "head"),
    "query_key_norm_bias": (False,),
    "attention_sinks": (False,),
    "parallel_block": (False,),
    "dropout": (False,),
}


def check_buildable(model: Model) -> None:
    """Refuse what this decoder is not, rather than run another model than the formula counts."""
    for name, values in WANTED.items():
        if getattr(model, name) not in values:
            told = " or ".join(map(repr, values))
            raise InputError(
                f"{name} = {getattr(model, name)!r}: this decoder is built with {name} = {told}"
            )
    if model.window and model.window.chunked:
        raise InputError("chunked = True: this decoder's windows slide")
    if model.experts and (model.experts.router_bias or model.experts.shared_gate):
        raise InputError("experts: this decoder's have neither router_bias nor shared_gate")
