"""Training runs as reported, brought to the same terms: rate, share of the peak, MFU, HFU.

X FLOP/s of one device · n devices
"""

from mathlib import specs
from mathlib.compute import cost, flops
from mathlib.records import dataclass, field


@dataclass(frozen=True)
class ReportedRun:
    """One reported run; a rate or a throughput, whichever the source gives."""

    name: str
    device: str  # a name in devices.toml
    devices: int
    model: str = ""  # a name in models.toml; empty where the source's shape is not ours to recount
    rate: float = 0.0  # X, as reported
    counts: str = "model"  # which FLOP the rate counts: model, hardware, unsaid
    tokens_per_second: float = 0.0  # of all devices together
    recompute: str = "unsaid"
    mfu: float = 0.0  # as printed, where `counts` is unsaid; 0 where nobody prints it
    hfu: float = 0.0  # as the source prints it; 0 where it does not
    rated: float = 0.0  # the peak as the source has it, where its device is clocked otherwise
    tokens: float = 0.0  # so many in `seconds`, as printed; 0 where the source has no time
    seconds: float = 0.0
    source: str = field(default="", compare=False)
    date: str = field(default="", compare=False)

    @property
    def peak(self) -> float:
        return self.rated or specs.find_device(self.device).half

    @property
    def executed_over_needed(self) -> float | None:
        """Hardware FLOP over model FLOP, or None where the source does not say what was computed
        twice.
        """
        if self.recompute == "unsaid":
            return None
        return (
            flops.training(self.model, recompute=self.recompute).total
            / flops.training(self.model).total
        )


def names() -> list[str]:
    """All runs, in the order of the data file.

    Chapter: compute
    """
    return list(specs.table("runs"))


def find_run(name: str) -> ReportedRun:
    """A run by its name in runs.toml.

    Chapter: compute
    """
    return specs.row_as(ReportedRun, "runs", name, called="run")


def utilizations(run_: ReportedRun) -> dict[str, float | None]:
    """ "of peak" as reported, "mfu", "hfu"; None where the source leaves open what it counted.

    Chapter: compute
    """
    shown: dict[str, float | None] = {
        "of peak": run_.rate / run_.peak if run_.rate else None,
        "mfu": run_.mfu or None,
    }
    shown["hfu"] = run_.hfu or None
    more = run_.executed_over_needed
    if run_.tokens_per_second:
        shown["mfu"] = cost.mfu(
            run_.model,
            tokens_per_second=run_.tokens_per_second,
            devices=run_.devices,
            peak=run_.peak,
        )
    elif run_.counts == "hardware" and more:
        shown["mfu"] = run_.rate / run_.peak / more
    elif run_.counts == "model":
        shown["mfu"] = run_.rate / run_.peak
    if shown["mfu"] and more:
        shown["hfu"] = shown["mfu"] * more
    return shown
