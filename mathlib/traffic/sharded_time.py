"""One step of ZeRO on two clocks, the rank's and its wire's: what computes while what is sent.

L layers · N ranks · m micro_batches · W bandwidth · alpha latency · K payload: all layers' weights
Layers are equal; the wire carries one message after the other, in the order in which the program
asks for them. As `mathlib.parallel.zero` ask: the next layer's gather before a layer
computes, a layer's gradients when its backward is done.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from mathlib.checks import non_negative, one_of, positive, whole
from mathlib.traffic import comm
from mathlib.traffic.overlap import Span, seconds_of


class Step(NamedTuple):
    """What a rank does, and what its wire does."""

    compute: list[Span]
    wire: list[Span]

    @property
    def seconds(self) -> float:
        """From the begin of forward until the weights of the next step are there."""
        return max(span.end for span in [*self.compute, *self.wire])

    @property
    def computing(self) -> float:
        """Seconds in which the rank computes."""
        return seconds_of(self.compute)

    @property
    def sending(self) -> float:
        """Seconds in which the wire is busy."""
        return seconds_of(self.wire)

    @property
    def exposed(self) -> float:
        """Seconds in which the rank waits."""
        return self.seconds - self.computing

    @property
    def hidden(self) -> float:
        """Share of the communication that runs beside compute."""
        return max(0.0, 1 - self.exposed / self.sending) if self.sending else 0.0


@dataclass
class _Run:
    """A step in flight."""

    stage: int
    layers: int
    forward: float  # seconds of a layer
    backward: float
    head: float
    gather: Callable[[float], float]  # seconds for the bytes of weights
    scatter: Callable[[float], float]
    reduce: Callable[[float], float]
    weights: float  # bytes of a layer
    gradients: float
    outside: tuple[float, float]  # bytes of weights and of gradients in no layer
    prefetch: int
    in_flight: int
    now: float = 0.0
    compute: list[Span] = field(default_factory=list)
    wire: list[Span] = field(default_factory=list)
    arrives: dict[int, float] = field(default_factory=dict)  # gathers asked for
    leaving: list[float] = field(default_factory=list)  # ends of a backward's messages

    def work(self, what: str, seconds: float) -> None:
        if seconds:
            self.compute.append(Span(what, self.now, self.now + seconds))
        self.now += seconds

    def send(self, what: str, seconds: float) -> float:
        """Ask for a message now; it leaves when the wire is free."""
        start = max(self.now, self.wire[-1].end if self.wire else 0.0)
        if seconds:
            self.wire.append(Span(what, start, start + seconds))
        return start + seconds

    def fetch(self, layer: int) -> None:
        """Ask for a layer, unless it has been asked for."""
        if self.stage == 3 and layer not in self.arrives:
            self.arrives[layer] = self.send(f"gather {layer}", self.gather(self.weights))

    def whole(self, layer: int, on: int) -> None:
        """Wait for a layer, and ask for those after it, 1 on or -1."""
        if self.stage < 3:
            return
        self.fetch(layer)
        self.now = max(self.now, self.arrives.pop(layer))
        for n in range(self.prefetch):
            after = layer + on * (n + 1)
            if 0 <= after < self.layers:
                self.fetch(after)

    def leave(self, what: str, seconds: float) -> None:
        """Send gradients; so many messages may be in flight, then the rank waits."""
        if len(self.leaving) >= self.in_flight:
            self.now = max(self.now, self.leaving[-self.in_flight])
        self.leaving.append(self.send(what, seconds))

    def micro_batch(self, last: bool) -> None:
        """Forward and backward."""
        if self.stage == 3:
            self.now = self.send("gather outside", self.gather(self.outside[0]))
        for i in range(self.layers):
            self.whole(i, 1)
            self.work(f"forward {i}", self.forward)
        self.work("head", self.head)
        exchange = self.reduce if self.stage == 0 else self.scatter
        sends = self.stage >= 2 or (self.stage == 0 and last)
        for i in reversed(range(self.layers)):
            self.whole(i, -1)
            self.work(f"backward {i}", self.backward)
            if sends:
                self.leave(f"scatter {i}", exchange(self.gradients))
        if sends:
            self.leave("scatter outside", exchange(self.outside[1]))
            self.now = max(self.now, *self.leaving)
            self.leaving.clear()

    def end(self) -> None:
        """Behind the last backward: stage 1 sends its gradients, 1 and 2 gather the weights."""
        if self.stage == 1:
            own = self.layers * self.gradients + self.outside[1]
            self.now = self.send("scatter", self.scatter(own))
            self.now = self.send(
                "gather", self.gather(self.layers * self.weights + self.outside[0])
            )
        if self.stage == 2:
            for i in range(self.layers):
                self.send(f"gather {i}", self.gather(self.weights))
            self.now = self.send("gather outside", self.gather(self.outside[0]))


def step(
    *,
    stage: int,
    layers: int,
    ranks: int,
    forward: float,
    backward: float,
    weights: float,
    gradients: float = 0.0,
    outside: float = 0.0,
    head: float = 0.0,
    bandwidth: float,
    latency: float = 0.0,
    prefetch: int = 1,
    micro_batches: int = 1,
    in_flight: int = 2,
) -> Step:
    """Time of a step, layer by layer: a message of K_i bytes takes (N-1) alpha +
    K_i (N-1)/(N W), and the rank waits for what it needs and has not got.

    `forward`, `backward`: seconds of all layers and one micro-batch; `head`: those
    between the two; `prefetch`: layers gathered ahead. `weights` and `gradients` (0: as
    many): bytes of all layers; `outside`: bytes of weights that stand in no layer. In
    stage 2 a layer is a bucket, in stage 1 all gradients are one. Held against the
    order in which the program asks and waits.

    Chapter: zero (eq-zero-hide)
    """
    one_of("stage", stage, (0, 1, 2, 3))
    L, N = whole("layers", layers), whole("ranks", ranks)
    W, alpha = positive("bandwidth", bandwidth), non_negative("latency", latency)
    K, rest = positive("weights", weights), non_negative("outside", outside)
    share = (non_negative("gradients", gradients) or K) / K
    takes = partial(_takes, ranks=N, bandwidth=W, latency=alpha)
    run = _Run(
        stage=stage,
        layers=L,
        forward=positive("forward", forward) / L,
        backward=positive("backward", backward) / L,
        head=non_negative("head", head),
        gather=partial(takes, "all-gather"),
        scatter=partial(takes, "reduce-scatter"),
        reduce=partial(takes, "all-reduce"),
        weights=K / L,
        gradients=share * K / L,
        outside=(rest, share * rest),
        prefetch=whole("prefetch", prefetch, least=0),
        in_flight=whole("in_flight", in_flight),
    )
    m = whole("micro_batches", micro_batches)
    for number in range(m):
        run.micro_batch(last=number == m - 1)
    run.end()
    return Step(run.compute, run.wire)


def _takes(collective: str, size: float, **how: Any) -> float:
    """Seconds of a collective over so many bytes."""
    return comm.time(collective, payload=size, **how).total if size else 0.0
