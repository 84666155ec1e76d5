"""What is alive on a rank that shards with ZeRO, at each moment of a step.

P parameters · S ranks ZeRO shards over · e bytes of an element
A row is what travels as one: a bucket of gradients in stage 2, a layer in stage 3. It is padded to
a multiple of S, and a rank keeps a piece of it, 1/S. While its gradients leave, there are two of
it: the row that is sent, and as much that arrives. So `mathlib.parallel.zero1` to `zero3` run, with
what one process has (`moments`) beside it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import accumulate
from typing import Any

from mathlib.checks import InputError, flag, instance, non_negative, one_of, whole
from mathlib.compute import params
from mathlib.memory import activations, precision
from mathlib.memory.exchange import Exchange, Row, _filled
from mathlib.memory.moments import FLOATS, LOSSES, _accumulates, _in_gib, _kernel, _sizes, _Step
from mathlib.memory.precision import Recipe
from mathlib.memory.states import ENDS, _on_device
from mathlib.parts import Part, Parts
from mathlib.specs import Layout, Model, find_model

MIB = 2**20


@dataclass(frozen=True)
class _Rank(_Step):
    """One rank: `_Step` is what it would have alone."""

    bucket_bytes: float
    on_their_way: int
    prefetch: int
    keep_half: bool

    # Parameters and rows

    @cached_property
    def copy_bytes(self) -> dict[str, float]:
        """Bytes a parameter, by copy, before sharding."""
        each = precision.bytes_per_parameter(self.recipe)
        moments = sum(each.amount(n) for n in each if "moment" in n or n == "scales")
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
        if self.layout.zero < 2:
            return [Row(self.own.total, S, end)]
        if self.layout.zero == 2:
            e, most = self.gradient_bytes, self.bucket_bytes
            return list(_filled(self.tensors, ranks=S, element=e, bucket=most))
        last = [n - 1 for n in self.begins[1:]]
        layers = [Row(sum(n), S, i) for n, i in zip(self.layers, last, strict=True)]
        return [*layers, Row(self.outside, S, end)]

    @cached_property
    def pieces(self) -> int:
        """Numbers that a rank keeps of all rows."""
        return sum(row.piece for row in self.rows)

    # What is alive from step to step

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

    def gradients(self, parameters: float) -> float:
        """Before any has left: all of one's own, or pieces of earlier micro-batches."""
        if self.layout.zero < 2:
            alive = self.own.total if self.accumulation else parameters
            return alive * self.gradient_bytes
        return self.piece_bytes * self.pieces if self.accumulation else 0

    def gathered(self, backward: bool) -> float:
        """What stands in no layer is whole from the begin of forward to the end of backward."""
        return self.copy_bytes["weights"] * self.rows[-1].padded if self.layout.zero == 3 else 0

    def whole_layers(self, place: int, on: int) -> dict[str, float]:
        """The layer that computes, and those that come after it, 1 on or -1."""
        if self.layout.zero < 3:
            return {}
        e, made = self.copy_bytes["weights"], self.copy_bytes["master weights"]
        cast = e if made and not self.keep_half else 0  # of the piece that is sent
        after = [place + on * (n + 1) for n in range(self.prefetch)]
        coming = [self.rows[n] for n in after if 0 <= n < len(self.layers)]
        parts = {"live layer": e * self.rows[place].padded}
        ahead = sum(e * row.padded + cast * row.piece for row in coming)
        return parts | ({"prefetched layers": ahead} if ahead else {})

    def forward_parts(self, index: int) -> Parts:
        """The end of a layer's forward: what layers up to it have kept."""
        alive = dict(self.kept)
        alive.pop("head", None)
        for kind in ("layers", "expert layers"):
            if kind in alive:
                alive[kind] = self._less(kind, list(range(index + 1, self.model.layers)))
        place = self.model.layers - 1 - index
        return self.moment(
            f"the forward of layer {index}",
            gradients=self.gradients(0),
            activations=Parts("activations", "byte", alive),
            outside_the_layers=self.gathered(backward=False),
            **self.whole_layers(place, -1),
        )

    # Gradients on their way

    @cached_property
    def gradients_on_their_way(self) -> Exchange:
        """What backward's gradients become; none leaves before the end of stage 1."""
        e, piece = self.gradient_bytes, self.piece_bytes
        return Exchange(self.rows, self.tensors, self.on_their_way, e, piece, self.accumulation)

    def fullest(self, begin: int, end: int) -> dict[str, float]:
        """The fullest exchange while these tensors' gradients arrive."""
        return self.gradients_on_their_way.fullest(begin, end)

    @property
    def in_autograd(self) -> float:
        """The tied head's gradient, which waits for the embedding's."""
        return self.gradient_bytes * self.table if self._head_is_table else 0

    # Moments of backward, where gradients leave meanwhile

    def head_backward(self) -> Parts:
        """As alone, but a gradient that has come leaves."""
        if self.layout.zero < 2:
            return super().head_backward()
        head = self.kept["head"]
        assert isinstance(head, Parts)
        rest = head.total - head.amount("probabilities")
        return self.moment(
            "the head's backward",
            activations=Parts("activations", "byte", self.kept | {"head": rest}),
            gradients_of_logits=self.logits(self.how.bytes_per_element),
            new_gradients=self.in_autograd,
            outside_the_layers=self.gathered(backward=True),
            **self.fullest(0, self.behind_head),
        )

    def points(self, place: int) -> list[tuple[int, float, float]]:
        """Three points of a layer's backward: tensors that have come by then, bytes recomputed,
        bytes of working tensors.
        """
        index = self.model.layers - 1 - place
        start = self.begins[place]
        mlp = 1 + self._mlp_tensors(index)
        below = self.stream + self.layer(index, self.layout.recompute).total
        again, work, _ = self._in_mlp(index)
        later, core, _ = self._in_attention(index)
        return [
            (start + 1, again, work),
            (start + mlp, later, core),
            (start + len(self.layers[place]), 0, 3 * self.stream - below),
        ]

    def _mlp_tensors(self, index: int) -> int:
        """Tensors that a layer's backward comes to before it comes to the norm of its MLP."""
        late = {"attention", "head"}
        groups = {m.group for m in params.matrices(self.model)} - late
        kind = groups - {"mlp"} if activations._has_experts(self.model, index) else {"mlp"}
        return sum(m.group in kind for m in params.matrices(self.model))

    def layer_parts(self, place: int) -> Parts:
        """The fullest of the three points."""
        index = self.model.layers - 1 - place
        alive = dict(self.kept)
        alive.pop("head", None)
        for kind in ("layers", "expert layers"):
            if kind in alive:
                alive[kind] = self._less(kind, list(range(index + 1, self.model.layers)))
        begin, found = self.begins[place], []
        for end, again, work in self.points(place):
            more = {"recomputation": again, "working tensors": work}
            found.append(more | self.fullest(begin, end))
            begin = end
        return self.moment(
            f"the backward of layer {index}",
            activations=Parts("activations", "byte", alive),
            new_gradients=self.in_autograd,
            outside_the_layers=self.gathered(backward=True),
            **self.whole_layers(place, 1),
            **max(found, key=lambda one: sum(one.values())),
        )

    def embedding_backward(self) -> Parts:
        """The table's gradient comes, of a tied head beside that and their sum; then the last row
        leaves.
        """
        if self.layout.zero < 2:
            return super().embedding_backward()
        end, table = len(self.tensors), self.gradient_bytes * self.table
        new = table + self.in_autograd + (table if self._head_is_table else 0)
        outside = {"outside the layers": self.gathered(backward=True)}
        found = [
            outside | self.fullest(end - 2, end - 1) | {"new gradients": new},
            outside | self.fullest(end - 1, end),
            *self.gradients_on_their_way.finishing(),
        ]
        parts = max(found, key=lambda one: sum(one.values()))
        return self.moment("the embedding's backward", **parts)

    # The end of a step

    def reduction(self) -> Parts:
        """Stage 1: all gradients leave in one row, and this rank's piece of their sum comes."""
        (row,) = self.rows
        return self.moment(
            "the exchange of gradients",
            gradients=self.piece_bytes * row.piece,
            rows_on_their_way=2 * self.gradient_bytes * row.padded,
        )

    def update(self) -> Parts:
        """Adam's root of the second moment, of a row's piece after the other: the one before is
        dropped when the next is there, and each stands twice.
        """
        recipe = precision.recipe(self.recipe)
        root = precision.bytes_of(recipe.second_moment) if recipe.second_moment in FLOATS else 0
        narrow = recipe.master_weights and not recipe.main_gradients
        cast = precision.bytes_of(recipe.master_weights) if narrow else 0
        pieces = [row.piece for row in self.rows]
        if self.layout.zero == 3:  # what stands in no layer comes first
            pieces = [pieces[-1], *pieces[:-1]]
        before = zip([0, *pieces], pieces, strict=False)
        each = {
            "foreach": sum(pieces) * (root + cast),
            "for-loop": max(root * last + (2 * root + cast) * own for last, own in before),
            "fused": 0,
        }[self.optimizer]
        return self.moment("the update", gradients=self.piece_bytes * self.pieces, update=each)

    def all(self) -> dict[str, Parts]:
        """Every moment, in the order of a step."""
        forwards = range(self.model.layers if self.layout.zero == 3 else 0)
        order: dict[str, Callable[[], Parts]] = {
            f"forward {i}": partial(self.forward_parts, i) for i in forwards
        }
        order |= {
            "end of forward": self.forward_end,
            "loss": self.loss_backward,
            "head": self.head_backward,
        }
        if self.layout.zero < 2:
            order |= {n: partial(self.layer_backward, n, i) for n, i in self.ends().items()}
        else:
            order |= {
                f"layer {self.model.layers - 1 - place}": partial(self.layer_parts, place)
                for place in range(self.model.layers)
            }
        order["embedding"] = self.embedding_backward
        if self.layout.zero == 1:
            order["exchange"] = self.reduction
        return {name: alive() for name, alive in (order | {"update": self.update}).items()}

    def moment(self, name: str, **parts: Part) -> Parts:
        """Under the name that says what is whole: outside the layers, not a layer."""
        if whole := parts.pop("gathered_layer", 0):
            parts["outside the layers"] = whole
        return super().moment(name, **parts)


def moments(
    model: str | Model,
    layout: Layout,
    *,
    recipe: str | Recipe = "mixed-adam",
    optimizer: str | None = None,
    loss: str = "plain",
    accumulation: bool | None = None,
    bucket_bytes: float = 25 * MIB,
    on_their_way: int = 2,
    prefetch: int = 1,
    keep_half: bool = False,
    buffers: dict[str, float] | None = None,
    binary: bool = False,
    **activation: Any,
) -> dict[str, Parts]:
    """Bytes alive on a rank at each moment of a step: its share of the states, a live and
    a prefetched layer, 2 e times each row on its way, what stands in no layer.

    Stage 0 is what one process has (`memory.moments`). `bucket_bytes` is stage 2's;
    `prefetch`, layers gathered ahead, stage 3's. `keep_half`: stage 3
    keeps a 16-bit shard beside its fp32 master, as DeepSpeed does; ours and FSDP2 make it
    anew for every gather. All else as in `memory.moments`. Held against real runs, within
    3%.

    Chapter: zero (eq-zero-peak)
    """
    model, layout = find_model(model), _shardable(layout, activation)
    asked = (one_of("loss", loss, LOSSES), "none", _accumulates(accumulation, layout, "none"))
    alone = (model, layout, 0, recipe, _kernel(optimizer, recipe), *asked, _sizes(buffers))
    rows = (non_negative("bucket_bytes", bucket_bytes), whole("on_their_way", on_their_way))
    switches = (whole("prefetch", prefetch, least=0), flag("keep_half", keep_half))
    rank = _Rank(*alone, activation, *rows, *switches)
    step = rank if layout.zero else _Step(*alone, activation)
    return _in_gib(step.all()) if flag("binary", binary) else step.all()


def peak(model: str | Model, layout: Layout, **options: Any) -> Parts:
    """Bytes a rank needs: the most that is alive at one of its `moments`, which the
    title names.

    Chapter: zero
    """
    every = moments(model, layout, **options).values()
    return max(every, key=lambda one: one.total)


def _shardable(layout: Layout, activation: dict[str, Any]) -> Layout:
    """A layout whose ranks hold what the formulas above say; others are refused."""
    if instance("layout", layout, Layout).pipeline > 1:
        raise InputError(
            f"layout.pipeline = {layout.pipeline}: expected 1; memory.fit has a pipeline's stages"
        )
    if activation.get("autocast"):
        raise InputError("autocast = True: expected 16-bit weights, with an fp32 master if wanted")
    return layout
