"""What sending less gains on a link: an 8B model on four nodes by formula, and two ranks that meet
over a shaped link.

P parameters · H steps between meetings · W bandwidth of a node's port
Inside a node the GPUs share the work: each codes its part of the sums and sends it through the
port of the node, whose bandwidth decides.
"""

import statistics
import time
from collections.abc import Callable
from functools import cache

import torch
import torch.distributed as dist
from torch import Tensor

from mathlib import launch, specs
from mathlib.compute import flops
from mathlib.launch import lab
from mathlib.parallel.plain import compression
from mathlib.plan import rent
from mathlib.schedule import events, programs
from mathlib.schedule.cluster import Cluster, Link
from mathlib.traffic import compressed
from mathlib.trials import links

MODEL = specs.find_model("llama3-8b")
P, NODES, GPUS, TOKENS = MODEL.parameters, 4, 8, 2**20
H100 = specs.find_device("h100-sxm")
DGX = specs.find_cluster("dgx-h100").node_bandwidth  # bytes/s of its eight cards
GBIT = 1e9 / 8  # bytes/s
PORTS = {"1 Gbit/s": GBIT, "10 Gbit/s": 10 * GBIT, "100 Gbit/s": 100 * GBIT}
REACHED = 0.4  # of the peak; an assumption
COMPUTE = 3 * TOKENS / MODEL.context * flops.forward(MODEL, tokens=MODEL.context).total
COMPUTE /= NODES * GPUS * REACHED * H100.flops_per_second("bf16")  # seconds of a step


def matrices() -> list[tuple[int, int]]:
    """Shapes of the model's matrices, which hold all but its norms."""
    h, f, kv = MODEL.width, MODEL.ffn_width, MODEL.kv_heads * MODEL.head_dim
    layer = [(h, h), (h, kv), (h, kv), (h, h), (h, f), (h, f), (f, h)]
    return MODEL.layers * layer + 2 * [(MODEL.vocab, h)]


def sends(name: str, ranks: int = NODES) -> float:
    """Bytes through a node's port in a step on average; "H = 100" is bf16 weights, every 100."""
    if name == "PowerSGD":
        return compressed.low_rank(shapes=matrices(), rank=4, ranks=ranks)
    if name == "top-k":
        return compressed.largest(kept=0.01 * P, ranks=ranks)
    if name.startswith("H = "):
        payload, steps = 2 * P, int(name.removeprefix("H = "))
        return compressed.local_steps(payload=payload, ranks=ranks, steps=steps)["on average"]
    bits = {"fp32": 32, "bf16": 16, "int8": 8, "sign": 1}[name]
    block = compression.BLOCK if bits < 16 else None
    return compressed.coded(numbers=P, ranks=ranks, bits=bits, block=block)


def coding(name: str) -> float:
    """Seconds that a GPU codes its part of a node's sums, by the bytes that the plain file's
    kernels move; bf16 is taken as nothing.
    """
    if name not in links.moved() or name == "fp32":
        return 0.0
    return links.moved()[name] * P / GPUS / H100.memory_bandwidth


NAMES = ("fp32", "bf16", "int8", "sign", "top-k", "PowerSGD", "H = 100")


HIDES = 2 / 3 * COMPUTE  # seconds of sending behind a step's backward


def share(name: str, bandwidth: float, hidden: float = 0.0) -> float:
    """Of the time in which GPUs compute the model, if so many seconds of sending, but not of
    coding, hide behind a step in which the ranks meet.
    """
    H = int(name.removeprefix("H = ")) if name.startswith("H = ") else 1
    idle = max(0.0, H * sends(name) / bandwidth - hidden) + coding(name)
    return compressed.utilization(compute=COMPUTE, sending=idle, steps=H)


def rows() -> list[list[str]]:
    """By name: GB of a step, and by port the share of the time that computes: nothing hidden, and
    as much as backward hides.
    """
    return [
        [
            name,
            f"{sends(name) / 1e9:.2f}",
            *(f"{100 * share(name, W):.0f} / {share(name, W, HIDES):.0%}" for W in PORTS.values()),
        ]
        for name in NAMES
    ]


def pays_below(name: str, hidden: float = 0.0) -> float:
    """Bandwidth of a node's port below which coding pays beside bf16."""
    of = {"full": sends("bf16"), "less": sends(name)}
    return compressed.break_even(**of, seconds=coding(name), hidden=hidden)


def coding_rows() -> list[list[str]]:
    """By code: bytes moved for a number, milliseconds of a GPU, GB/s of a port below which it
    pays if nothing is hidden, and if backward hides sending.
    """
    return [
        [
            name,
            f"{links.moved()[name]:.0f}",
            f"{1e3 * coding(name):.0f}",
            f"{pays_below(name) / 1e9:,.0f}",
            f"{pays_below(name, HIDES) / 1e9:.2f}",
        ]
        for name in links.LOSSY
    ]


def over_ports(names: tuple[str, ...] = NAMES) -> dict[str, list[tuple[float, float]]]:
    """Percent of the time that GPUs compute, over Gbit/s of a port."""
    steps = [10 ** (place / 4) for place in range(15)]  # 1 to 3,162 Gbit/s
    return {name: [(w, 100 * share(name, w * GBIT)) for w in steps] for name in names}


def over_steps(W: float) -> dict[str, list[tuple[float, float]]]:
    """Percent computing over H, of weights in bf16."""
    return {
        "bf16 weights": [
            (float(H), 100 * share(f"H = {H}", W)) for H in (1, 2, 5, 10, 20, 50, 100, 200, 500)
        ]
    }


def halved(name: str = "int8", beside: str = "bf16") -> float:
    """The share of the bandwidth that sends a code in the time of what it replaces."""
    return sends(name) / sends(beside)


def worth(name: str, bandwidth: float, price: float, fast: float = DGX) -> float:
    """What an hour of a GPU behind a slow port may cost at most, if one whose node has all its
    cards sends bf16 at this price; backward hides what it can.
    """
    return rent.even_price(
        price_per_hour=price,
        goodput=share("bf16", fast, HIDES),
        goodput_with_withdrawals=share(name, bandwidth, HIDES),
    )


DEAR, CHEAP = "aws-p5.48xlarge", "hyperstack-h100-sxm"


def rent_rows(names: tuple[str, ...] = ("bf16", "int8", "top-k", "H = 100")) -> list[list[str]]:
    """By what is sent: dollars that an hour behind 10 and 100 Gbit/s may cost beside the dear
    list's price.
    """
    price = rent.find_price(DEAR).on_demand
    return [
        [name, *(f"{worth(name, PORTS[port], price):.2f}" for port in ("10 Gbit/s", "100 Gbit/s"))]
        for name in names
    ]


# Break-even by run: two nodes of one rank, int8, and a nap that stands for coding

NUMBERS, NAP, ROUNDS = 500_000, 0.15, 3
PAYLOAD = 4 * NUMBERS


def bytes_of(name: str) -> float:
    """That a rank of two sends."""
    padded = NUMBERS + -NUMBERS % (2 * compression.BLOCK)
    bits, block, n = (32, None, NUMBERS) if name == "fp32" else (8, compression.BLOCK, padded)
    return compressed.coded(numbers=n, ranks=2, bits=bits, block=block)


def even() -> float:
    """Where both take as long."""
    return compressed.break_even(full=bytes_of("fp32"), less=bytes_of("int8"), seconds=NAP)


def planned(name: str, bandwidth: float) -> float:
    """Seconds by the event model: a ring, or a nap and two passes of codes."""
    cluster = Cluster((1, 1), between=Link(bandwidth))
    if name == "fp32":
        return events.run(programs.ring(payload=PAYLOAD, ranks=2), cluster).total
    each = bytes_of(name) / 2
    both: list[events.Program] = []
    for other in (1, 0):
        sent, came = events.Send(other, each), events.Wait(other)
        both.append([events.Work(NAP), sent, came, sent, came])
    return events.run(both, cluster).total


def _timed() -> dict[str, float]:
    """The median of each way's seconds, in turns."""
    x = torch.randn(NUMBERS, generator=torch.Generator().manual_seed(dist.get_rank()))
    full, coded = compression.Full(), compression.Int8()

    def slept(given: Tensor) -> Tensor:
        time.sleep(NAP)
        return coded(given)

    ways: dict[str, Callable[[Tensor], Tensor]] = {"fp32": full, "int8": slept}
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS + 1):  # the first opens connections
        for name, way in ways.items():
            dist.barrier()
            begin = time.perf_counter()
            way(x)
            found[name].append(time.perf_counter() - begin)
    return {name: statistics.median(took[1:]) for name, took in found.items()}


@cache
def seconds(bandwidth: float, network: str | None = None) -> dict[str, float]:
    """Seconds of each way over a shaped link, of the slower rank."""
    cluster = Cluster((1, 1), between=Link(bandwidth))
    by_rank = launch.run(_timed, cluster=cluster, network=network, timeout=120)
    return {name: max(one[name] for one in by_rank) for name in by_rank[0]}


def cases() -> dict[str, float]:
    """A link that is half of the break-even, and one that is twice."""
    return {"half of it": even() / 2, "twice": 2 * even()}


def even_rows() -> list[list[str]]:
    """By link and what is sent: seconds by the event model, and of the run."""
    return [
        [name, way, f"{planned(way, link):.3f}", f"{seconds(link)[way]:.3f}"]
        for name, link in cases().items()
        for way in ("fp32", "int8")
    ]


def here() -> str:
    """How links are held on this machine."""
    return launch.run(_place, cluster=Cluster((1, 1)))[0]


def _place() -> str:
    return lab.here().place.way
