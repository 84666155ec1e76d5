"""A planned layout as a launch line: torchrun's flags, and those of Megatron-LM's pretrain_gpt.py.

Names as in Megatron-LM's arguments.py of August 2026 and in torchrun's manual.
"""

from collections.abc import Iterator
from itertools import groupby

from mathlib.layout import chunk_layers
from mathlib.specs import Cluster, Layout, Model

SHARDED = {2: "optim_grads", 3: "optim_grads_params"}  # ZeRO stage: Megatron-FSDP's word for it
GRADIENTS = {
    "mixed-adam": "--grad-reduce-in-bf16",
    "mixed-adam-fp32-gradients": "--accumulate-allreduce-grads-in-fp32",
}


def launch_line(
    model: Model,
    layout: Layout,
    cluster: Cluster,
    *,
    tokens: int,
    recipe: str,
    offload: str = "none",
) -> str:
    """What starts the run on every node, a flag a line; what no flag says stands in comments."""
    flags = [
        *_shape(model),
        *_spread(layout, model),
        *_states(layout, recipe),
        *_again(layout),
        *_host(offload),
        f"--micro-batch-size {layout.micro_batch}",
        f"--global-batch-size {layout.sequences}",
        f"--seq-length {tokens}",
        f"--max-position-embeddings {max(tokens, model.context)}",
    ]
    lines = [_torchrun(layout, cluster), *flags]
    return "\n".join([*_unsaid(model, recipe, offload), " \\\n    ".join(lines)]) + "\n"


def _torchrun(layout: Layout, cluster: Cluster) -> str:
    """Processes of a node, and where the nodes meet."""
    n, node = layout.world, cluster.devices_per_node
    if n <= node:
        return f"torchrun --standalone --nproc-per-node {n} pretrain_gpt.py"
    meet = "--rdzv-backend c10d --rdzv-endpoint $HEAD_NODE:29400 --rdzv-id plan"
    return f"torchrun --nnodes {-(-n // node)} --nproc-per-node {node} {meet} pretrain_gpt.py"


def _shape(model: Model) -> Iterator[str]:
    """The sizes of the model."""
    yield f"--num-layers {model.layers}"
    yield f"--hidden-size {model.width}"
    yield f"--ffn-hidden-size {model.ffn_width}"
    yield f"--num-attention-heads {model.heads}"
    if model.kv_heads < model.heads:
        yield f"--group-query-attention --num-query-groups {model.kv_heads}"
    if model.head_dim * model.heads != model.width:
        yield f"--kv-channels {model.head_dim}"
    if model.gated:
        yield "--swiglu"
    if model.norm == "rmsnorm":
        yield "--normalization RMSNorm"
    if model.positions == "rotary":
        yield "--position-embedding-type rope"
    if not model.tied:
        yield "--untie-embeddings-and-output-weights"
    if not (model.mlp_bias or model.output_bias):
        yield "--disable-bias-linear" + (" --add-qkv-bias" if model.qkv_bias else "")
    if model.experts:
        yield f"--num-experts {model.experts.routed}"
        yield f"--moe-router-topk {model.experts.active}"
        yield f"--moe-ffn-hidden-size {model.experts.width}"


def _spread(layout: Layout, model: Model) -> Iterator[str]:
    """The axes of the layout; data parallelism is what is left of the processes."""
    yield f"--tensor-model-parallel-size {layout.tensor}"
    if layout.sequence_parallel:
        yield "--sequence-parallel"
    yield f"--context-parallel-size {layout.context}"
    yield f"--pipeline-model-parallel-size {layout.pipeline}"
    yield from _stages(layout, model)
    if model.experts:
        yield f"--expert-model-parallel-size {layout.expert}"
        yield f"--expert-tensor-parallel-size {layout.expert_split}"


def _stages(layout: Layout, model: Model) -> Iterator[str]:
    """Chunks, and which have a layer fewer: the ends alone, which then count as a layer, or more.

    In a layout of its own the chunks stand in the order a micro-batch meets them, E embedding, t a
    layer, L loss; their number gives that of the chunks a stage.
    """
    sizes = chunk_layers(model.layers, layout.pipeline, layout.chunks)
    shorter = sum(n < max(sizes) for n in sizes)
    if shorter > 2:
        runs = [(n, len(list(same))) for n, same in groupby(sizes[1:-1])]
        inner = "".join(f"({'t' * n}|)*{count}" for n, count in runs)
        yield f'--pipeline-model-parallel-layout "E{"t" * sizes[0]}|{inner}{"t" * sizes[-1]}L"'
        return
    if layout.chunks > 1:
        yield f"--num-virtual-stages-per-pipeline-rank {layout.chunks}"
    if shorter:
        yield "--account-for-loss-in-pipeline-split"
    if shorter > 1:
        yield "--account-for-embedding-in-pipeline-split"


def _states(layout: Layout, recipe: str) -> Iterator[str]:
    """Numbers and ZeRO; groups smaller than all replicas are instances of the optimizer."""
    yield "--bf16"
    if recipe in GRADIENTS:
        yield GRADIENTS[recipe]
    if layout.zero:
        yield "--use-distributed-optimizer"
    if layout.zero in SHARDED:
        yield f"--use-megatron-fsdp --data-parallel-sharding-strategy {SHARDED[layout.zero]}"
    if layout.zero and layout.shard < layout.replicas:
        yield f"--num-distributed-optimizer-instances {layout.replicas // layout.shard}"


def _again(layout: Layout) -> Iterator[str]:
    """What is recomputed."""
    if layout.recompute == "selective":
        yield "--recompute-granularity selective"
    if layout.recompute == "full":
        yield "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1"


def _host(offload: str) -> Iterator[str]:
    """What waits in the host's memory."""
    if offload in ("states", "both"):
        yield "--optimizer-cpu-offload --optimizer-offload-fraction 1.0"
        yield "--use-precision-aware-optimizer"


def _unsaid(model: Model, recipe: str, offload: str) -> Iterator[str]:
    """What these flags leave out."""
    yield "# Add your data, tokenizer, learning rate and checkpoints; run it on every node."
    if recipe not in GRADIENTS:
        yield "# The planned optimizer keeps its states in 8 bits, which no flag here asks for."
    if offload in ("activations", "both"):
        yield "# Activations are planned to wait in the host's memory, which no flag here asks for."
    if model.latent:
        yield "# Latent attention has flags of its own, which are not here."
    if model.experts and model.experts.shared:
        yield "# So have shared experts."
