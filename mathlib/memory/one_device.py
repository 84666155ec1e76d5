"""What is alive on a device at each moment of a training step.

P parameters · t tensor · p stages · N data-parallel ranks · S ranks ZeRO shards over
V vocabulary · h width · f ffn_width · s tokens · b micro_batch · e bytes of an element
A step needs the most that is alive at one moment, which is less than all that is ever alive.
"""

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

from mathlib.checks import flag, instance, non_negative, one_of
from mathlib.compute import params
from mathlib.memory import activations, matrix_states, precision
from mathlib.memory.precision import Recipe
from mathlib.memory.states import (
    ENDS,
    layer_parameters,
    on_device,
    per_parameter,
    stage_parameters,
)
from mathlib.parts import Part, Parts
from mathlib.records import dataclass
from mathlib.specs import Layout, Model, find_model, own_tokens

OPTIMIZERS = ("foreach", "for-loop", "fused")
LOSSES = ("plain", "fused")
BUCKETS = ("none", "copy", "view")
FLOATS = ("fp32", "bf16", "fp16")  # types of a second moment that torch takes the root of
CAST = 2  # bytes of a weight's copy under autocast


@dataclass(frozen=True)
class Step:
    """One device of one stage: each method is something that is alive, in bytes."""

    model: Model
    layout: Layout
    stage: int
    recipe: str | Recipe
    optimizer: str
    loss: str
    ddp_buckets: str
    accumulation: bool
    buffers: dict[str, float]
    options: dict[str, Any]  # of activations.stage

    @cached_property
    def made(self) -> dict[tuple[bool, str], Parts]:
        """Activations of a layer so far computed, by kind."""
        return {}

    @cached_property
    def own(self) -> Parts:
        """Parameters of this device."""
        return stage_parameters(self.model, self.layout, self.stage)

    @cached_property
    def whole(self) -> Parts:
        """Bytes a parameter, by copy, before any sharding."""
        return precision.bytes_per_parameter(self.recipe)

    @cached_property
    def experts(self) -> float:
        """Share of experts in this device's parameters: they have replicas of their own number."""
        return self.own.amount("experts") / self.own.total if "experts" in self.own else 0

    @cached_property
    def copies(self) -> dict[str, float]:
        """Bytes a parameter, by copy, after sharding; main gradients are apart from gradients."""
        each = self._sharded(self.layout.shard)
        if self.experts:
            other = self._sharded(self.layout.expert_shard)
            each = {n: (1 - self.experts) * each[n] + self.experts * other[n] for n in each}
        whole = self.whole
        main = whole.amount("main gradients") if "main gradients" in whole else 0
        all_gradients = main + (whole.amount("gradients") if "gradients" in whole else 0)
        share = each["gradients"] / all_gradients if all_gradients else 0
        return each | {"gradients": share * (all_gradients - main), "main gradients": share * main}

    def _sharded(self, shard: int) -> dict[str, float]:
        """Bytes a parameter, by group of copies."""
        each = per_parameter(self.recipe, zero=self.layout.zero, shard=shard)
        return {name: each.amount(name) for name in each}

    @cached_property
    def gradient_bytes(self) -> float:
        """Bytes of a gradient as backward writes it, before any sharding."""
        return self.whole.amount("gradients" if "gradients" in self.whole else "weights")

    @cached_property
    def n(self) -> int:
        """Tokens of a micro-batch that the device keeps."""
        s = self.options.get("tokens") or self.model.context
        return self.layout.micro_batch * own_tokens(s, self.layout.context)

    @cached_property
    def how(self) -> activations.Saving:
        """How the program saves its activations."""
        names = {"attention", "dropout", "bytes_per_element", "autocast"}
        names |= {"fused_gate", "expert_results", "separate"}
        return activations.saving_of(
            self.model, **{k: v for k, v in self.options.items() if k in names}
        )

    @property
    def is_last(self) -> bool:
        """Whether the head and the loss are here."""
        return self.stage == self.layout.pipeline - 1

    @cached_property
    def kept(self) -> dict[str, Part]:
        """Activations at their most, all micro-batches in flight."""
        return dict(
            activations.stage(self.model, self.layout, stage=self.stage, **self.options).items()
        )

    @cached_property
    def resident(self) -> dict[str, Part]:
        """Alive from step to step."""
        P = self.own.total
        parts: dict[str, Part] = {
            name: P * self.copies[name]
            for name in ("weights", "master weights", "optimizer states")
        }
        parts["optimizer states"] += matrix_states.elsewhere(  # type: ignore[operator]
            self.model, self.layout, self.stage, self.recipe
        )
        parts["main gradients"] = P * self.copies["main gradients"]
        if self.ddp_buckets == "copy":
            parts["gradient buckets"] = P * self.gradient_bytes
        return {name: size for name, size in parts.items() if size} | self.buffers

    def gradients(self, parameters: float) -> float:
        """Gradients of the `parameters` done so far; all of them where they live from micro-batch
        to micro-batch.
        """
        alive = self.own.total if self.accumulation else parameters
        return alive * self.copies["gradients"]

    def layer(self, index: int, recompute: str) -> Parts:
        """Activations of one layer and one micro-batch; those of a kind are alike."""
        kind = activations.has_experts(self.model, index), recompute
        if kind not in self.made:
            self.made[kind] = self._layer(index, recompute)
        return self.made[kind]

    def _layer(self, index: int, recompute: str) -> Parts:
        options = {k: v for k, v in self.options.items() if k not in ("schedule", "logits_bytes")}
        return activations.layer(
            self.model,
            sequence_parallel=self.layout.sequence_parallel,
            recompute=recompute,
            index=index,
            tensor=self.layout.tensor,
            micro_batch=self.layout.micro_batch,
            context=self.layout.context,
            **options,
        )

    def logits(self, bytes_each: float) -> float:
        """A device's share of a tensor as large as the logits."""
        V, t = activations.vocabulary(self.model, self.layout.tensor), self.layout.tensor
        return bytes_each * self.n * V / t

    @property
    def logits_bytes(self) -> float:
        """Bytes of a probability that the loss keeps."""
        return self.options.get("logits_bytes", 4)

    @cached_property
    def cast_weights(self) -> float:
        """Autocast's copies of the matrices, which the backward pass needs."""
        if not self.how.autocast:
            return 0
        tables = {"norms", "positions", "sinks", *(() if self._head_is_table else ("embedding",))}
        return CAST * sum(self.own.amount(name) for name in self.own if name not in tables)

    @property
    def _head_is_table(self) -> bool:
        return self.model.tied and self.layout.pipeline == 1

    @property
    def head_parameters(self) -> float:
        """Parameters of the head, or of the table that it reuses."""
        return self.own.amount("embedding" if self._head_is_table else "head")

    def gathered(self, done: float = 0) -> float:
        """What ZeRO holds whole of the largest layer or table while it computes: stage 3 weights,
        and from stage 2 on gradients, of the `done` parameters that backward has come to.
        """
        if self.layout.zero < 2:
            return 0
        weights = self.whole.amount("weights") if self.layout.zero == 3 else 0
        piece = self.largest_piece
        return weights * piece + self.gradient_bytes * min(piece, done)

    @cached_property
    def largest_piece(self) -> float:
        """Parameters of the largest layer or table on a device, as far as they are sharded."""
        kinds = {activations.has_experts(self.model, i): i for i in self.held}
        norms = params.count(self.model)["norms"]
        assert isinstance(norms, Parts)
        each = sum(norms.amount(n) for n in norms if n not in ENDS) / self.model.layers
        pieces = [self._groups([i]) | {"norms": each} for i in kinds.values()]
        pieces += [
            {name: self.own.amount(name)} for name in ("embedding", "head") if name in self.own
        ]
        dense, experts = self.layout.shard > 1, self.layout.expert_shard > 1
        whole = {name: experts if name == "experts" else dense for one in pieces for name in one}
        return max(sum(n for name, n in one.items() if whole[name]) for one in pieces)

    @cached_property
    def stream(self) -> float:
        """A gradient of the residual stream; autocast casts it for the matmuls as well."""
        split = self.layout.tensor if self.layout.sequence_parallel else 1
        cast = self.how.bytes_per_element if self.how.autocast else 0
        return (self.how.stream_bytes + cast) * self.n * self.model.width / split

    def inside(self, index: int) -> tuple[float, float, float]:
        """The fuller of a layer's two halves in its backward: bytes recomputed, bytes of working
        tensors, parameters whose gradients are written.
        """
        halves = self._in_mlp(index), self._in_attention(index)
        return max(halves, key=lambda half: half[0] + half[1])

    def _missing(self, index: int) -> float:
        """What a layer did not keep."""
        kept = self.layer(index, self.layout.recompute).total
        return self.layer(index, "none").total - kept

    def _down(self, index: int) -> float:
        """Parameters of an MLP's last matrix, in all experts of a layer that has them."""
        wide, e = float(self.model.ffn_width), self.model.experts
        if e and e.at(index):
            split = self.layout.expert * self.layout.expert_split / self.layout.tensor
            wide = e.width * (e.routed / split + e.shared)
        return wide * self.model.width / self.layout.tensor

    def _in_mlp(self, index: int) -> tuple[float, float, float]:
        """Two gradients as wide as the MLP, three with a gate; the second input is gone."""
        mlp = self.layer(index, "none")["mlp"]
        assert isinstance(mlp, Parts)
        wide = (2 if self.model.gated else 1) * mlp.amount("second input")
        again = self._missing(index) if self.layout.recompute == "full" else 0
        return again, self.stream + wide, self._down(index)

    def _in_attention(self, index: int) -> tuple[float, float, float]:
        """Two gradients of the scores; what the MLP and its norm kept is gone.

        Recomputed alone, the core copies queries and keys into the order of its matmul.
        """
        whole, work = self.layer(index, "none"), 2 * self.stream
        mlp, core = whole.amount("mlp"), whole["attention"]
        assert isinstance(core, Parts)
        if self.how.attention == "standard":
            work += 2 * core.amount("softmax")
            if self.layout.recompute == "selective":
                work += core.amount("queries") + core.amount("keys")
        norms = whole.amount("norms") if "norms" in whole else 0
        work -= mlp + norms * (1 - 1 / max(1, self.model.block_norms))
        matrices = 3 if self.model.gated else 2
        return self._missing(index) + min(0, work), max(0, work), matrices * self._down(index)

    def moment(self, name: str, **parts: Part) -> Parts:
        """What is alive together, under the name of the moment and the conventions taken."""
        words = {key.replace("_", " "): part for key, part in parts.items()}
        alive = {key: part for key, part in words.items() if part or isinstance(part, Parts)}
        where = f"{self.model.title}, training on a device of stage {self.stage}"
        taken = f"{self.how.words}, {self.optimizer} optimizer, {self.loss} loss"
        return Parts(f"{where}, most at {name} ({taken})", "byte", self.resident | alive)

    def forward_end(self) -> Parts:
        """Every activation; on the last stage the logits beside their probabilities, which take
        two copies where the types differ.
        """
        e, logits, spike = self.how.bytes_per_element, self.logits_bytes, 0.0
        if self.is_last and self.loss == "plain":
            spike = self.logits(logits + (e if logits != e else 0))
        return self.moment(
            "the end of the forward",
            gradients=self.gradients(0),
            activations=Parts("activations", "byte", self.kept),
            logits=spike,
            cast_weights=self.cast_weights,
            gathered_layer=self.gathered(),
        )

    def loss_backward(self) -> Parts:
        """Probabilities are kept; their gradient and that of the logits come beside them. A fused
        loss writes over them.
        """
        spike = self.logits(2 * self.logits_bytes) if self.loss == "plain" else 0
        casts = CAST * self.head_parameters if self.layout.recompute == "full" else None
        return self.moment(
            "the loss",
            gradients=self.gradients(0),
            activations=Parts("activations", "byte", self.kept),
            gradients_of_logits=spike,
            cast_weights=min(self.cast_weights, casts or self.cast_weights),
            gathered_layer=self.gathered(),
        )

    def head_backward(self) -> Parts:
        """The logits' gradient is left, and the head's whole gradient is written."""
        e, head = self.how.bytes_per_element, self.kept["head"]
        assert isinstance(head, Parts)
        written = self.gradient_bytes + (CAST if self.how.autocast else 0)
        if not self.accumulation:
            written -= self.copies["gradients"]
        rest = head.total - head.amount("probabilities")
        return self.moment(
            "the head's backward",
            gradients=self.gradients(self.head_parameters),
            activations=Parts("activations", "byte", self.kept | {"head": rest}),
            gradients_of_logits=self.logits(e),
            new_gradients=written * self.head_parameters,
            cast_weights=self.cast_weights if self.layout.recompute != "full" else 0,
            gathered_layer=self.gathered(),
        )

    @cached_property
    def held(self) -> list[int]:
        """Layers of this stage."""
        return activations.layers_of(self.model, self.layout, self.stage)

    def ends(self) -> dict[str, int]:
        """Where backward is fullest: in the last layer, which finds all activations, and in the
        first, which finds all gradients; so for layers with experts, and for those without.
        """
        ends = {"last layer": self.held[-1], "first layer": self.held[0]}
        for kind, experts in (("dense", False), ("expert", True)):
            own = [i for i in self.held if activations.has_experts(self.model, i) == experts]
            for where, index in (("last", max(own)), ("first", min(own))) if own else ():
                if index not in ends.values():
                    ends[f"{where} {kind} layer"] = index
        return ends

    def layer_backward(self, name: str, index: int) -> Parts:
        """A layer recomputed, its working tensors, and what is alive besides: in the last layer all
        activations but the head's, in the first all gradients but its own.
        """
        alive, gone = dict(self.kept), self._behind(index)
        alive.pop("head", None)
        done = self.head_parameters if self.is_last else 0
        casts = max(0, self.cast_weights - CAST * done) if self.layout.recompute != "full" else 0
        for kind in ("layers", "expert layers"):
            if kind in alive and gone:
                alive[kind] = self._less(kind, gone)
        behind = self._parameters(gone)
        done += behind
        casts = max(0, casts - CAST * behind)
        again, work, own = self.inside(index)
        waits = self.head_parameters if self._head_is_table else 0  # until the embedding's comes
        fresh = (self._down(index) + waits) * self.gradient_bytes if self.accumulation else 0
        return self.moment(
            f"the backward of the {name}",
            gradients=self.gradients(done + own),
            activations=Parts("activations", "byte", alive),
            recomputation=again,
            working_tensors=work,
            new_gradients=fresh,
            cast_weights=casts,
            gathered_layer=self.gathered(done + own),
        )

    def _behind(self, index: int) -> list[int]:
        """Layers of the same chunk whose backward is done before that of layer `index`."""
        place, wide = self.held.index(index), len(self.held) // self.layout.chunks
        return self.held[place + 1 : (place // wide + 1) * wide]

    def _parameters(self, layers: list[int]) -> float:
        """Parameters that these layers hold on a device, without norms."""
        return sum(self._groups(layers).values())

    def _groups(self, layers: list[int]) -> dict[str, float]:
        """The same, by group."""
        lay = self.layout
        return layer_parameters(self.model, lay.tensor, layers, lay.expert, lay.expert_split)

    def _less(self, kind: str, gone: list[int]) -> float:
        """A stage's layers of a kind, less those of one micro-batch whose backward is done."""
        experts, kept = kind == "expert layers", self.kept[kind]
        assert isinstance(kept, Parts)
        done = [i for i in gone if activations.has_experts(self.model, i) == experts]
        each = self.layer(done[0], self.layout.recompute).total if done else 0
        return kept.total - sum([each] * len(done))

    def embedding_backward(self) -> Parts:
        """All gradients, and the table's new one where it is added to what is there; with a tied
        head there are two new ones and their sum.
        """
        table = self.own.amount("embedding") * self.gradient_bytes
        sharded = self.layout.zero >= 2 and self.layout.shard > 1
        copies = (1 if self.accumulation or sharded else 0) + (2 if self._head_is_table else 0)
        return self.moment(
            "the embedding's backward",
            gradients=self.gradients(self.own.total),
            new_gradients=copies * table,
        )

    def update(self) -> Parts:
        """Adam's root of the second moment: of every weight at once (foreach), of one weight after
        the other and twice (for-loop), or inside a kernel (fused).
        """
        recipe = precision.recipe(self.recipe)
        root = precision.bytes_of(recipe.second_moment) if recipe.second_moment in FLOATS else 0
        wide = recipe.main_gradients or recipe.gradient_copies
        narrow = recipe.master_weights and not wide
        cast = precision.bytes_of(recipe.master_weights) if narrow else 0
        own = self.own.total
        if self.layout.zero:
            lay = self.layout
            own *= (1 - self.experts) / lay.shard + self.experts / lay.expert_shard
        each = {
            "foreach": own * (root + cast),
            "for-loop": min(self._largest_weight(), own) * (2 * root + cast),
            "fused": 0,
        }[self.optimizer]
        if recipe.elsewhere:
            each += matrix_states.at_work(self.model)
        return self.moment("the update", gradients=self.gradients(self.own.total), update=each)

    def _largest_weight(self) -> float:
        """Parameters of the largest matrix or table of a device; a bias is a tensor of its own."""
        weights = [m._replace(bias=False) for m in params.matrices(self.model)[:-1]]
        matrices = [on_device(m, self.model, self.layout.tensor) / m.copies for m in weights]
        return max(matrices + [self.own.amount(n) for n in ("embedding", "head") if n in self.own])

    def all(self) -> dict[str, Parts]:
        """Every moment, in the order of a step."""
        order: dict[str, Callable[[], Parts]] = {"end of forward": self.forward_end}
        if self.is_last:
            order |= {"loss": self.loss_backward, "head": self.head_backward}
        for name, index in self.ends().items():
            order[name] = partial(self.layer_backward, name, index)
        if self.stage == 0:
            order["embedding"] = self.embedding_backward
        return {name: alive() for name, alive in (order | {"update": self.update}).items()}


def moments(
    model: str | Model,
    layout: Layout | None = None,
    *,
    recipe: str | Recipe = "mixed-adam",
    stage: int = 0,
    optimizer: str | None = None,
    loss: str = "plain",
    ddp_buckets: str = "none",
    accumulation: bool | None = None,
    buffers: dict[str, float] | None = None,
    binary: bool = False,
    **activation: Any,
) -> dict[str, Parts]:
    """Bytes alive on a device at each moment of a step: end of forward, loss, head,
    last layer, first layer, embedding, update.

    Where some layers have experts and some do not, also the last and the first of the
    other kind.
    `optimizer`: how the update runs: "foreach" (torch's default on CUDA), "for-loop" or
    "fused".
    Unless said, foreach where torch's own optimizers keep the recipe, fused where it
    has master weights.
    `loss` "plain" holds probabilities, their gradient and the logits' gradient at once,
    "fused" one of them. `ddp_buckets`: none, a "copy" of the gradients (DDP's default),
    or gradients that are a "view" of the buckets. `accumulation`: gradients live
    through the forward; unless said, where a step has more than one micro-batch.
    `activation` goes to `activations.stage`: attention, dropout, tokens, autocast, ...

    Chapter: memory
    """
    model = find_model(model)
    layout = Layout() if layout is None else instance("layout", layout, Layout)
    step = Step(
        model,
        layout,
        stage,
        recipe,
        update_kernel(optimizer, recipe),
        one_of("loss", loss, LOSSES),
        one_of("ddp_buckets", ddp_buckets, BUCKETS),
        accumulates(accumulation, layout, ddp_buckets),
        tensor_sizes(buffers),
        activation,
    )
    return in_gib(step.all()) if flag("binary", binary) else step.all()


def update_kernel(optimizer: str | None, recipe: str | Recipe) -> str:
    """How the update runs: as said, or as programs that keep this recipe run it."""
    if optimizer is None:
        return "fused" if precision.recipe(recipe).master_weights else "foreach"
    return one_of("optimizer", optimizer, OPTIMIZERS)


def accumulates(asked: bool | None, layout: Layout, ddp_buckets: str) -> bool:
    """Whether gradients live through the forward; those that are views of buckets always do."""
    several = layout.micro_batches > 1 if asked is None else flag("accumulation", asked)
    return several or ddp_buckets == "view"


def tensor_sizes(buffers: dict[str, float] | None) -> dict[str, float]:
    """A user's own buffers, each size checked."""
    named = {} if buffers is None else instance("buffers", buffers, dict)
    return {name: non_negative(f"buffers[{name!r}]", size) for name, size in named.items()}


def in_gib(moments: dict[str, Parts]) -> dict[str, Parts]:
    """The same, printed in GiB."""
    return {
        name: Parts(one.title, "byte", dict(one.items()), binary=True)
        for name, one in moments.items()
    }
