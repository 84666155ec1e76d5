"""What is alive on a rank that shards with ZeRO, at each moment of a step.

P parameters · S ranks ZeRO shards over · e bytes of an element
A row is what travels as one (`rows`). While its gradients leave, there is the row that is sent,
and what arrives: as much again in an all-to-all, a shard of it in a reduce-scatter. So
`mathlib.parallel.zero` run, with what one process has (`moments`) beside it.
"""

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

from mathlib.checks import InputError, flag, instance, non_negative, one_of, whole
from mathlib.compute import params
from mathlib.memory import activations, precision
from mathlib.memory.exchange import Exchange, Rows
from mathlib.memory.one_device import (
    FLOATS,
    LOSSES,
    Step,
    accumulates,
    in_gib,
    tensor_sizes,
    update_kernel,
)
from mathlib.memory.precision import Recipe
from mathlib.parts import Part, Parts
from mathlib.records import dataclass
from mathlib.specs import Layout, Model, find_model

MIB = 2**20
SCATTERS = ("all-to-all", "reduce-scatter")


@dataclass(frozen=True)
class _Rank(Rows):
    """One rank, moment by moment."""

    in_flight: int
    prefetch: int
    scatter: str

    # What is alive from step to step

    def gradients(self, parameters: float) -> float:
        """Before any has left: all of one's own, or shards of earlier micro-batches."""
        if self.layout.zero < 2:
            alive = self.own.total if self.accumulation else parameters
            return alive * self.gradient_bytes
        return self.shard_bytes * self.shards if self.accumulation else 0

    def gathered(self, done: float = 0) -> float:
        """What stands in no layer is whole from the begin of forward to the end of backward."""
        return self.copy_bytes["weights"] * self.rows[-1].padded if self.layout.zero == 3 else 0

    def whole_layers(self, place: int, on: int) -> dict[str, float]:
        """The layer that computes, and those that come after it, 1 on or -1."""
        if self.layout.zero < 3:
            return {}
        e, made = self.copy_bytes["weights"], self.copy_bytes["master weights"]
        cast = e if made and not self.keep_half else 0  # of the shard that is sent
        after = [place + on * (n + 1) for n in range(self.prefetch)]
        coming = [self.rows[n] for n in after if 0 <= n < len(self.layers)]
        parts = {"live layer": e * self.rows[place].padded}
        ahead = sum(e * row.padded + cast * row.shard for row in coming)
        return parts | ({"prefetched layers": ahead} if ahead else {})

    def kept_up_to(self, index: int) -> Parts:
        """What layers up to this one have kept, and the embedding."""
        alive = {name: size for name, size in self.kept.items() if name != "head"}
        for kind in ("layers", "expert layers"):
            if kind in alive:
                alive[kind] = self._less(kind, list(range(index + 1, self.model.layers)))
        return Parts("activations", "byte", alive)

    def forward_parts(self, index: int) -> Parts:
        """The end of a layer's forward: what layers up to it have kept."""
        place = self.model.layers - 1 - index
        return self.moment(
            f"the forward of layer {index}",
            gradients=self.gradients(0),
            activations=self.kept_up_to(index),
            outside_the_layers=self.gathered(),
            **self.whole_layers(place, -1),
        )

    # Gradients in flight

    @cached_property
    def gradients_in_flight(self) -> Exchange:
        """What backward's gradients become; none leaves before the end of stage 1."""
        e, shard = self.gradient_bytes, self.shard_bytes
        whole = self.scatter == "all-to-all"
        return Exchange(self.rows, self.tensors, self.in_flight, e, shard, self.accumulation, whole)

    def fullest(self, begin: int, end: int) -> dict[str, float]:
        """The fullest exchange while these tensors' gradients arrive."""
        return self.gradients_in_flight.fullest(begin, end)

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
            outside_the_layers=self.gathered(),
            **self.fullest(0, self.behind_head),
        )

    def points(self, place: int) -> list[tuple[int, float, float]]:
        """Three points of a layer's backward: tensors that have come by then, bytes recomputed,
        bytes of working tensors.
        """
        experts = activations.has_experts(self.model, self.model.layers - 1 - place)
        start = self.begins[place]
        return [(start + come, again, work) for come, again, work in self.points_of_kind[experts]]

    @cached_property
    def points_of_kind(self) -> dict[bool, list[tuple[int, float, float]]]:
        """The same, counted from a layer's begin: with experts all are alike, and without."""
        layers = range(self.model.layers)
        kinds = {activations.has_experts(self.model, index): index for index in layers}
        return {experts: self._points(index) for experts, index in kinds.items()}

    def _points(self, index: int) -> list[tuple[int, float, float]]:
        mlp = 1 + self._mlp_tensors(index)
        below = self.stream + self.layer(index, self.layout.recompute).total
        again, work, _ = self._in_mlp(index)
        later, core, _ = self._in_attention(index)
        all_tensors = len(self.layers[self.model.layers - 1 - index])
        return [(1, again, work), (mlp, later, core), (all_tensors, 0, 3 * self.stream - below)]

    def _mlp_tensors(self, index: int) -> int:
        """Tensors that a layer's backward comes to before it comes to the norm of its MLP."""
        late = {"attention", "head"}
        groups = {m.group for m in params.matrices(self.model)} - late
        kind = groups - {"mlp"} if activations.has_experts(self.model, index) else {"mlp"}
        return sum(m.group in kind for m in params.matrices(self.model))

    def layer_parts(self, place: int) -> Parts:
        """The fullest of the three points."""
        index = self.model.layers - 1 - place
        begin, found = self.begins[place], []
        for end, again, work in self.points(place):
            more = {"recomputation": again, "working tensors": work}
            found.append(more | self.fullest(begin, end))
            begin = end
        return self.moment(
            f"the backward of layer {index}",
            activations=self.kept_up_to(index),
            new_gradients=self.in_autograd,
            outside_the_layers=self.gathered(),
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
        outside = {"outside the layers": self.gathered()}
        found = [
            outside | self.fullest(end - 2, end - 1) | {"new gradients": new},
            outside | self.fullest(end - 1, end),
            *self.gradients_in_flight.finishing(),
        ]
        parts = max(found, key=lambda one: sum(one.values()))
        return self.moment("the embedding's backward", **parts)

    # The end of a step

    def reduction(self) -> Parts:
        """Stage 1: gradients leave row by row, and this rank's shards of their sum come."""
        found = self.gradients_in_flight.leaving()
        parts = max(found, key=lambda one: sum(one.values()))
        return self.moment("the reduction of gradients", **parts)

    def update(self) -> Parts:
        """Adam's root of the second moment, of a row's shard after the other: the one before is
        dropped when the next is there, and each stands twice.
        """
        recipe = precision.recipe(self.recipe)
        root = precision.bytes_of(recipe.second_moment) if recipe.second_moment in FLOATS else 0
        wide = recipe.main_gradients or recipe.gradient_copies
        narrow = recipe.master_weights and not wide
        cast = precision.bytes_of(recipe.master_weights) if narrow else 0
        shards = [row.shard for row in self.rows]
        if self.layout.zero == 3:  # what stands in no layer comes first
            shards = [shards[-1], *shards[:-1]]
        before = zip([0, *shards], shards, strict=False)
        each = {
            "foreach": sum(shards) * (root + cast),
            "for-loop": max(root * last + (2 * root + cast) * own for last, own in before),
            "fused": 0,
        }[self.optimizer]
        return self.moment("the update", gradients=self.shard_bytes * self.shards, update=each)

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
            order["reduction"] = self.reduction
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
    bucket_bytes: float = 4 * MIB,
    in_flight: int = 2,
    prefetch: int = 1,
    scatter: str = "all-to-all",
    keep_half: bool = False,
    buffers: dict[str, float] | None = None,
    binary: bool = False,
    **activation: Any,
) -> dict[str, Parts]:
    """Bytes alive on a rank at each moment of a step: its share of the states, a live and
    a prefetched layer, 2 e times each row in flight, what stands in no layer.

    Stage 0 is what one process has (`memory.one_device`). `bucket_bytes` is for stages 1 and
    2; `prefetch`, layers gathered ahead, for stage 3. `scatter`: "all-to-all", as ours
    over gloo, where a whole row arrives; "reduce-scatter", as NCCL's, where a shard does.
    `keep_half`: stage 3 keeps a 16-bit shard beside its fp32 master, as DeepSpeed does;
    ours and FSDP2 make it anew for every gather. All else as in `memory.one_device`. Held
    against real runs of ours, within 3%.

    Chapter: zero (eq-zero-peak)
    """
    model, layout = find_model(model), _shardable(layout, activation)
    if precision.recipe(recipe).elsewhere:
        raise InputError(
            f"recipe = {precision.recipe(recipe).name!r}: expected one with the same moments for "
            "all parameters; memory.fit has others"
        )
    asked = (one_of("loss", loss, LOSSES), "none", accumulates(accumulation, layout, "none"))
    alone = (
        model,
        layout,
        0,
        recipe,
        update_kernel(optimizer, recipe),
        *asked,
        tensor_sizes(buffers),
    )
    rows = (non_negative("bucket_bytes", bucket_bytes), flag("keep_half", keep_half))
    flight = (whole("in_flight", in_flight), whole("prefetch", prefetch, least=0))
    how = one_of("scatter", scatter, SCATTERS)
    rank = _Rank(*alone, activation, *rows, *flight, how)
    step = rank if layout.zero else Step(*alone, activation)
    return in_gib(step.all()) if flag("binary", binary) else step.all()


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
    if layout.expert > 1:
        raise InputError(f"layout.expert = {layout.expert}: expected 1; memory.fit has experts")
    if layout.expert_split < layout.tensor:
        raise InputError(
            f"layout.expert_tensor = {layout.expert_tensor}: expected as many as layout.tensor = "
            f"{layout.tensor}; memory.fit has experts"
        )
    if activation.get("autocast"):
        raise InputError("autocast = True: expected 16-bit weights, with an fp32 master if wanted")
    return layout
