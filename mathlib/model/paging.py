"""Caches in blocks: sequences of any length share one store, and each takes blocks as it grows.

Shapes: n sequences, h width, k kv_heads, d head_dim; a block has room for `block` tokens.
"""

import torch
from torch import Tensor

from mathlib.checks import InputError, ceil_div, whole
from mathlib.model.decoding import Attention, Transformer, embed, heads_of, look, places


class Pages:
    """Which blocks belong to which sequence: a page table, and a list of free blocks."""

    def __init__(self, blocks: int, block: int):
        self.block, self.free = whole("block", block), list(range(whole("blocks", blocks)))
        self.table: dict[str, list[int]] = {}
        self.tokens: dict[str, int] = {}

    def grow(self, name: str, tokens: int) -> None:
        """Room for more tokens: new blocks only where the last one is full."""
        have, length = self.table.get(name, []), self.tokens.get(name, 0) + tokens
        need = ceil_div(length, self.block) - len(have)
        if need > len(self.free):
            told = f"{name} needs {need} blocks, {len(self.free)} are free"
            raise InputError(f"tokens = {tokens}: {told}")
        self.table[name] = have + [self.free.pop() for _ in range(need)]
        self.tokens[name] = length

    def release(self, name: str) -> None:
        """A finished sequence gives its blocks back; whoever comes next takes them."""
        self.free += self.table.pop(name)
        del self.tokens[name]

    def slots(self, name: str, first: int = 0) -> Tensor:
        """Rows of the store that hold a sequence's tokens, from the first wanted one on."""
        token = torch.arange(first, self.tokens[name])
        blocks = torch.tensor(self.table[name])
        return blocks[token // self.block] * self.block + token % self.block

    @property
    def reserved(self) -> int:
        """Tokens that the blocks in use have room for."""
        return self.block * sum(map(len, self.table.values()))

    @property
    def used(self) -> int:
        return sum(self.tokens.values())


class PagedHeads:
    """An attention layer whose sequences keep their keys and values in blocks of one store."""

    def __init__(self, attention: Attention, pages: Pages, rows: int):
        self.attention, self.pages, self.names = attention, pages, [""]
        self.rows = rows
        self.store: list[Tensor] = []

    def __call__(self, x: Tensor) -> Tensor:  # n S h
        past = torch.tensor([self.pages.tokens[name] for name in self.names]) - x.shape[1]
        q, k, v = heads_of(self.attention, x, places(past, x))
        if not self.store:
            self.store = [new.new_zeros(self.rows, *new.shape[1::2]) for new in (k, v)]
        seen = [self.look(*one) for one in zip(self.names, past.tolist(), q, k, v, strict=True)]
        return self.attention.out(torch.stack(seen).transpose(1, 2).flatten(2))

    def look(self, name: str, past: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Write the new rows of a sequence into its blocks, and read all that it has."""
        new, mine = self.pages.slots(name, past), self.pages.slots(name)
        for store, rows in zip(self.store, (k, v), strict=True):
            store[new] = rows.transpose(0, 1)  # k S d -> S k d
        keys, values = (store[mine].transpose(0, 1)[None] for store in self.store)
        return look(q[None], keys, values, 2**62, q.shape[-1] ** -0.5)[0]


class Server:
    """One model, many sequences: they come, take a step together whatever their lengths, and go."""

    def __init__(self, model: Transformer, blocks: int, block: int):
        if model.model.latent or model.model.window:
            raise InputError("model: pages are written for keys and values without a window")
        self.model, self.pages = model, Pages(blocks, block)
        rows = blocks * block
        self.layers = [PagedHeads(one.attention, self.pages, rows) for one in model.blocks]  # type: ignore[arg-type]

    @torch.no_grad()
    def feed(self, new: dict[str, list[int]]) -> dict[str, Tensor]:
        """As many new tokens of each named sequence, in one pass; the logits of the last ones."""
        tokens = torch.tensor(list(new.values()))  # n S
        past = torch.tensor([self.pages.tokens.get(name, 0) for name in new])
        for name in new:
            self.pages.grow(name, tokens.shape[1])
        x = embed(self.model, tokens, past)
        for block, layer in zip(self.model.blocks, self.layers, strict=True):
            layer.names = list(new)
            x = block(x, layer)
        return dict(zip(new, self.model.head(self.model.norm(x))[:, -1], strict=True))
