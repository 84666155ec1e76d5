"""Data parallelism on a cluster that can only be computed: how large buckets should be, and how
many ranks pay off.

N ranks · P parameters · K bytes of gradients
The step is `overlap.packed`; what an all-reduce takes is what NCCL's own model charges. Sending
does not slow backward, which takes as long for each byte of gradients.
"""

from typing import Any

from mathlib import specs
from mathlib.traffic import nccl, overlap, volumes

H100 = specs.find_device("h100-sxm")
CARD = specs.find_cluster("dgx-h100").node_bandwidth / 8  # bytes/s of a GPU's network card
NVLINK = nccl.published()["H100, ring, 8 ranks"].busbw  # as reached by rings in a node
SWITCH = nccl.published()["H100, switch, 8 ranks"].algbw * 7 / 4  # counted as a ring's bytes
RATE = 0.4  # of the peak
LAYERS: dict[str, Any] = {"layers": 32, "tensors": (4, 4, 1, 3)}  # a layer's, as backward comes
DEFAULT: dict[str, float] = {"bucket": 25 * 2**20, "first_bucket": 2**20}  # PyTorch's, bytes
P, BATCH, SEQUENCE = 1e9, 2**19, 2048  # of the run of many ranks: parameters, tokens
UPDATE = 28 * P / H100.memory_bandwidth  # seconds: AdamW in fp32 reads 16 bytes and writes 12


def speed(rate: float = RATE) -> float:
    """FLOP/s of a rank."""
    return rate * H100.flops_per_second("bf16")


def _placed(payload: float, nodes: int, per_node: int) -> dict[str, Any]:
    links = {"link_bandwidth": NVLINK, "node_bandwidth": per_node * CARD}
    return {"payload": payload, "nodes": nodes, "devices_per_node": per_node, **links}


def charged(payload: float, nodes: int, per_node: int = 8, plain: bool = False) -> float:
    """Seconds of an all-reduce as NCCL chooses it, or in plain rings."""
    given = _placed(payload, nodes, per_node)
    if plain:
        return nccl.time("ring", protocol="Simple", **given).total
    return nccl.fastest(**given)[1].total


def chosen(payload: float, nodes: int, per_node: int = 8) -> str:
    """How NCCL would sum: ring, tree, NVLS (the switch of a node), by its own model."""
    return nccl.fastest(**_placed(payload, nodes, per_node))[0].split()[0]


def exposed(limits: dict[str, Any], backward: float, payload: float, **how: Any) -> float:
    """Seconds that the optimizer waits for the last bucket."""
    end = 0.0
    for bucket in overlap.packed(**LAYERS, backward=backward, payload=payload, **limits):
        end = max(end, bucket.ready) + charged(bucket.size, **how)
    return end - backward


# How large a bucket should be: 2 GB of gradients, 100 ms of backward, 64 GPUs

MACHINES: dict[str, dict[str, Any]] = {
    "one GPU a node, plain rings": {"nodes": 64, "per_node": 1, "plain": True},
    "one GPU a node": {"nodes": 64, "per_node": 1},
    "eight GPUs a node": {"nodes": 8},
}
SIZES = (25, 60, 120, 180, 240, 360, 480, 660, 950, 4000)  # MiB


def waits(how: dict[str, Any]) -> dict[int, float]:
    """Seconds that stay exposed, by the size of a bucket in MiB; 25 is PyTorch's default."""
    found = {}
    for size in SIZES:
        limits = DEFAULT if size == 25 else {"bucket": size * 2**20}
        found[size] = exposed(limits, backward=0.1, payload=2e9, **how)
    return found


def bucket_rows() -> list[list[str]]:
    """By machine, ms that stay exposed: by default, at best and with which size, in one bucket."""
    rows = []
    for name, how in MACHINES.items():
        found = {size: f"{1e3 * seconds:.3g}" for size, seconds in waits(how).items()}
        best = min(found, key=lambda size: float(found[size]))
        rows.append([name, found[25], found[best], f"{best} MiB", found[SIZES[-1]]])
    return rows


# How many ranks pay off: a batch of half a million tokens


def tokens(bandwidth: float, ranks: int, e: float = 4) -> float:
    """Tokens of a rank behind whose backward the bytes of the gradients hide."""
    return volumes.overlap_tokens(
        flops_per_second=speed(), bandwidth=bandwidth, data=ranks, gradient_bytes=e
    )


def enough() -> dict[str, float]:
    """The same by link; NCCL lays a ring through each card, and NVLink sets the pace."""
    return {
        "NVLink, rings of 8 ranks": tokens(NVLINK, 8),
        "NVLink's switch, 8 ranks": tokens(SWITCH, 8),
        "8 cards of 400 Gbit/s a node, 64 ranks": tokens(min(8 * CARD, NVLINK), 64),
        "one card of 400 Gbit/s, 64 ranks": tokens(CARD, 64),
        "one card of 100 Gbit/s, 64 ranks": tokens(CARD / 4, 64),
    }


def as_printed(parameters: float, ranks: int = 64) -> tuple[float, float]:
    """Tokens that hide gradients of 2 bytes at the peak: as a playbook prints it, and derived."""
    peak, share = speed(1), (ranks - 1) / ranks
    derived = volumes.overlap_tokens(flops_per_second=peak, bandwidth=CARD, data=ranks)
    return parameters / 2 * share * peak / CARD, derived


def kept(
    ranks: int, e: float = 4, size: float = 25, send: bool = True, rate: float = RATE
) -> float:
    """Scaling efficiency of so many ranks: compute over compute, waiting and update."""
    token = P / ranks * BATCH / speed(rate)  # seconds of a FLOP for each parameter and token
    limits = DEFAULT if size == 25 else {"bucket": size * 2**20}
    wait = exposed(limits, 4 * token, e * P, nodes=ranks // 8) if send else 0.0
    return 6 * token / (6 * token + wait + UPDATE)


COUNTS = (8, 16, 32, 64, 128, 256)


def shares() -> dict[str, list[tuple[float, float]]]:
    """By what is sent, `kept` in percent over the number of ranks."""
    ways: dict[str, dict[str, Any]] = {"the update alone": {"send": False}}
    ways |= {"gradients of 2 bytes": {"e": 2}, "gradients of 4 bytes": {}}
    found = {name: [(float(n), 100 * kept(n, **how)) for n in COUNTS] for name, how in ways.items()}
    return {f"{name}: {points[-1][1]:.0f}%": points for name, points in found.items()}
