"""How a model is spread over devices, and which layers and slices of matmuls that gives a device.

p pipeline · t tensor · dp data · v chunks a stage · b micro_batch · m micro_batches · L layers
cp context · ep expert
"""

from itertools import accumulate

from mathlib.architecture import Model
from mathlib.checks import InputError, ceil_div, divides, flag, keep_whole, one_of, whole
from mathlib.records import dataclass

RECOMPUTE = ("none", "selective", "full")


@dataclass(frozen=True)
class Layout:
    """How a model is spread over devices. World size = data * context * tensor * pipeline.

    Experts are distributed over ranks that are there for other reasons: of the ranks of a stage,
    `expert` * `expert_split` hold all experts of its layers once.
    """

    data: int = 1  # dp, replicas that see different data
    tensor: int = 1  # t, devices that share every matmul
    pipeline: int = 1  # p, stages
    chunks: int = 1  # v, model chunks a stage holds (interleaving); 1: plain
    zero: int = 0  # ZeRO stage
    shard: int = 0  # ranks over which ZeRO shards; 0: all of data * context
    sequence_parallel: bool = (
        False  # what tensor parallelism leaves whole is split along the sequence
    )
    micro_batch: int = 1  # b, sequences a forward pass takes
    micro_batches: int = 1  # m, micro-batches a step
    recompute: str = "none"  # none, selective, full
    context: int = 1  # cp, devices that share every sequence, each a shard of it
    expert: int = 1  # ep, devices over which the experts of a layer are distributed
    expert_tensor: int = 0  # devices that share the matmuls of an expert; 0: as tensor

    def __post_init__(self) -> None:
        keep_whole(self, 1, "data", "tensor", "pipeline", "chunks", "micro_batch", "micro_batches")
        keep_whole(self, 1, "context", "expert")
        one_of("zero", self.zero, (0, 1, 2, 3))
        one_of("recompute", self.recompute, RECOMPUTE)
        flag("sequence_parallel", self.sequence_parallel)
        self._check_experts()
        shard = whole("shard", self.shard, least=0) or self.replicas
        among = "data" if self.context == 1 else "data * context"
        object.__setattr__(self, "shard", divides("shard", shard, among, self.replicas))
        if self.chunks > 1 and self.micro_batches % self.pipeline:
            raise InputError(
                f"micro_batches = {self.micro_batches}: interleaving (chunks = {self.chunks}) "
                "needs a "
                f"multiple of pipeline = {self.pipeline}"
            )
        if self.chunks > 1 and self.pipeline == 1:
            raise InputError(f"chunks = {self.chunks}: interleaving needs pipeline of at least 2")

    def _check_experts(self) -> None:
        whole("expert_tensor", self.expert_tensor, least=0)
        shared = divides("expert_tensor", self.expert_split, "tensor", self.tensor)
        if shared < self.tensor and not self.sequence_parallel:
            raise InputError(
                f"expert_tensor = {shared}: below tensor = {self.tensor} a rank sends its own "
                "tokens to the experts; expected sequence_parallel = True"
            )
        ranks = self.replicas * self.tensor
        divides("expert", self.expert, "the ranks of a stage for each expert", ranks // shared)

    @property
    def world(self) -> int:
        return self.data * self.context * self.tensor * self.pipeline

    @property
    def expert_split(self) -> int:
        """Devices that share the matmuls of an expert."""
        return self.expert_tensor or self.tensor

    @property
    def replicas(self) -> int:
        """Ranks with the same weights, experts apart: context ranks hold them all as well."""
        return self.data * self.context

    @property
    def expert_replicas(self) -> int:
        """Ranks with the same experts."""
        return self.replicas * self.tensor // (self.expert * self.expert_split)

    @property
    def expert_shard(self) -> int:
        """Ranks over which ZeRO shards experts: those of a shard group with the same ones."""
        return max(1, self.expert_replicas * self.shard // self.replicas)

    @property
    def sequences(self) -> int:
        """Sequences of a global batch."""
        return self.data * self.micro_batch * self.micro_batches

    def layers_of_stage(self, layers: int) -> int:
        """Layers one stage holds; refused when they do not divide."""
        return len(stage_layers(layers, self.pipeline, self.chunks)[0])


def stage_layers(
    layers: int, pipeline: int = 1, chunks: int = 1, first: int = 0
) -> list[list[int]]:
    """Layers of each stage, counted from `first`: chunk c of stage i is the (c p + i)-th slice of
    L / (p v) layers.

    16 layers, 4 stages, 2 chunks: stage 0 holds [0, 1, 8, 9].
    """
    L, p, v = whole("layers", layers), whole("pipeline", pipeline), whole("chunks", chunks)
    size, start = L // (p * v), whole("first", first, least=0)
    if L % (p * v):
        raise InputError(f"layers = {L}: pipeline * chunks = {p * v} does not divide it")
    return [
        [start + (c * p + i) * size + j for c in range(v) for j in range(size)] for i in range(p)
    ]


def chunk_layers(layers: int, pipeline: int, chunks: int = 1) -> list[int]:
    """Layers of the p v chunks in the order a micro-batch meets them: ceil(L / p) / v, and one
    fewer where that is too many: in the last, with the head, in the first, with the embedding, then
    in the last of the stages before. These two may have none, as Llama 3's.

    So a stage has ceil(L / p) layers or one fewer. Other chunks would make stages wait.
    """
    L, p, v = whole("layers", layers), whole("pipeline", pipeline), whole("chunks", chunks)
    if p > L:
        raise InputError(f"pipeline = {p}: more than layers = {L}, so that a stage would be empty")
    divides("chunks", v, "the layers of the fullest stage", ceil_div(L, p))
    if not spreads(L, p, v):
        raise InputError(f"chunks = {v}: of {p * v} in {p} stages, {p * v - L} would have no layer")
    size, last = ceil_div(L, p) // v, p * (v - 1)
    sizes = [size] * (p * v)
    shorter = [last + p - 1, 0, *range(last + p - 2, last, -1)]
    for chunk in shorter[: size * p * v - L]:
        sizes[chunk] -= 1
    return sizes


def spreads(layers: int, pipeline: int, chunks: int = 1) -> bool:
    """Whether `chunk_layers` has an answer: v divides the fullest stage's layers, and every chunk
    has a layer but for the two ends.
    """
    L, p, v = whole("layers", layers), whole("pipeline", pipeline), whole("chunks", chunks)
    most = ceil_div(L, p)
    return p <= L and most % v == 0 and (v < most or v == 1 or p * v - L <= 2)


def stage_sizes(layers: int, pipeline: int) -> tuple[int, int, int]:
    """Layers of the first stage, of the second and of the last, as `chunk_layers` spreads them."""
    L, p = whole("layers", layers), whole("pipeline", pipeline)
    most, last = ceil_div(L, p), L // p
    return last if most * p - L > 1 else most, most, last


def uneven_layers(layers: int, pipeline: int, chunks: int = 1) -> list[list[int]]:
    """Layers of each stage, counted from 0, where p v need not divide L."""
    sizes, p = chunk_layers(layers, pipeline, chunks), pipeline
    ends = list(accumulate(sizes))
    slices = [list(range(end - n, end)) for end, n in zip(ends, sizes, strict=True)]
    return [sum(slices[i::p], []) for i in range(p)]


def tensor_degree(model: Model, tensor: int) -> int:
    """A tensor-parallel degree, refused by the name of what it does not divide: heads, shared key
    heads, the MLP's width.
    """
    t = divides("tensor", tensor, "heads", model.heads)
    if model.kv_heads % t and t % model.kv_heads:
        raise InputError(
            f"tensor = {t}: neither divides kv_heads = {model.kv_heads} nor is a multiple of it"
        )
    if model.expert_layers < model.layers:
        divides("tensor", t, "ffn_width", model.ffn_width)
    if model.experts:
        divides("tensor", t, "experts.width", model.experts.width)
    return t


def expert_degree(model: Model, layout: Layout) -> int:
    """Experts of a layer that a device holds, refused where the degree does not divide them."""
    if not model.experts:
        if layout.expert > 1:
            raise InputError(f"expert = {layout.expert}: {model.name} has no experts; expected 1")
        return 0
    divides("expert", layout.expert, "experts.routed", model.experts.routed)
    return model.experts.routed // layout.expert


def own_tokens(tokens: int, context: int) -> int:
    """Tokens of a sequence that a device keeps: s / cp."""
    s = whole("tokens", tokens)
    return s // divides("context", context, "tokens", s)
