"""A model that writes: it is fed tokens as they come, and keeps what later ones need of them.

Shapes: B sequences, S new tokens, C tokens seen (old and new), h width, a heads, k kv_heads,
d head_dim.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from mathlib.checks import InputError
from mathlib.model import gpt, modern

Attention = gpt.Attention | modern.Attention
Transformer = gpt.GPT | modern.Modern


class Kept:
    """Rows that a layer keeps of the tokens it saw: all of them, or the newest `width`."""

    def __init__(self, width: int | None = None):
        self.width, self.rows = width, torch.empty(0)

    def add(self, new: Tensor) -> Tensor:  # B heads S d -> B heads C d
        old = self.rows if self.rows.numel() else new[..., :0, :]
        seen = torch.cat([old, new], -2)
        few = self.width is not None and seen.shape[-2] > self.width
        self.rows = seen[..., -self.width :, :].clone() if few else seen  # type: ignore[operator]
        return seen  # without clone(), a view would keep the storage of all of them

    def drop(self, tokens: int) -> None:
        """Forget the newest rows, as if these tokens had never been fed."""
        if self.width is not None:
            raise InputError("tokens: a rolling buffer cannot go back, what it dropped is gone")
        self.rows = self.rows[..., : self.rows.shape[-2] - tokens, :].clone()

    @property
    def nbytes(self) -> int:
        """Bytes of the storage that is really held."""
        return self.rows.untyped_storage().nbytes()


def look(q: Tensor, k: Tensor, v: Tensor, window: int, scale: float) -> Tensor:
    """Attention of new queries to all rows; a key head serves its group of queries."""
    S, C = q.shape[-2], k.shape[-2]
    grouped = q.unflatten(1, (k.shape[1], -1))  # B k a/k S d
    scores = grouped @ k[:, :, None].mT * scale  # B k a/k S C
    mask = modern.hidden(C, window, q.device, new=S)
    weights = scores.masked_fill(mask, float("-inf")).softmax(-1)
    return (weights @ v[:, :, None]).flatten(1, 2)  # B a S d


class CachedHeads:
    """An attention layer that keeps keys and values: called with new tokens only."""

    def __init__(self, attention: Attention, width: int | None = None):
        self.attention, self.past = attention, 0
        self.window = width or 2**62
        self.kept = [Kept(width), Kept(width)]

    def __call__(self, x: Tensor) -> Tensor:  # B S h
        q, k, v = heads_of(self.attention, x, places(self.past, x))
        keys, values = self.kept[0].add(k), self.kept[1].add(v)
        y = look(q, keys, values, self.window, q.shape[-1] ** -0.5)
        self.past += x.shape[1]
        return self.attention.out(y.transpose(1, 2).flatten(2))


class CachedLatents(CachedHeads):
    """The cache of latent attention: one latent and one rotary key a token, for all heads.

    Keys and values are never unpacked: the queries go down into the latents' space instead, and
    what is read there comes up again (DeepSeek-V2, section 2.1.2).
    """

    attention: modern.Attention

    def __call__(self, x: Tensor) -> Tensor:  # B S h
        heads = self.attention.heads
        assert isinstance(heads, modern.FromLatents)
        z = heads.parts
        q, q_rope, latent, k_rope = heads.narrow(x, places(self.past, x))
        up = heads.up.weight.unflatten(0, (heads.heads, -1))  # a (nope + value) rank
        key_up, value_up = up.split([z.nope_dim, z.value_dim], 1)
        latents, rotary = (
            one.add(new) for one, new in zip(self.kept, (latent, k_rope), strict=True)
        )
        q = torch.cat([q @ key_up, q_rope], -1)  # B a S (rank + rope)
        scale = (z.nope_dim + z.rope_dim) ** -0.5
        read = look(q, torch.cat([latents, rotary], -1), latents, self.window, scale)
        self.past += x.shape[1]
        return self.attention.out((read @ value_up.mT).transpose(1, 2).flatten(2))


def heads_of(attention: Attention, x: Tensor, at: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values of either model's attention; keys and values once a group."""
    if isinstance(attention, gpt.Attention):
        q, k, v = attention.each_head(x)
        return q, k, v
    assert isinstance(attention.heads, modern.Grouped)
    return attention.heads.shared(x, at)


def places(past: int | Tensor, x: Tensor) -> Tensor:
    """Where the new tokens stand: behind `past` others, a number or one for each sequence."""
    new = torch.arange(x.shape[1], device=x.device)
    return new + (past[:, None] if isinstance(past, Tensor) else past)


def embed(model: Transformer, tokens: Tensor, past: int | Tensor) -> Tensor:
    """What enters the first block: a learned position is added, a rotary one is not."""
    x = model.tokens(tokens)
    if isinstance(model, gpt.GPT):
        x = x + model.positions.weight[places(past, tokens)]
    return x


def cached(model: Transformer) -> Iterator[CachedHeads]:
    """The attention layers of a model, each with a cache of its kind."""
    window = model.model.window
    kind = CachedLatents if model.model.latent else CachedHeads
    for index, block in enumerate(model.blocks):
        width = window.width if window and window.at(index) else None
        yield kind(block.attention, width)  # type: ignore[arg-type]


class Decoder:
    """A model with its caches: fed the next tokens, it gives the logits that a pass over all
    tokens would give for them.
    """

    def __init__(self, model: Transformer):
        self.model, self.layers, self.past = model, list(cached(model)), 0

    @torch.no_grad()
    def __call__(self, tokens: Tensor) -> Tensor:  # B S -> B S V
        x = embed(self.model, tokens, self.past)
        for block, layer in zip(self.model.blocks, self.layers, strict=True):
            x = block(x, layer)
        self.past += tokens.shape[1]
        return self.model.head(self.model.norm(x))

    def rewind(self, to: int) -> None:
        """Go back to the first `to` tokens."""
        for layer in self.layers:
            for kept in layer.kept:
                kept.drop(self.past - to)
            layer.past = to
        self.past = to

    @property
    def nbytes(self) -> int:
        """Bytes of all caches."""
        return sum(kept.nbytes for layer in self.layers for kept in layer.kept)


def likeliest(logits: Tensor) -> Tensor:  # B V -> B
    return logits.argmax(-1)


def generate(
    model: Transformer,
    prompt: Tensor,
    tokens: int,
    choose: Callable[[Tensor], Tensor] = likeliest,
) -> Tensor:  # B S -> B (S + tokens)
    """Prefill with the prompt, all tokens in one pass; then decode, one token after the other."""
    decoder, written = Decoder(model), prompt
    logits = decoder(prompt)
    for number in range(tokens):
        new = choose(logits[:, -1])[:, None]
        written = torch.cat([written, new], 1)
        if number < tokens - 1:
            logits = decoder(new)
    return written
