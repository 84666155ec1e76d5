"""Adapters of Qwen's models on A100s: what their authors print of memory and time, beside the
formulas and the planner.
"""

from math import log
from typing import Any, NamedTuple

from mathlib import specs
from mathlib.memory import adapters
from mathlib.plan import step
from mathlib.plan.adapted import PROGRAM, Adapters
from mathlib.plan.calibration import find_rates
from mathlib.specs import Layout, Model

ROWS = specs.table("rates")["after"]
TOKENS, RANK = ROWS["tokens"], 64
SIZES = tuple(ROWS["qwen"])
FULL, PAIR = ROWS["full"], ROWS["pair"]  # tuning of 1.8B on one A100, and of 7B on two
NODE = specs.find_cluster("dgx-a100")
STEEP = 2  # the first length whose peak is the loss's: at 256 and 512 tokens QLoRA takes the same


def shape(size: str = "7B") -> Model:
    """A Qwen, as a Llama without the biases of queries, keys and values."""
    own = {"name": f"qwen-{size.lower()}", "title": f"Qwen {size}", "context": 8192}
    return specs.find_model("llama2-7b").but(**own | ROWS["qwen"][size]["shape"])


class Line(NamedTuple):
    """By length: what the formula says, and what is printed."""

    formula: list[float]
    printed: list[float]

    @property
    def ratios(self) -> list[float]:
        """Printed to formula."""
        return [p / f for f, p in zip(*self, strict=True)]

    @property
    def a_token(self) -> tuple[float, float]:
        """MB a token of each, from 1,024 tokens to the longest, of lines in GB."""
        span = (TOKENS[-1] - TOKENS[STEEP]) / 1e3
        ends = [(one[-1] - one[STEEP]) / span for one in self]
        return ends[0], ends[1]


def methods(size: str) -> list[str]:
    """With what this size was tuned."""
    return [name for name in ROWS["qwen"][size] if name != "shape"]


def memory(method: str, size: str = "7B") -> Line:
    """GB of a device."""
    n, how = devices(method), {"rank": RANK, "recompute": "full", "dropout": True}
    how |= {"quantised": method == "QLoRA"}
    found = [
        adapters.sharded(shape(size), devices=n, tokens=s, **how).total / 1e9  # type: ignore[arg-type]
        for s in TOKENS
    ]
    return Line(found, [gb / n for gb in ROWS["qwen"][size][method]["gb"]])


def time(method: str, size: str = "7B") -> Line:
    """Seconds of a step of 8 micro-batches, by the planner."""
    n, bits = devices(method), "4" if method == "QLoRA" else "16"
    lay = Layout(data=n, zero=3 if n > 1 else 0, micro_batches=8, recompute="full")
    how: dict[str, Any] = {"adapters": Adapters(RANK, bits=bits)}
    rates = find_rates(NODE.device, PROGRAM)
    every = [step.machine(shape(size), NODE, rates, tokens=s, **how) for s in TOKENS]
    return Line([step.step(on, lay).total for on in every], ROWS["qwen"][size][method]["seconds"])


def devices(method: str) -> int:
    """Over which ZeRO-3 shards."""
    return 4 if "ZeRO" in method else 1


def every(of: Any = memory) -> dict[str, Line]:
    """Lines of all sizes and methods."""
    return {f"{size}, {method}": of(method, size) for size in SIZES for method in methods(size)}


def logit_bytes(method: str, size: str = "7B") -> tuple[float, float]:
    """Bytes a logit that the slopes leave when the layers' inputs are taken off; by the formula, in
    the printed numbers.

    Chapter: after (eq-logit-bytes)
    """
    qwen, line = shape(size), memory(method, size)
    inputs = 2 * (qwen.layers + 1) * qwen.width
    ours, printed = ((1e6 * each - inputs) / qwen.padded_vocab for each in line.a_token)
    return ours, printed


def beside(methods_of: str) -> list[list[str]]:
    """By size: published less formula, GB at the least and at the most, and bytes a logit."""
    rows = []
    for size in SIZES:
        method = next(name for name in methods(size) if name.startswith(methods_of))
        above = [p - f for f, p in zip(*memory(method, size), strict=True)]
        ends = [f"{end(above):+.1f}" for end in (min, max)]
        rows.append([f"{size}, {method}", *ends, f"{logit_bytes(method, size)[1]:.1f}"])
    return rows


def of_full() -> tuple[float, float]:
    """LoRA's share of full tuning's memory for 1.8B, printed: the shortest, the longest."""
    least, *_, most = (a / b for a, b in zip(ROWS["qwen"]["1.8B"]["LoRA"]["gb"], FULL, strict=True))
    return least, most


def beyond() -> list[float]:
    """ln of what runs needed to what the formula says, of all runs."""
    return [log(ratio) for line in every().values() for ratio in line.ratios]
