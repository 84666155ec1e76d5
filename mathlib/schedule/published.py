"""Steps of real pipelines, as their authors timed them, with what is needed to predict them.

p stages · m micro_batches · v chunks a stage
F forward · I backward for the gradient of the input · W gradient of the weights
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from mathlib import specs
from mathlib.checks import one_of
from mathlib.schedule.times import Times


@dataclass(frozen=True)
class PublishedStep:
    """One model on one number of stages, by several orders (data/pipelines.toml)."""

    name: str
    stages: int
    micro_batches: int
    samples: Mapping[str, float] = field(hash=False)  # per device and second, by order
    bubbles: Mapping[str, float] = field(hash=False, default_factory=dict)  # as computed by them
    chunks: int = 1  # of a stage, where it was interleaved
    shape: Mapping[str, int] = field(hash=False, default_factory=dict)  # of the model
    forward: float = 0.0  # milliseconds of a micro-batch on a stage; 0: not printed
    inputs: float = 0.0
    weight: float = 0.0
    message: float = 0.0

    def gain(self, order: str, over: str = "1f1b") -> float:
        """By how much one order was quicker than another: 0.1 for ten per cent."""
        rates = self.samples
        return rates[one_of("order", order, rates)] / rates[one_of("over", over, rates)] - 1

    def times(self, *, blocking: bool = False) -> Times:
        """What the authors profiled, for the simulator."""
        return Times(
            forward=self.forward,
            backward=self.inputs + self.weight,
            weight=self.weight,
            message=self.message,
            blocking=blocking,
        )


def published() -> dict[str, PublishedStep]:
    """Every step of data/pipelines.toml by its name (Qi et al. 2024, Tables 3 to 6, 9 and 10).

    Chapter: schedules
    """
    return {name: PublishedStep(name=name, **row) for name, row in specs.table("pipelines").items()}
