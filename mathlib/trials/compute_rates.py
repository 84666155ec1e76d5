"""Published rates: what runs make of an A100, which of them stay below 115 TFLOP/s, and how much
of the rest is waiting. Behind C05 and C06.

Rates are FLOP/s of one device, executed and with all pairs unless a name says otherwise.
"""

from collections.abc import Iterable, Iterator

from mathlib import specs
from mathlib.compute import flops, params, reported
from mathlib.plan import sweeps
from mathlib.records import dataclass, field
from mathlib.schedule.published import PublishedStep, published

MARK = 115e12
BATCH = 2**22  # tokens of a step in every job of Hagemann et al.
CALLED = {
    "Mosaic": "59 steps of Mosaic",
    "flash 2": "248 layouts, FlashAttention 2",
    "older": "153 layouts, older attention",
    "large": "17 large runs",
}


@dataclass(frozen=True)
class Rate:
    """One published run on A100s."""

    source: str  # a key of CALLED
    job: str  # runs of one job differ in nothing but the layout
    model: specs.Model = field(hash=False)
    tokens: float  # that a device reads in a second
    recompute: str
    kernel: str = ""  # of attention, where it is told

    def made(self, recompute: str = "", causal: bool = False) -> float:
        """FLOP/s of a device, as executed or with another recomputation charged; `causal` where
        the kernel skips masked pairs.
        """
        work = flops.training(
            self.model,
            recompute=recompute or self.recompute,
            causal=causal and "flash" in self.kernel,
        )
        return work.total / self.model.context * self.tokens

    @property
    def needed(self) -> float:
        return self.made(recompute="none")

    @property
    def by_neox(self) -> float:
        """As GPT-NeoX counted in August 2023: 6P and 60 L s h for attention a token (its
        megatron/logging.py at 01b5e22).
        """
        attention = 60 * self.model.layers * self.model.context * self.model.width
        return self.tokens * (6 * params.total(self.model) + attention)


def runs() -> list[Rate]:
    """477 runs of four kinds of source."""
    return [*_mosaic(), *_layouts(), *_older(), *_large()]


def _mosaic() -> Iterator[Rate]:
    for key, again in (("mpt", "none"), ("mpt-recomputed", "full")):
        for size, s, _, _, together in specs.table("rates")[key]["a100-80gb"]:
            model = specs.find_model(f"mpt-bench-{size}").but(context=s)
            yield Rate("Mosaic", f"{size}, {s}", model, together / 8, again, "flash")


def _layouts() -> Iterator[Rate]:
    for name in sweeps.names():
        job = sweeps.find_sweep(name)
        for one in job.timed:
            tokens = BATCH / job.devices / one.seconds
            told = f"{name} on {job.devices}", job.model, tokens, one.layout.recompute
            yield Rate("flash 2", *told, "flash 2")
    for name, devices, again, steps in specs.table("rates")["wide-layouts"]["a100-80gb"]:
        for seconds in steps:
            tokens = BATCH / devices / seconds
            told = f"{name} on {devices}", sweeps.find_sweep(name).model, tokens, again
            yield Rate("flash 2", *told, "flash 2")


def _older() -> Iterator[Rate]:
    for name, devices, kernel, again, steps in specs.table("rates")["older-attention"]["a100-80gb"]:
        for seconds in steps:
            tokens = BATCH / devices / seconds
            told = f"{name} on {devices}", sweeps.find_sweep(name).model, tokens, again
            yield Rate("older", *told, kernel)


def _large() -> Iterator[Rate]:
    for name in reported.names():
        run = reported.find_run(name)
        if run.counts == "hardware":
            model = specs.find_model(run.model)
            tokens = run.rate / flops.per_token(model, recompute=run.recompute)
            yield Rate("large", name, model, tokens, run.recompute)


def by_source(rates: Iterable[Rate]) -> dict[str, list[tuple[float, float]]]:
    """Percent of a source's runs that are no faster, and TFLOP/s, from the slowest on."""
    made: dict[str, list[float]] = {}
    for rate in rates:
        made.setdefault(CALLED[rate.source], []).append(rate.made() / 1e12)
    return {
        name: [(100 * (i + 1) / len(many), one) for i, one in enumerate(sorted(many))]
        for name, many in made.items()
    }


def best(rates: Iterable[Rate], kernel: str) -> dict[str, float]:
    """TFLOP/s of the fastest layout of each job that was tried with a kernel of attention."""
    found: dict[str, float] = {}
    for rate in rates:
        if rate.kernel == kernel:
            found[rate.job] = max(found.get(rate.job, 0), rate.made() / 1e12)
    return found


def below(rates: Iterable[float]) -> int:
    """How many rates stay below 115 TFLOP/s."""
    return sum(rate < MARK for rate in rates)


def mosaic_others() -> list[float]:
    """FLOP/s by the HFU that Mosaic prints for its other 80 rows, 40 GB or more devices."""
    printed = specs.table("rates")["mpt-others"]
    peak = specs.find_device("a100-80gb").half
    return [hfu / 100 * peak for card in ("a100-40gb", "a100-80gb") for *_, hfu in printed[card]]


def small_models() -> dict[tuple[int, ...], list[float]]:
    """FLOP/s of vTrain's grid by (width, layers, tokens, GPUs, sequences), all recomputed by
    Megatron's formula, as its simulator's settings have it.
    """
    found = {}
    for *job, steps in specs.table("rates")["vtrain"]["grid"]:
        h, layers, s, gpus, sequences = job
        done = 96 * sequences * s * layers * h**2 * (1 + s / (6 * h) + 50257 / (16 * layers * h))
        found[tuple(job)] = [done / seconds / gpus for seconds in steps]
    return found


@dataclass(frozen=True)
class Pair:
    """Two runs that differ in one thing: TFLOP/s of an A100."""

    what: str
    differs: str
    first: float
    second: float


def pairs() -> list[Pair]:
    """What can hold a rate down, each by two published runs."""
    told = specs.table("rates")
    bloom, fused = told["bloom-trials"], told["megatron-others"]["fused"]["174.6B"]
    batches, widths = dict(bloom["batches"]), dict(bloom["on-320"])
    *_, of_64, of_128 = max(bloom["heads"], key=lambda row: row[-2] / row[-1])
    zero, cut = (
        reported.find_run(f"{way} 174.6B, 1,536 A100").rate / 1e12 for way in ("ZeRO-3", "Megatron")
    )
    older = [r for r in _older() if r.job.startswith("13b-8k")]
    plain = max(r.made() for r in older if r.kernel == "plain") / 1e12
    flash = max(r.made() for r in _layouts() if r.job in {r.job for r in older}) / 1e12
    return [
        Pair("batch", "2,048 sequences or 512, BLOOM on 384", batches[2048], batches[512]),
        Pair("layout", "tensor and pipeline or DeepSpeed's ZeRO-3, on 1,536", cut, zero),
        Pair("link", "NVLink or PCIe, InternLM 7B on 8", *told["on-more"]["link"]),
        Pair("shape", "width 13,824 or 14,400", min(widths[13824]), max(widths[14400])),
        Pair("shape", "64 heads of 216 or 128 of 108, BLOOM on 384", of_64, of_128),
        Pair(
            "software", "FlashAttention 2 or plain and recomputed, 13B, 8,192 tokens", flash, plain
        ),
        Pair("software", "fused kernels or not, GPT-3", *(x / 1e12 for x in reversed(fused))),
    ]


def on_v100() -> list[float]:
    """FLOP/s of a V100 in BigScience's 70 steps."""
    printed = specs.table("rates")["bigscience-v100"]["printed"]
    return [1e12 * rate for *_, rates in printed for rate in rates]


def hfus() -> list[float]:
    """Shares of the peak that large runs executed, where it is known."""
    shares = (reported.utilizations(reported.find_run(name))["hfu"] for name in reported.names())
    return [share for share in shares if share]


def alone() -> float:
    """The share of an A100's peak that the best of many single matmuls reached."""
    best_matmul = specs.table("rates")["best-matmul"]["later"]["a100-80gb"]
    return best_matmul / specs.find_device("a100-80gb").half


FEW_AND_MANY = {"1.5B": (24, 64), "6.2B": (24, 64), "14.6B": (48, 128), "28.3B": (96, 256)}


def shorter_waits() -> dict[str, tuple[float, float]]:
    """Four pipelines with more micro-batches: times as fast by the shorter wait, and as printed."""
    steps, found = published(), {}
    for size, counts in FEW_AND_MANY.items():
        few, many = (steps[f"{size}, {n} micro-batches"] for n in counts)
        worked = [1 - step.bubbles["1f1b"] for step in (few, many)]
        gain = worked[1] / worked[0], many.samples["1f1b"] / few.samples["1f1b"]
        found[f"{size} on {few.stages} A100s, {counts[0]} to {counts[1]} micro-batches"] = gain
    return found


def reordered(order: str) -> list[tuple[float, float]]:
    """Twelve jobs whose work was put in another order: times as fast by the shorter wait, and as
    printed.
    """
    wait = {"zb-1p": "zb-h1"}.get(order, order)  # the one whose wait they computed
    steps = [step for step in published().values() if step.bubbles and order in step.samples]
    return [
        ((1 - step.bubbles[wait]) / (1 - step.bubbles["1f1b"]), 1 + step.gain(order))
        for step in steps
    ]


def waiting_of_missed() -> list[float]:
    """The share of what pipelines miss of the peak that they lose by waiting."""
    return [_waiting(step, step.bubbles["1f1b"]) for step in published().values() if step.bubbles]


def _waiting(step: PublishedStep, wait: float) -> float:
    words, shape = specs.find_model("gpt2").vocab, step.shape
    model = specs.Model(step.name, vocab=words, **shape)  # type: ignore[arg-type]
    done = flops.training(model).total * step.samples["1f1b"]
    return wait / (1 - done / specs.find_device("a100-80gb").half)
