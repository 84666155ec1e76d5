"""What a rented job costs when devices fail, and when their owner takes them back (spot).

n devices · seconds and device-hours; money in the currency of the price
"""

from mathlib.checks import fraction, keep_title, non_negative, one_of, positive
from mathlib.compute.cost import HOUR
from mathlib.parts import Parts
from mathlib.plan.goodput import shares
from mathlib.records import dataclass, field
from mathlib.specs import row_as, table


@dataclass(frozen=True)
class Price:
    """What an hour of a device cost on the day when a list was read, in USD."""

    name: str
    device: str  # a name in devices.toml
    on_demand: float  # by the hour, nothing promised
    reserved: float = 0  # with a contract, the least of the list; 0: no list has it
    spot: float = 0  # for devices that may be taken back; 0: no list has it
    source: str = field(default="", compare=False)
    date: str = field(default="", compare=False)
    title: str = field(default="", compare=False)  # whose, and what people call it; "": the name

    def __post_init__(self) -> None:
        keep_title(self)
        one_of("device", self.device, table("devices"))
        positive("on_demand", self.on_demand)
        for name in ("reserved", "spot"):
            non_negative(name, getattr(self, name))

    @property
    def modes(self) -> dict[str, float]:
        """Those that the list has."""
        each = {"on demand": self.on_demand, "reserved": self.reserved, "spot": self.spot}
        return {mode: paid for mode, paid in each.items() if paid}


def find_price(name: str) -> Price:
    """A price by its name in prices.toml.

    Chapter: planning
    """
    return row_as(Price, "prices", name, called="name")


def either(*, device_time_between_failures: float, device_time_between_withdrawals: float) -> float:
    """Seconds until one device fails or is taken back: 1 / (1/F + 1/F_w).

    Chapter: planning
    """
    failures = positive("device_time_between_failures", device_time_between_failures)
    taken = positive("device_time_between_withdrawals", device_time_between_withdrawals)
    return 1 / (1 / failures + 1 / taken)


def paid(
    *,
    device_hours: float,
    devices: int,
    device_time_between_failures: float,
    time_per_save: float,
    time_per_failure: float,
    device_time_between_withdrawals: float = 0.0,
) -> Parts:
    """Device-time that is paid for a job which takes so many device-hours when nothing happens.

    device_time_between_withdrawals: of a spot device, by the provider; 0: nobody takes them back.
    A withdrawal stops the job as a failure does, and costs as much. A node that goes as a whole
    counts once: one withdrawal in 8 devices' time.

    Chapter: planning
    """
    between = positive("device_time_between_failures", device_time_between_failures)
    if non_negative("device_time_between_withdrawals", device_time_between_withdrawals):
        between = either(
            device_time_between_failures=between,
            device_time_between_withdrawals=device_time_between_withdrawals,
        )
    second = shares(
        devices=devices,
        device_time_between_failures=between,
        time_per_save=time_per_save,
        time_per_failure=time_per_failure,
    )
    needed = positive("device_hours", device_hours) * HOUR
    return second.scaled(needed / second.amount("compute"), title="Device-time that is paid")


def even_price(*, price_per_hour: float, goodput: float, goodput_with_withdrawals: float) -> float:
    """The price of a device-hour at which devices that may be taken back cost a job as much as
    reserved ones at theirs: price goodput_with_withdrawals / goodput.

    Chapter: planning
    """
    ratio = fraction("goodput_with_withdrawals", goodput_with_withdrawals) / fraction(
        "goodput", goodput
    )
    return positive("price_per_hour", price_per_hour) * ratio


def even_goodput(*, price_per_hour: float, spot_price_per_hour: float) -> float:
    """The share of their goodput that devices at a spot price must keep to cost a job no more than
    at the other price: `even_price` the other way round. Above 1: they never do.

    Chapter: planning
    """
    other = positive("price_per_hour", price_per_hour)
    return positive("spot_price_per_hour", spot_price_per_hour) / other
