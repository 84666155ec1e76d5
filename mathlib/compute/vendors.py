"""Two makers' devices beside each other: what data sheets say, and what runs get out of them."""

from mathlib.checks import InputError, one_of
from mathlib.compute import cost
from mathlib.records import dataclass, field
from mathlib.specs import find_device, row_as, table


@dataclass(frozen=True)
class Measured:
    """A run on one maker's devices, by tokens or by its share of the peak."""

    name: str
    device: str  # a name in devices.toml
    devices: int
    model: str  # a name in models.toml
    tokens: int = 0  # of a sequence
    tokens_per_second: float = 0.0  # of one device
    share: float = 0.0  # of the peak, as printed
    counts: str = "unsaid"  # which FLOP the share counts
    source: str = field(default="", compare=False)
    date: str = field(default="", compare=False)

    @property
    def of_peak(self) -> float:
        """Share of the data sheet's peak: as printed, or counted from the tokens."""
        if self.share:
            return self.share
        peak = find_device(self.device).half
        rate = self.tokens_per_second
        return cost.mfu(
            self.model, tokens_per_second=rate, devices=1, peak=peak, tokens=self.tokens
        )

    @property
    def rate(self) -> float:
        """FLOP/s of one device."""
        return self.of_peak * find_device(self.device).half


def measured() -> list[str]:
    """All runs, in the order of the data file.

    Chapter: planning
    """
    return list(table("vendors"))


def find_measured(name: str) -> Measured:
    """A run by its name in vendors.toml.

    Chapter: planning
    """
    return row_as(Measured, "vendors", name, called="measured")


def beside(*, device: str, other: str) -> dict[str, float]:
    """How many times the other's each figure of a device's data sheet is.

    "peak" of 16-bit matmuls, "peak per watt", "memory", "memory bandwidth", "link bandwidth".

    Chapter: planning
    """
    one, two = find_device(device), find_device(one_of("other", other, table("devices")))
    for name, each in (("device", one), ("other", two)):
        if not each.power:
            raise InputError(f"{name} = {each.name!r}: its maker publishes no power")
    return {
        "peak": one.half / two.half,
        "peak per watt": one.half / one.power / (two.half / two.power),
        "memory": one.memory / two.memory,
        "memory bandwidth": one.memory_bandwidth / two.memory_bandwidth,
        "link bandwidth": one.link_bandwidth / two.link_bandwidth,
    }


def gap(*, first: str, second: str) -> dict[str, float]:
    """What the first run's devices promise and deliver, in times of the second's: "promised" by the
    peaks, "delivered" in FLOP/s of a device, and "software", the quotient of the two.

    Chapter: planning
    """
    one, two = find_measured(first), find_measured(second)
    if one.model != two.model:
        raise InputError(f"second = {second!r}: expected a run of {one.model}, as the first")
    promised = find_device(one.device).half / find_device(two.device).half
    delivered = one.rate / two.rate
    return {"promised": promised, "delivered": delivered, "software": delivered / promised}
