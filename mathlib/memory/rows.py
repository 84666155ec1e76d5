"""What a rank of a sharded run keeps: the rows that tensors lie in, and its piece of each.

P parameters · S ranks ZeRO shards over · e bytes of an element
A row is what travels as one: a bucket of gradients in stages 1 and 2, a layer in stage 3. It is
padded to a multiple of S, and a rank keeps a piece of it, 1/S.
"""

from functools import cached_property
from itertools import accumulate

from mathlib.compute import params
from mathlib.memory import activations, precision
from mathlib.memory.exchange import Row, _filled
from mathlib.memory.moments import _Step
from mathlib.memory.states import ENDS, _on_device
from mathlib.parts import Part, Parts
from mathlib.records import dataclass


@dataclass(frozen=True)
class _Rows(_Step):
    """Parameters by tensor and by row; `_Step` is what the rank would have alone."""

    bucket_bytes: float
    keep_half: bool

    @cached_property
    def copy_bytes(self) -> dict[str, float]:
        """Bytes a parameter, by copy, before sharding."""
        each = precision.bytes_per_parameter(self.recipe)
        own = ("first moment", "second moment", "scales", "gradient copies")
        moments = sum(each.amount(n) for n in each if n in own)
        named = {n: each.amount(n) for n in each if n in ("weights", "master weights")}
        return {"weights": 0, "master weights": 0, "optimizer states": moments} | named

    @cached_property
    def piece_bytes(self) -> float:
        """Bytes of a number of a gradient that has arrived."""
        each = precision.bytes_per_parameter(self.recipe)
        return each.amount("main gradients") if "main gradients" in each else self.gradient_bytes

    def layer_tensors(self, experts: bool) -> list[float]:
        """Parameters of a layer with experts or without, as its backward comes to them: the MLP's,
        a norm, attention's, a norm; queries, keys and values as one tensor.
        """
        skipped = {"mlp", "head"} if experts else {"router", "experts", "shared experts", "head"}
        found: dict[str, float] = {}
        for m in params.matrices(self.model):
            if m.group not in skipped:
                name = "qkv" if m.name in ("query", "key", "value") else f"{m.group} {m.name}"
                found[name] = found.get(name, 0) + _on_device(m, self.model, self.layout.tensor)
        late = {name: n for name, n in found.items() if name == "qkv" or "attention" in name}
        early = {name: n for name, n in found.items() if name not in late}
        norms = params.count(self.model)["norms"]
        assert isinstance(norms, Parts)
        each = sum(norms.amount(n) for n in norms if n not in ENDS) / self.model.layers / 2
        return [*reversed(early.values()), each, *reversed(late.values()), each]

    @cached_property
    def layers(self) -> list[list[float]]:
        """The tensors of all layers, the last layer first."""
        kinds = [activations._has_experts(self.model, i) for i in range(self.model.layers)]
        tensors = {experts: self.layer_tensors(experts) for experts in set(kinds)}
        return [tensors[experts] for experts in reversed(kinds)]

    @property
    def table(self) -> float:
        """Parameters of the embedding's table, which backward comes to last."""
        return self.own.amount("embedding")

    @cached_property
    def tensors(self) -> list[float]:
        """Parameters of all tensors as backward comes to them."""
        inner = [n for layer in self.layers for n in layer]
        head = [] if self._head_is_table else [self.head_parameters]
        rest = self.own.total - sum(inner) - sum(head) - self.table
        return [*head, *inner, max(0, rest), self.table]

    @cached_property
    def behind_head(self) -> int:
        """Tensors that backward has come to before the last layer."""
        return 0 if self._head_is_table else 1

    @cached_property
    def begins(self) -> list[int]:
        """Tensors that backward has come to before each of the layers."""
        return list(accumulate((len(layer) for layer in self.layers), initial=self.behind_head))

    @cached_property
    def outside(self) -> float:
        """Parameters in no layer."""
        return self.own.total - sum(map(sum, self.layers))

    @cached_property
    def rows(self) -> list[Row]:
        """What travels together, in the order in which it leaves."""
        S, end = self.layout.shard, len(self.tensors) - 1
        if self.layout.zero < 3:
            e, most = self.gradient_bytes, self.bucket_bytes
            return list(_filled(self.tensors, ranks=S, element=e, bucket=most))
        last = [n - 1 for n in self.begins[1:]]
        layers = [Row(sum(n), S, i) for n, i in zip(self.layers, last, strict=True)]
        return [*layers, Row(self.outside, S, end)]

    @cached_property
    def pieces(self) -> int:
        """Numbers that a rank keeps of all rows."""
        return sum(row.piece for row in self.rows)

    @cached_property
    def resident(self) -> dict[str, Part]:
        """Weights, masters and states, padded; without a 16-bit shard where it is made from its
        master each time.
        """
        e, stage = self.copy_bytes, self.layout.zero
        parts: dict[str, Part] = {
            "weights": e["weights"] * self.own.total,
            "master weights": e["master weights"] * self.pieces,
            "optimizer states": e["optimizer states"] * self.pieces,
        }
        if stage == 3:
            made = e["master weights"] and not self.keep_half
            parts["weights"] = 0 if made else e["weights"] * self.pieces
        else:
            padded = sum(row.padded for row in self.rows)
            parts["padding"] = e["weights"] * (padded - self.own.total)
        return {name: size for name, size in parts.items() if size} | self.buffers
