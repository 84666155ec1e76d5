"""What the same work costs on more devices, by published rates. Behind C07.

Each number is the share of a device's rate that is lost from the smaller to the larger run, of one
model by one program; below 0 a device became faster.
"""

from collections.abc import Iterable
from itertools import combinations

from mathlib import specs
from mathlib.compute import flops, params, reported
from mathlib.parts import Parts
from mathlib.plan import bill
from mathlib.traffic import nccl
from mathlib.trials import compute_rates

Lost = dict[str, list[float]]  # by source
Series = Iterable[tuple[float, float]]  # devices, rate of one
SLOW = ("1b", "a100-40gb", 10)  # Mosaic's run on 32 devices was slower than those on 16 and 64


def lost(series: Series) -> list[float]:
    """From each number of devices to each larger one."""
    rates = [rate for _, rate in sorted(series)]
    return [1 - more / few for few, more in combinations(rates, 2)]


def lost_of_all(many: Iterable[Series]) -> list[float]:
    return [one for series in many for one in lost(series)]


def paid(losses: Iterable[float]) -> list[float]:
    """Times the bill for the same work, the least first; 1 if nothing was lost."""
    return sorted(max(1.0, 1 / (1 - one)) for one in losses)


def batch_grown() -> Lost:
    """Pairs whose batch grew with the devices, so that each kept its sequences."""
    told = specs.table("rates")
    mosaic = {}
    for card, size, each, steps in told["mpt-grown"]["rows"]:
        mosaic[size, card, each] = lost([(n, rate / n) for n, rate in steps])
    mosaic[SLOW] = [one for one in mosaic[SLOW] if one > -0.1]
    evo = told["internevo"]["grown"]
    ends = {
        by: [1 - last / first for _, inside, _, first, last in evo if bool(inside) == by]
        for by in (True, False)
    }
    return {
        "Mosaic": sum(mosaic.values(), []),
        "vTrain": [1 - few / more for few, more, n in _grid(grown=True)],
        "InternEvo, states in a node": ends[True],
        "InternEvo, states shared by all": ends[False],
        "MaxText": lost(told["on-more"]["maxtext"]),
        "torchtitan": lost(told["on-more"]["torchtitan"]),
    }


def batch_kept() -> Lost:
    """Pairs whose batch stayed, so that each device had fewer sequences."""
    told = specs.table("rates")
    seventy, *mosaic = lost_of_all(
        [(n, rate / n) for n, rate in steps] for *_, steps in told["mpt-grown"]["kept"]
    )
    return {
        "layers cut": [
            _between("Megatron 529.6B, 560 A100", "Megatron 529.6B, 2,240 A100"),
            _between("Megatron 174.6B, 384 A100", "Megatron 174.6B, 1,536 A100"),
            _between("Llama 3 405B, 8,192 H100", "Llama 3 405B, 16,384 H100"),
            _between("MT-NLG 530B, 2,240 A100", "MT-NLG 530B, 3,360 A100"),
        ],
        "ZeRO-3 alone": [_between("ZeRO-3 174.6B, 384 A100", "ZeRO-3 174.6B, 1,536 A100")],
        "MPT 70B, FSDP": [seventy],
        "Mosaic": mosaic,
        "BLOOM": lost_of_all(told["bloom-trials"]["kept"]),
        "InternEvo": lost_of_all(rates for *_, rates in told["internevo"]["kept"]),
        "LLaMA": lost_of_all(_best_layouts()),
        "vTrain": [1 - few / more / n for few, more, n in _grid(grown=False)],
        "Playbook": lost_of_all(told["on-more"]["playbook"]),
    }


def _between(few: str, more: str) -> float:
    """Of two reported runs."""
    return 1 - reported.find_run(more).rate / reported.find_run(few).rate


def _best_layouts() -> Iterable[Series]:
    """The fastest layout of each model of LLaMA on each number of devices."""
    found: dict[tuple[int, int], dict[int, float]] = {}
    for rate in compute_rates.runs():
        if rate.kernel == "flash 2":
            devices = int(rate.job.rpartition(" ")[2])
            of = found.setdefault((rate.model.layers, rate.model.context), {})
            of[devices] = max(of.get(devices, 0), rate.tokens)
    return [list(of.items()) for of in found.values()]


def _grid(grown: bool) -> list[tuple[float, float, float]]:
    """Seconds of vTrain's best layouts on few and on n times the devices, and n."""
    best = {tuple(job): min(steps) for *job, steps in specs.table("rates")["vtrain"]["grid"]}
    return [
        (best[a], best[b], b[3] / a[3])
        for a in best
        for b in best
        if a[:3] == b[:3] and b[3] > a[3] and b[4] == a[4] * (b[3] / a[3] if grown else 1)
    ]


HOURS = 1000  # of an A100 that a GPT of 1.3 billion parameters computes at 45% of the peak


def modelled(devices: int, millions: int) -> tuple[Parts, Parts]:
    """Hours that such a job pays if gradients are summed in one ring a step, with so many millions
    of tokens in it, and devices fail as often as Llama 3's: all of backward hides it, or nothing.
    """
    model, peak = specs.find_model("gpt3-xl"), specs.find_device("a100-80gb").half
    work = HOURS * 3600 * 0.45 * peak
    ring = specs.table("nccl")["ring Simple"]  # of eight messages one leaves the node
    job = {
        "flop": work,
        "achieved": 0.45 * peak,
        "devices": devices,
        "steps": round(work / flops.per_token(model) / (millions * 2**20)),
        "gradient_bytes": 2 * params.count(model).total,
        "bandwidth": specs.find_cluster("p4de.24xlarge").node_bandwidth,
        "latency": nccl.PLATEAU * (7 * ring["inside"] + ring["across"]) / 8,
        "time_between_failures": 16_384 * 54 * 86400 / 419,
        "time_per_failure": 1800,
    }
    hidden, open_ = (bill.device_time(**job, behind=b).scaled(1 / 3600) for b in (2 / 3, 0))
    return hidden, open_
