"""What FLOP cost: utilisation, time, devices, energy, CO2, money.

P parameters · D tokens · n devices · X FLOP/s that one device achieves
peak: dense FLOP/s of one device as rated
Seconds and FLOP/s inside; device-hours, kWh and kg where
the name says so, since meters and bills are in these.
"""

import math

from mathlib.checks import InputError, fraction, non_negative, positive, whole
from mathlib.compute import flops
from mathlib.specs import Model
from mathlib.units import show

HOUR = 3600.0


def peak_flops(*, clock: float, fused_per_clock: int, cores: int) -> float:
    """Dense peak of the hardware, FLOP/s: 2 * clock * (fused multiply-adds a core starts each
    clock) * cores.

    Chapter: compute
    """
    return (
        2
        * positive("clock", clock)
        * whole("fused_per_clock", fused_per_clock)
        * whole("cores", cores)
    )


def achieved(*, flop: float, seconds: float, devices: int = 1) -> float:
    """X = FLOP / (n seconds): FLOP/s of one device, whatever one counts as FLOP.

    Chapter: compute
    """
    return positive("flop", flop) / (positive("seconds", seconds) * whole("devices", devices))


def utilization(*, flop: float, seconds: float, devices: int, peak: float) -> float:
    """X / peak.  Model FLOP give MFU, all FLOP the hardware did give HFU (Chowdhery et al. 2022,
    section 4.1).

    Above 1 is refused: no device does more than its peak, so some number is in another unit.

    Chapter: compute (eq-mfu)
    """
    rate = achieved(flop=flop, seconds=seconds, devices=devices)
    if round(rate / positive("peak", peak), 9) > 1:
        raise InputError(
            f"utilization = {rate / peak:.4g}: expected at most 1; a device would do "
            f"{show(rate, 'FLOP/s')} with a peak = {show(peak, 'FLOP/s')}"
        )
    return rate / peak


def mfu(
    model: str | Model,
    *,
    tokens_per_second: float,
    devices: int,
    peak: float,
    tokens: int | None = None,
    causal: bool = False,
) -> float:
    """Model FLOP utilisation from the throughput of all devices together; what is computed again
    does not count.

    Chapter: compute (eq-mfu)
    """
    flop = positive("tokens_per_second", tokens_per_second) * flops.per_token(
        model, tokens=tokens, causal=causal
    )
    return utilization(flop=flop, seconds=1, devices=devices, peak=peak)


def hfu(
    model: str | Model,
    *,
    tokens_per_second: float,
    devices: int,
    peak: float,
    recompute: str,
    tokens: int | None = None,
    causal: bool = False,
    attention_backward: float = 2,
    convention: str = "counted",
) -> float:
    """Hardware FLOP utilisation: `mfu` with every matmul the device does; conventions as in
    `flops.recomputation`.

    Chapter: compute
    """
    one = flops.per_token(
        model,
        tokens=tokens,
        causal=causal,
        attention_backward=attention_backward,
        recompute=recompute,
        convention=convention,
    )
    flop = positive("tokens_per_second", tokens_per_second) * one
    return utilization(flop=flop, seconds=1, devices=devices, peak=peak)


def throughput(*, sequences: int, tokens: int, seconds: float) -> float:
    """Tokens a second of steps of B sequences of s tokens.

    Chapter: compute
    """
    return whole("sequences", sequences) * whole("tokens", tokens) / positive("seconds", seconds)


def training_time(*, flop: float, devices: int, achieved: float) -> float:
    """Seconds = FLOP / (n X).

    Chapter: compute (eq-days)
    """
    together = whole("devices", devices) * positive("achieved", achieved)
    return positive("flop", flop) / together


def shortcut_time(*, parameters: float, tokens: float, devices: int, achieved: float) -> float:
    """8 P D / (n X): seconds of training with full recomputation (Narayanan et al. 2021, equation
    4).

    Attention core and vocabulary are left out: for the paper's ten models 1% (1008B) to 12% (1.7B)
    short of its own equation 3.

    Chapter: compute
    """
    flop = flops.six_nd(parameters=parameters, tokens=tokens, multiplier=8)
    return training_time(flop=flop, devices=devices, achieved=achieved)


def devices_for(*, flop: float, seconds: float, achieved: float) -> int:
    """The fewest devices that finish in time, if each still achieves X when there are that many.

    Chapter: compute
    """
    return math.ceil(
        positive("flop", flop) / (positive("seconds", seconds) * positive("achieved", achieved))
    )


def flop_done(*, devices: int, seconds: float, peak: float, utilization: float) -> float:
    """FLOP = n peak utilisation seconds: a run's compute from its bill.

    Chapter: compute
    """
    n, share = whole("devices", devices), fraction("utilization", utilization)
    return n * positive("peak", peak) * share * positive("seconds", seconds)


def device_hours(*, devices: int, seconds: float) -> float:
    """n seconds / 3600.

    Chapter: compute
    """
    return whole("devices", devices) * positive("seconds", seconds) / HOUR


def energy_kwh(*, device_hours: float, watts: float, pue: float = 1.0) -> float:
    """kWh = device-hours * W * PUE / 1000 (Touvron et al. 2023, section 6).

    PUE, power usage effectiveness: what the data centre draws over what the devices do, 1 or more.

    Chapter: planning
    """
    if positive("pue", pue) < 1:
        raise InputError(
            f"pue = {pue!r}: expected 1 or more (a data centre draws at least what its devices do)"
        )
    return positive("device_hours", device_hours) * positive("watts", watts) * pue / 1000


def co2_kg(*, energy_kwh: float, kg_per_kwh: float) -> float:
    """kg of CO2 equivalent from energy and the grid's intensity (0.385 was the United States' in
    the LLaMA papers).

    Chapter: planning
    """
    return positive("energy_kwh", energy_kwh) * non_negative("kg_per_kwh", kg_per_kwh)


def intensity(*, co2: float, energy_kwh: float) -> float:
    """kg of CO2 for each kWh that a printed mass of CO2 means: `co2_kg` undone.

    Of energy without PUE it is the grid's times PUE: the Llama 3 and 3.1 model cards print
    device-hours, watts and tons, and neither of the two factors.

    Chapter: planning
    """
    return non_negative("co2", co2) / positive("energy_kwh", energy_kwh)


def price(*, device_hours: float, price_per_hour: float) -> float:
    """Money, in the currency of the price of a device-hour.

    Chapter: compute
    """
    return positive("device_hours", device_hours) * non_negative("price_per_hour", price_per_hour)
