"""Gradients that leave while backward goes on: what of them is alive; and what a rank of a sharded
run keeps, tensor by tensor and row by row.

S ranks ZeRO shards over · P parameters of a rank · e bytes of an element
A row is what travels as one: a bucket of gradients in stage 2, a layer in stage 3. It is padded to
a multiple of S, and a rank keeps a shard of it, 1/S. An all-to-all has a row in flight twice: the
row that is sent, and as much that arrives from the other ranks, to be added up. A reduce-scatter
adds up on the way, and only a shard arrives.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from math import ceil
from typing import NamedTuple

from mathlib.compute import params
from mathlib.memory import activations, precision
from mathlib.memory.one_device import Step
from mathlib.memory.states import ENDS, on_device
from mathlib.parts import Part, Parts
from mathlib.records import dataclass


class Row(NamedTuple):
    """Parameters that travel together."""

    parameters: float
    ranks: int
    last: int  # the tensor with which backward has filled it, counted in backward's order

    @property
    def shard(self) -> int:
        """Numbers that a rank keeps."""
        return ceil(self.parameters / self.ranks)

    @property
    def padded(self) -> int:
        """Numbers of the whole row."""
        return self.ranks * self.shard


def _filled(
    tensors: Sequence[float], *, ranks: int, element: float, bucket: float
) -> Iterator[Row]:
    """Rows closed by the tensor with which they reach the size of a bucket, in bytes."""
    held = 0.0
    for number, size in enumerate(tensors):
        held += size
        if held and (held * element >= bucket or number == len(tensors) - 1):
            yield Row(held, ranks, number)
            held = 0.0


@dataclass(frozen=True)
class Exchange:
    """A backward's gradients: those that wait for their row to be full, rows in flight, shards
    that have come.
    """

    rows: list[Row]  # in the order in which they leave
    tensors: Sequence[float]  # parameters of each, as backward comes to them
    in_flight: int  # rows, at most
    element: float  # bytes of a gradient's number
    shard_element: float  # bytes of a number in a shard that has come
    accumulation: bool  # shards of earlier micro-batches are there
    whole: bool = True  # as much arrives as is sent, else a shard

    @cached_property
    def _filled_by(self) -> list[int]:
        return [row.last for row in self.rows]

    @cached_property
    def _up_to(self) -> dict[str, list[float]]:
        """Parameters of the first tensors and of the first rows, 0 of them, 1, 2, ..."""
        amounts = {
            "tensors": self.tensors,
            "rows": [row.parameters for row in self.rows],
            "shards": [row.shard for row in self.rows],
            "padded": [row.padded for row in self.rows],
        }
        return {name: list(accumulate(each, initial=0)) for name, each in amounts.items()}

    def closed(self, arrived: int) -> int:
        """Rows that have left after so many tensors."""
        return bisect_left(self._filled_by, arrived)

    def state(self, arrived: int, closed: int, settling: bool = False) -> dict[str, float]:
        """Bytes after so many tensors, of which the first rows have left; `settling`: what has come
        for the oldest row in flight is being added up.
        """
        settled = max(0, closed - self.in_flight)
        waiting = self._up_to["tensors"][arrived] - self._up_to["rows"][closed]
        added = settling and closed >= self.in_flight
        return {
            "gradients": self._shards(settled, added),
            "gradients that wait": self.element * waiting,
            "rows in flight": self._flying(settled, closed),
        }

    def _shards(self, settled: int, added: bool) -> float:
        """Pieces of the rows that are through; when one is added to what is there, it stands
        beside.
        """
        there = self._up_to["shards"][-1 if self.accumulation else settled]
        more = self.rows[settled].shard if added else 0
        return self.shard_element * (there + more)

    def _flying(self, first: int, end: int) -> float:
        """Rows that are sent, and what arrives for them."""
        sent = self._up_to["padded"]
        arrived = sent if self.whole else self._up_to["shards"]
        return self.element * (sent[end] - sent[first] + arrived[end] - arrived[first])

    def fullest(self, begin: int, end: int) -> dict[str, float]:
        """The fullest state while the tensors from `begin` to `end` arrive: at the end, or as one
        of them fills a row, before that leaves. In between less waits.
        """
        states = [self.state(end, self.closed(end))]
        for row in range(self.closed(begin), self.closed(end)):
            states.append(self.state(self.rows[row].last + 1, row, settling=True))
        return max(states, key=lambda state: sum(state.values()))

    def finishing(self) -> Iterator[dict[str, float]]:
        """The end of a backward: rows in flight are added up one after the other."""
        for n in range(max(0, len(self.rows) - self.in_flight), len(self.rows)):
            yield {
                "gradients": self._shards(n, added=True),
                "rows in flight": self._flying(n, len(self.rows)),
            }

    def leaving(self) -> Iterator[dict[str, float]]:
        """Stage 1, where all gradients are there: a row is packed beside its own, then what arrives
        takes their place; before the next one is packed, the oldest's shard has come.
        """
        gone, come = self._up_to["rows"], self._up_to["shards"]
        for n, row in enumerate(self.rows):
            oldest = max(0, n + 1 - self.in_flight)
            for sent, more in ((n, self.element * row.padded), (n + 1, 0)):
                left, shards = gone[-1] - gone[sent], come[oldest + sent - n]
                yield {
                    "gradients": self.element * left + self.shard_element * shards,
                    "rows in flight": self._flying(oldest, sent) + more,
                }


@dataclass(frozen=True)
class Rows(Step):
    """Parameters by tensor and by row; `Step` is what the rank would have alone."""

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
    def shard_bytes(self) -> float:
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
                found[name] = found.get(name, 0) + on_device(m, self.model, self.layout.tensor)
        late = {name: n for name, n in found.items() if name == "qkv" or "attention" in name}
        early = {name: n for name, n in found.items() if name not in late}
        norms = params.count(self.model)["norms"]
        assert isinstance(norms, Parts)
        each = sum(norms.amount(n) for n in norms if n not in ENDS) / self.model.layers / 2
        return [*reversed(early.values()), each, *reversed(late.values()), each]

    @cached_property
    def layers(self) -> list[list[float]]:
        """The tensors of all layers, the last layer first."""
        kinds = [activations.has_experts(self.model, i) for i in range(self.model.layers)]
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
    def shards(self) -> int:
        """Numbers that a rank keeps of all rows."""
        return sum(row.shard for row in self.rows)

    @cached_property
    def resident(self) -> dict[str, Part]:
        """Weights, masters and states, padded; without a 16-bit shard where it is made from its
        master each time.
        """
        e, stage = self.copy_bytes, self.layout.zero
        parts: dict[str, Part] = {
            "weights": e["weights"] * self.own.total,
            "master weights": e["master weights"] * self.shards,
            "optimizer states": e["optimizer states"] * self.shards,
        }
        if stage == 3:
            made = e["master weights"] and not self.keep_half
            parts["weights"] = 0 if made else e["weights"] * self.shards
        else:
            padded = sum(row.padded for row in self.rows)
            parts["padding"] = e["weights"] * (padded - self.own.total)
        return {name: size for name, size in parts.items() if size} | self.buffers
