"""A planned layout as a launch line: torchrun's flags, and those of Megatron-LM's pretrain_gpt.py.

It says all that the predicted bytes and seconds rely on, so that `mathlib.cli.launches` reads the
same layout in it. Names as in Megatron-LM's arguments.py of August 2026 and in torchrun's manual.
"""

from collections.abc import Iterator
from itertools import groupby

from mathlib.checks import ceil_div, divisors
from mathlib.layout import chunk_layers
from mathlib.specs import Cluster, Experts, Latent, Layout, Model

SHARDED = {2: "optim_grads", 3: "optim_grads_params"}  # ZeRO stage: Megatron-FSDP's word for it
FORMATS = {"fp8": "--fp8-format hybrid", "fp4": "--fp4-format e2m1"}  # of the layers' matmuls
POSITIONS = {"rotary": "rope", "relative": "relative", "none": "none"}
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
    precision: str = "half",
) -> str:
    """What starts the run on every node, a flag a line; what no flag says stands in comments."""
    flags = [
        *_shape(model, layout.tensor),
        *_spread(layout, model),
        *_states(layout, recipe, precision),
        *_hidden(layout),
        *_again(layout),
        *_host(offload),
        f"--micro-batch-size {layout.micro_batch}",
        f"--global-batch-size {layout.sequences}",
        "--hidden-dropout 0 --attention-dropout 0",
        f"--seq-length {tokens}",
        f"--max-position-embeddings {max(tokens, model.context)}",
    ]
    lines = [_torchrun(layout, cluster), *flags]
    return "\n".join([*_unsaid(model, layout, recipe, offload), " \\\n    ".join(lines)]) + "\n"


def _torchrun(layout: Layout, cluster: Cluster) -> str:
    """Processes of a node, and where the nodes meet."""
    n, most = layout.world, cluster.devices_per_node
    node = max(each for each in divisors(n) if each <= most)
    if n <= most:
        return f"torchrun --standalone --nproc-per-node {n} pretrain_gpt.py"
    meet = "--rdzv-backend c10d --rdzv-endpoint $HEAD_NODE:29400 --rdzv-id plan"
    return f"torchrun --nnodes {n // node} --nproc-per-node {node} {meet} pretrain_gpt.py"


def _shape(model: Model, tensor: int) -> Iterator[str]:
    """The sizes of the model; rows of its table are padded to what tensor ranks share."""
    yield f"--vocab-size {model.vocab}"
    yield f"--make-vocab-size-divisible-by {ceil_div(model.padded_vocab, tensor)}"
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
    if model.positions in POSITIONS:
        yield f"--position-embedding-type {POSITIONS[model.positions]}"
    if model.window and not (model.window.full_first or model.window.chunked):
        yield f"--window-size {model.window.width - 1},0"
        if model.window.full_every:
            yield f"--window-attn-skip-freq {model.window.full_every}"
    if model.query_key_norm == "head":
        yield "--qk-layernorm"
    if not model.tied:
        yield "--untie-embeddings-and-output-weights"
    if not (model.mlp_bias or model.output_bias):
        yield "--disable-bias-linear" + (" --add-qkv-bias" if model.qkv_bias else "")
    yield from _experts(model.experts)
    yield from _dense(model)
    yield from _latent(model.latent)


def _experts(mixture: Experts | None) -> Iterator[str]:
    """The experts of a layer, and which layers have them."""
    if mixture:
        yield f"--num-experts {mixture.routed}"
        yield f"--moe-router-topk {mixture.active}"
        yield f"--moe-ffn-hidden-size {mixture.width}"
        if mixture.router_bias:
            yield "--moe-router-enable-expert-bias"
        if mixture.shared:
            yield f"--moe-shared-expert-intermediate-size {mixture.shared * mixture.width}"
            if mixture.shared_gate:
                yield "--moe-shared-expert-gate"


def _dense(model: Model) -> Iterator[str]:
    """Layers without experts: the first ones, or all but every n-th."""
    mixture = model.experts
    if mixture and mixture.dense_layers:
        rest = model.layers - mixture.dense_layers
        yield f'--moe-layer-freq "([0]*{mixture.dense_layers}+[1]*{rest})"'
    elif mixture and mixture.every > 1:
        yield f"--moe-layer-freq {mixture.every}"


def _latent(latent: Latent | None) -> Iterator[str]:
    """Ranks and widths of latent attention."""
    if latent:
        yield "--multi-latent-attention"
        if latent.query_rank:
            yield f"--q-lora-rank {latent.query_rank}"
        yield f"--kv-lora-rank {latent.kv_rank} --qk-head-dim {latent.nope_dim}"
        yield f"--qk-pos-emb-head-dim {latent.rope_dim} --v-head-dim {latent.value_dim}"


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


def _states(layout: Layout, recipe: str, precision: str) -> Iterator[str]:
    """Numbers and ZeRO; groups smaller than all replicas are instances of the optimizer."""
    yield "--bf16"
    if precision in FORMATS:
        yield FORMATS[precision]
    if recipe in GRADIENTS:
        yield GRADIENTS[recipe]
    if layout.zero:
        yield "--use-distributed-optimizer"
    if layout.zero in SHARDED:
        yield f"--use-megatron-fsdp --data-parallel-sharding-strategy {SHARDED[layout.zero]}"
    if layout.zero and layout.shard < layout.replicas:
        yield f"--num-distributed-optimizer-instances {layout.replicas // layout.shard}"


def _hidden(layout: Layout) -> Iterator[str]:
    """Exchanges that the predicted time hides behind computation."""
    if layout.replicas > 1:
        yield "--overlap-grad-reduce" + (" --overlap-param-gather" if layout.zero else "")
    if layout.sequence_parallel:
        yield "--tp-comm-overlap"


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


def _unsaid(model: Model, layout: Layout, recipe: str, offload: str) -> Iterator[str]:
    """What these flags leave out."""
    yield "# Add your data, tokenizer, learning rate and checkpoints; run it on every node."
    if model.positions == "rotary":
        yield "# Add --rotary-base as the model's config.json has it; 10000 if you leave it out."
    if recipe not in GRADIENTS:
        yield "# The planned optimizer keeps its states in 8 bits, which no flag here asks for."
    if offload in ("activations", "both"):
        yield "# Activations are planned to wait in the host's memory, which no flag here asks for."
    if layout.tensor > 1 and not layout.sequence_parallel:
        yield "# Exchanges of tensor ranks are planned as hidden, which Megatron-LM does with"
        yield "# --sequence-parallel alone."
    if unsaid := [what for what, there in _without_flags(model).items() if there]:
        yield f"# No flag here says {', '.join(unsaid)}."


def _without_flags(model: Model) -> dict[str, bool]:
    """What of a model Megatron-LM has no flag for, or none that is written here."""
    window = model.window
    return {
        f"{model.positions} positions": model.positions not in (*POSITIONS, "learned"),
        f"the norm {model.norm}": model.norm not in ("layernorm", "rmsnorm"),
        "blocks of attention beside MLP": model.parallel_block,
        "which layers have a window": bool(window and (window.full_first or window.chunked)),
        f"{model.block_norms} norms of a layer": model.block_norms != 2,
        "a norm behind the embedding": model.embedding_norm,
        "attention sinks": model.attention_sinks,
        "this norm of queries and keys": model.query_key_norm not in ("", "head"),
    }
