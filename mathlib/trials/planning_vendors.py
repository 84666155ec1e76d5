"""AMD's GPUs beside Nvidia's: three pairs of publications, by data sheet and by speed."""

from typing import NamedTuple

from mathlib.compute import vendors
from mathlib.specs import find_device

MOSAIC = 0.73  # speed of an MI250 by that of an A100 with 80 GB, same code: mosaicml2023amd
APART = 0.06  # at most, of a B200's time, by an MI355X in MLPerf Training 6.0: amd2026
NEWER = 1.13  # an MI250 with ROCm 5.7 and FlashAttention-2, beside itself four months before
RUNS = (
    ("GPT 175B, MI250X", "GPT 175B, A100"),
    ("Llama 3 8B, 8 MI300X", "Llama 3 8B, 8 H100"),
)


class Pair(NamedTuple):
    """Multiples of the other maker's."""

    title: str
    peak: float
    bandwidth: float
    memory: float
    speed: float  # FLOP/s delivered

    @property
    def of_peak(self) -> float:
        return self.speed / self.peak


def pairs() -> list[Pair]:
    found = [_pair("mi250", "a100-80gb", MOSAIC)]
    for runs in RUNS:
        one, two = map(vendors.find_measured, runs)
        speed = vendors.gap(first=runs[0], second=runs[1])["delivered"]
        found.append(_pair(one.device, two.device, speed))
    return found


def _pair(device: str, other: str, speed: float) -> Pair:
    sheet = vendors.beside(device=device, other=other)
    title = " and ".join(find_device(name).title.split(" ")[0] for name in (device, other))
    return Pair(title, sheet["peak"], sheet["memory bandwidth"], sheet["memory"], speed)
