"""The network of the proof: a small decoder in which every function is a polynomial.

h width · a heads · d head_dim · k kv_heads · f width inside the MLP · V vocabulary
s tokens of a sequence · E experts, of which a token visits two · L layers

A norm is a learned scale, attention weighs values by the plain scores of query and key, an MLP
multiplies its gate and its up projection, an expert's gate is its score, and the loss of a token
with scores x, target y and z the sum of x^2 is z (z - x_y).  Sizes are as small as a layout allows,
and nothing divides that need not: neither words nor the MLP's width.
"""

from functools import cached_property
from math import lcm
from typing import NamedTuple

from mathlib.layout import Layout
from mathlib.records import dataclass

WIDTH, HEAD, WORDS, ACTIVE = 5, 2, 11, 2


class Parameter(NamedTuple):
    """A weight of the whole network, and how tensor parallelism cuts it."""

    name: str
    rows: int
    columns: int
    cut: str = ""  # "rows" or "columns" over tensor; "key-value": its rows by heads
    expert: int | None = None  # whose it is

    @property
    def unit(self) -> str:
        """What is gathered and reduced in one go: a layer's parameters, its experts apart."""
        first, _, rest = self.name.partition(".")
        if not rest:
            return first
        layer = f"{first}.{rest.partition('.')[0]}"
        return f"{layer}.experts" if self.expert is not None else layer


@dataclass(frozen=True)
class Network:
    """Sizes; see the module's legend."""

    layers: int
    heads: int
    kv_heads: int
    ffn: int
    tokens: int
    experts: int  # 0: none; else every second layer has them
    tied: bool  # the head is the embedding

    def has_experts(self, layer: int) -> bool:
        return bool(self.experts) and layer % 2 == 1

    def parameters(self) -> list[Parameter]:
        """All weights in the order of computing."""
        return self._parameters

    @cached_property
    def _parameters(self) -> list[Parameter]:
        found = [Parameter("embedding", WORDS, WIDTH, "rows")]
        found.append(Parameter("positions", self.tokens, WIDTH))
        for layer in range(self.layers):
            found += self._attention(f"layers.{layer}")
            found += self._mlp(f"layers.{layer}", layer)
        found.append(Parameter("norm", 1, WIDTH))
        return found if self.tied else [*found, Parameter("head", WORDS, WIDTH, "rows")]

    def _attention(self, of: str) -> list[Parameter]:
        q, kv = self.heads * HEAD, self.kv_heads * HEAD
        return [
            Parameter(f"{of}.norm", 1, WIDTH),
            Parameter(f"{of}.query", q, WIDTH, "rows"),
            Parameter(f"{of}.key", kv, WIDTH, "key-value"),
            Parameter(f"{of}.value", kv, WIDTH, "key-value"),
            Parameter(f"{of}.query_norm", 1, HEAD),
            Parameter(f"{of}.key_norm", 1, HEAD),
            Parameter(f"{of}.out", WIDTH, q, "columns"),
            Parameter(f"{of}.out_bias", 1, WIDTH),
        ]

    def _mlp(self, of: str, layer: int) -> list[Parameter]:
        found = [Parameter(f"{of}.mlp_norm", 1, WIDTH)]
        if self.has_experts(layer):
            found.append(Parameter(f"{of}.router", self.experts, WIDTH))
            for e in range(self.experts):
                found += self._gated(f"{of}.experts.{e}", e)
            return found
        return [*found, *self._gated(of, None), Parameter(f"{of}.down_bias", 1, WIDTH)]

    def _gated(self, of: str, expert: int | None) -> list[Parameter]:
        return [
            Parameter(f"{of}.gate", self.ffn, WIDTH, "rows", expert),
            Parameter(f"{of}.up", self.ffn, WIDTH, "rows", expert),
            Parameter(f"{of}.down", WIDTH, self.ffn, "columns", expert),
        ]

    @property
    def degree(self) -> int:
        """Of the loss and of all that training makes of it, as polynomials in the weights."""
        stream = 1
        for layer in range(self.layers):
            stream = 3 * stream + 9  # norms and projections of query, key, value; out
            stream = 3 * stream + 7 if self.has_experts(layer) else 2 * stream + 5
        return 4 * (stream + 2) + 1  # the loss; times the learning rate


def smallest(
    layout: Layout, chunks: int, *, tied: bool = True, swap_heads: bool = False
) -> Network:
    """The smallest network that a layout can train: two layers and one for each chunk at least,
    key-value heads of which two ranks have copies where tensor parallelism is even; but where
    context ranks swap tokens for heads, enough heads for all.
    """
    t, cp = layout.tensor, layout.context
    heads = max(2, t) if t % 2 == 0 or t == 1 else 2 * t
    heads = 2 * t * cp if swap_heads else heads
    own = lcm(2, t) if layout.sequence_parallel else 2
    experts = 2 * layout.expert if layout.expert > 1 or layout.expert_tensor else 0
    return Network(
        layers=chunks * -(-2 // chunks),
        heads=heads,
        kv_heads=heads // 2,
        ffn=2 * t + 1,
        tokens=cp * own * (2 if cp * own < 4 else 1),
        experts=experts,
        tied=tied,
    )
