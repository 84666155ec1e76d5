"""Experiment of the tensor chapter: cut an MLP, and see shapes, bytes and the layer's time."""

from mathlib import specs
from mathlib.checks import divides
from mathlib.show import says, svg
from mathlib.show.equation import equation
from mathlib.show.experiments import Choice, Range, doubling, experiment
from mathlib.show.tables import table
from mathlib.traffic import tensor_time, volumes

MODELS = ("gpt-neox-20b", "llama3-8b", "llama2-13b", "llama3-70b", "gpt3-175b")
DEVICES = ("a100-80gb", "h100-sxm", "b200-sxm")


@experiment(
    "cut-mlp",
    "Cut an MLP",
    Choice("model", "Model", specs.titled("models", MODELS), "llama3-8b"),
    doubling("tensor", "Tensor-parallel degree", 1, 64, 8),
    doubling("gigabytes", "Link of a GPU, one direction", 1, 1024, 512, "GB/s"),
    doubling("tokens", "Tokens of a micro-batch", 256, 32768, 4096),
    Choice("device", "Device", specs.titled("devices", DEVICES), "h100-sxm"),
    Range("reached", "Peak that matmuls reach", 10, 80, 10, 40, "%"),
    code=(tensor_time.layer, tensor_time.even_degree),
)
def cut_mlp(model: str, tensor: int, gigabytes: int, tokens: int, device: str, reached: int) -> str:
    shape = specs.find_model(model).but(context=tokens)
    h, f, t = shape.width, shape.ffn_width, divides("tensor", tensor, "heads", shape.heads)
    X, W = reached / 100 * specs.find_device(device).flops_per_second("bf16"), gigabytes * 1e9
    found = tensor_time.layer(shape, tensor=t, achieved=X, bandwidth=W)
    alone = tensor_time.layer(shape, tensor=1, achieved=X, bandwidth=W).total
    sent = volumes.tensor_parallel(shape, tensor=t, layers=1).total
    say = (
        f'<p class="mlx-say">A rank computes {found.share("compute"):.0%} of the time; the layer '
        f"is <b>{alone / found.total:.1f} times as fast</b> on {t} as on one.</p>"
    )
    bars = svg.bars(
        [(f"degree {n}", _parts(shape, n, X, W)) for n in sorted({1, t})],
        title="A layer, forward and backward",
        show=says.time,
    )
    return say + _shapes(h, f, t, tokens, sent) + bars + _law(h, X, W)


def _parts(model: specs.Model, t: int, X: float, W: float) -> dict[str, float]:
    """Seconds of a layer by part, without those that are nothing."""
    found = tensor_time.layer(model, tensor=t, achieved=X, bandwidth=W)
    names = {"compute": "compute", "transfer": "communication"}
    return {names[part]: found.amount(part) for part in found if found.amount(part)}


def _shapes(h: int, f: int, t: int, tokens: int, sent: float) -> str:
    """What a rank has of the MLP, and what it sends for it."""
    rows = [
        ["input", f"{tokens:,} × {h:,}", "whole"],
        ["up", f"{h:,} × {f // t:,}", "columns"],
        ["hidden", f"{tokens:,} × {f // t:,}", "of its columns"],
        ["down", f"{f // t:,} × {h:,}", "rows"],
        ["output", f"{tokens:,} × {h:,}", "a partial sum"],
        ["sent", says.size(sent / 2), "there and back"],
    ]
    return table(["of the MLP", "on a rank", "it is"], rows)._repr_html_()


def _law(h: int, X: float, W: float) -> str:
    even = tensor_time.even_degree(width=h, achieved=X, bandwidth=W)
    return (
        "<p>The degree at which a GPT of this width sends as long as it computes:</p>"
        + equation(
            "t = 1 + 9 * h * W / (e * X)",
            t=(even, says.number(even)),
            h=h,
            W=(W, says.rate(W)),
            e=2,
            X=(X, says.speed(X)),
        )
    )
