"""The experiment of the roofline chapter: every operation of a layer beneath the roof."""

from mathlib import specs
from mathlib.compute import operations, roofline
from mathlib.compute.roofline import Operation
from mathlib.show import says, svg
from mathlib.show.experiments import Choice, Toggle, doubling, experiment
from mathlib.show.roof import roof_html

MODELS = ("gpt2", "gpt2-xl", "gpt3-175b", "llama3-8b", "llama3-70b", "qwen3-30b-a3b")
DEVICES = ("v100-32gb", "a100-80gb", "h100-sxm", "b200-sxm", "mi300x", "tpu-v5p")
KERNELS = (("FlashAttention", "flash"), ("scores written to memory", "standard"))

NAMED = {"mlp": "MLP", "attention core": "attention (QKᵀ and AV)"}  # parts in words


def points(
    found: list[Operation], peak: float, bandwidth: float
) -> dict[str, list[tuple[str, float, float]]]:
    """Where operations stand: at their intensity, on the roof."""
    groups: dict[str, list[tuple[str, float, float]]] = {}
    for one in found:
        roof = roofline.attainable(intensity=one.intensity, peak=peak, bandwidth=bandwidth)
        groups.setdefault(NAMED.get(one.part, one.part), []).append((one.name, one.intensity, roof))
    return groups


@experiment(
    "roof",
    "A layer beneath the roof",
    Choice("model", "Model", specs.titled("models", MODELS), "llama3-8b"),
    Choice("device", "Device", specs.titled("devices", DEVICES), "h100-sxm"),
    doubling("tokens", "Tokens of a sequence", 1, 32768, 1024),
    doubling("micro_batch", "Sequences at a time", 1, 64, 1),
    doubling("tensor", "Tensor-parallel degree", 1, 8, 1),
    Choice("attention", "Attention", KERNELS, "flash"),
    Toggle("fused", "Fuse all kernels between two matmuls"),
    code=(roofline.intensity, roofline.attainable, roofline.time),
    main=4,
)
def roof(
    model: str,
    device: str,
    tokens: int,
    micro_batch: int,
    tensor: int,
    attention: str,
    fused: bool,
) -> str:
    chip, found = specs.find_device(device), specs.find_model(model)
    X, W = chip.half, chip.memory_bandwidth
    shape = found.but(context=max(tokens, found.context))  # a table of positions long enough
    done = operations.layer(
        shape,
        micro_batch=micro_batch,
        tokens=tokens,
        tensor=tensor,
        sequence_parallel=tensor > 1,
        attention=attention,
        fused=fused,
        dropout=False,
        causal=True,
    )
    ahead = done[: len(done) // 2]
    spent, flop = roofline.time(done, peak=X, bandwidth=W), roofline.totals(done).total
    by_part = {NAMED.get(name, name): spent.amount(name) for name in spent}
    return (
        f'<p class="mlx-say">{_said(spent.total, flop, X)}</p>'
        + roof_html(
            points(ahead, X, W),
            peak=X,
            bandwidth=W,
            title=f"{found.title} on {chip.title}: the forward pass of a layer",
        )
        + svg.bars(
            [
                ("The layer, forward and backward", by_part),
                ("Its matmuls at the peak", {"arithmetic": flop / X}),
            ],
            title="Time of a layer by part",
            show=says.time,
        )
    )


def _said(seconds: float, flop: float, peak: float) -> str:
    """How much of the peak is left."""
    return (
        f"A layer takes <b>{says.time(seconds)}</b> at least, forward and backward, and its "
        f"matmuls alone {says.time(flop / peak)} at the peak: a utilisation of at most "
        f"<b>{flop / peak / seconds:.0%}</b>, before any message, launch or slow kernel."
    )
