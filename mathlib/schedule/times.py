"""How long actions and messages take, in seconds or in any unit of your own.

p stages · v chunks a stage

A number for `forward` and the like is what a stage takes for one micro-batch, through all its
chunks together; a list has a number for each chunk of the model instead.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mathlib.checks import InputError, flag, listed, non_negative, positive, whole
from mathlib.schedule.actions import KINDS, Schedule

Each = float | Sequence[float]


@dataclass(frozen=True)
class Times:
    """What a simulation needs to know; the defaults are a forward of 1, a backward of 2 and
    messages that cost nothing.
    """

    forward: Each = 1.0
    backward: Each = 2.0  # whole: for the input and for the weights
    weight: Each | None = None  # that part of it which is for the weights; None: half
    recompute: bool | Sequence[bool] = False  # another forward before B or I; a list: by chunk
    slow: Mapping[int, float] = field(default_factory=dict)  # stages that take so many times longer
    message: float = 0.0  # from the end of the sending to the arrival: latency
    size: float = 0.0  # bytes of a message
    bandwidth: float = 0.0  # bytes a second of a link, each direction its own; 0: no limit
    blocking: bool = False  # a stage goes on only when its message has arrived

    def __post_init__(self) -> None:
        for name in ("forward", "backward", "weight"):
            value = getattr(self, name)
            if isinstance(value, Sequence) and not isinstance(value, str):
                for one in value:
                    non_negative(name, one)
            elif value is not None or name != "weight":
                non_negative(name, value)
        for one in self.recompute if isinstance(self.recompute, Sequence) else [self.recompute]:
            flag("recompute", one)
        if not isinstance(self.slow, Mapping):
            raise InputError(f"slow = {self.slow!r}: expected factors by stage, such as {{2: 1.5}}")
        for stage, factor in self.slow.items():
            whole("slow", stage, least=0)
            positive(f"slow[{stage}]", factor)
        for name in ("message", "size", "bandwidth"):
            non_negative(name, getattr(self, name))
        flag("blocking", self.blocking)

    @property
    def sending(self) -> float:
        """Seconds that a message keeps its link busy: bytes / bandwidth."""
        return self.size / self.bandwidth if self.bandwidth else 0.0

    @property
    def links(self) -> bool:
        """Whether messages take time at all."""
        return bool(self.message or self.sending)

    def of(self, schedule: Schedule) -> list[dict[str, list[float]]]:
        """Seconds of an action: [stage][kind][chunk]."""
        wrong = [s for s in self.slow if s >= schedule.stages]
        if wrong:
            raise InputError(f"slow = {self.slow}: expected stages 0 to {schedule.stages - 1}")
        every = list(self._chunks(schedule))
        factors = [self.slow.get(s, 1.0) for s in range(schedule.stages)]
        return [{kind: [k * one[kind] for one in every] for kind in KINDS} for k in factors]

    def _chunks(self, schedule: Schedule) -> Iterator[dict[str, float]]:
        """Seconds of each kind of action on each chunk, were no stage slow."""
        forward, backward = self._each("forward", schedule), self._each("backward", schedule)
        weight = (
            [b / 2 for b in backward] if self.weight is None else self._each("weight", schedule)
        )
        again = self._each("recompute", schedule)
        for f, b, w, more in zip(forward, backward, weight, again, strict=True):
            if w > b:
                raise InputError(f"weight = {w}: is part of backward = {b}; expected at most that")
            back = b + f * bool(more)
            yield {"F": f, "B": back, "I": back - w, "W": w}

    def _each(self, name: str, schedule: Schedule) -> list[float]:
        """A number for each chunk of the model: its own, or a stage's, divided evenly."""
        value, n = getattr(self, name), schedule.model_chunks
        if not isinstance(value, Sequence):
            return [value if name == "recompute" else value * schedule.stages / n] * n
        if len(value) != n:
            raise InputError(f"{name} = {value!r}: expected one for each chunk of the model, {n}")
        return listed(name, value)
