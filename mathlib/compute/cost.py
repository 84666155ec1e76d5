"""What FLOP cost: utilisation, time, devices, energy, CO2, money.

P parameters · D tokens · n devices · X FLOP/s that one device achieves
peak: dense FLOP/s of one device as rated
Seconds and FLOP/s inside; device-hours, kWh and kg where
the name says so, since meters and bills are in these.
"""

import math
from collections.abc import Collection, Iterable

from mathlib.checks import InputError, fraction, listed, non_negative, positive, quotient, whole
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
    """Hardware FLOP utilisation: `mfu` with every product the device does; conventions as in
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


def throughput_gain(*, before: float, after: float) -> float:
    """before / after - 1: how much more work a second, when a step takes `after` instead of
    `before` seconds.

    Chapter: compute
    """
    return positive("before", before) / positive("after", after) - 1


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


def time_for_tokens(*, tokens: float, tokens_per_second: float) -> float:
    """Seconds at a known throughput of all devices together.

    Chapter: compute
    """
    return positive("tokens", tokens) / positive("tokens_per_second", tokens_per_second)


def rescaled_time(*, seconds: float, work: float = 1, devices: float = 1) -> float:
    """A known time for `work` times the FLOP on `devices` times the devices, at the same FLOP/s of
    each.

    Chapter: compute
    """
    return positive("seconds", seconds) * positive("work", work) / positive("devices", devices)


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


def wall_time(*, device_hours: float, devices: int) -> float:
    """Seconds on the wall clock that a bill of device-hours means on n devices.

    Chapter: planning
    """
    return positive("device_hours", device_hours) * HOUR / whole("devices", devices)


def total_hours(device_hours: Collection[float]) -> float:
    """Device-hours of several runs or phases together.

    Chapter: planning
    """
    if (
        isinstance(device_hours, str)
        or not isinstance(device_hours, Collection)
        or not device_hours
    ):
        raise InputError(f"device_hours = {device_hours!r}: expected a list of numbers of hours")
    return sum(non_negative(f"device_hours[{i}]", hours) for i, hours in enumerate(device_hours))


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


def streaming_time(*, size: float, bandwidth: float, devices: int = 1) -> float:
    """Seconds to read `size` bytes once, spread over n devices of `bandwidth` bytes/s each.

    The least a decoding step can take: it reads every weight and the whole cache (Pope et al. 2022,
    section 2).

    Chapter: inference
    """
    return positive("size", size) / (positive("bandwidth", bandwidth) * whole("devices", devices))


def global_batch(
    *,
    world: int,
    per_replica: int,
    tensor: int = 1,
    pipeline: int = 1,
    context: int = 1,
    micro_batches: int = 1,
) -> int:
    """Sequences of one step: (world / (t p c)) * b * m. Sharding does not enter: shards see
    different data.

    Chapter: planning
    """
    data = quotient("world", world, {"tensor": tensor, "pipeline": pipeline, "context": context})
    return data * whole("per_replica", per_replica) * whole("micro_batches", micro_batches)


def batch_tokens(*, tokens: int, **batch: int) -> int:
    """Tokens of one step: sequences of `global_batch` times the length of a sequence.

    Chapter: planning
    """
    return whole("tokens", tokens) * global_batch(**batch)


def scheduled_tokens(schedule: Iterable[tuple[int, int]], tokens: int) -> int:
    """Tokens of a run whose batch grows: s * sum of batch * steps over the schedule's rows (batch,
    steps).

    Chapter: planning
    """
    rows = [listed("schedule", row) for row in listed("schedule", schedule)]
    if not rows or any(len(row) != 2 for row in rows):
        raise InputError(
            f"schedule = {schedule!r}: expected rows of a batch and its steps, such as [(512, "
            "50000)]"
        )
    return whole("tokens", tokens) * sum(
        whole("schedule", b) * whole("schedule", n) for b, n in rows
    )
