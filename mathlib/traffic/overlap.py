"""One data-parallel step on a clock: gradients get ready layer by layer, full buckets leave one
after the other.

L layers · N ranks · K payload of all gradients, bytes · W bandwidth · alpha latency
Backward takes the same time for each layer, and the wire carries one bucket at a time (Li et al.
2020, section 3.2).
"""

from math import ceil
from typing import NamedTuple

from mathlib.checks import positive, whole
from mathlib.traffic import comm


class Span(NamedTuple):
    """Something that takes time."""

    what: str
    start: float  # seconds from the beginning of backward
    end: float


class Step(NamedTuple):
    """Backward and the messages behind it."""

    backward: list[Span]  # a layer each, the last layer first
    buckets: list[Span]

    @property
    def exposed(self) -> float:
        """Seconds that the optimizer waits for the last bucket after backward."""
        return self.buckets[-1].end - self.backward[-1].end

    @property
    def hidden(self) -> float:
        """Share of the communication that runs beside backward."""
        end = self.backward[-1].end
        total = sum(b.end - b.start for b in self.buckets)
        return (
            sum(max(0.0, min(b.end, end) - min(b.start, end)) for b in self.buckets) / total
            if total
            else 0.0
        )


def bucketed(
    *,
    layers: int,
    ranks: int,
    backward: float,
    payload: float,
    bucket: float,
    bandwidth: float,
    latency: float = 0.0,
) -> Step:
    """A bucket leaves when its last gradient is ready and the wire free; each costs 2(N-1) alpha +
    2 K_i (N-1)/(N W).

    The smallest whole number of layers that fills `bucket` bytes goes together; a layer that is
    larger is cut. So the last bucket may be smaller.
    """
    L, bucket = whole("layers", layers), positive("bucket", bucket)
    each, size = positive("backward", backward) / L, positive("payload", payload) / L
    done = [Span(f"layer {L - i}", i * each, (i + 1) * each) for i in range(L)]
    ready: list[tuple[float, float]] = []  # when a bucket is full, and its bytes
    if bucket < size:
        cuts = ceil(size / bucket)
        ready = [(layer.end, min(bucket, size - i * bucket)) for layer in done for i in range(cuts)]
    else:
        together = min(L, ceil(bucket / size))
        for first in range(0, L, together):
            inside = done[first : first + together]
            ready.append((inside[-1].end, size * len(inside)))
    costs = {  # there are thousands of buckets at times, but of few sizes
        held: comm.time(
            "all-reduce", payload=held, ranks=ranks, bandwidth=bandwidth, latency=latency
        ).total
        for held in {held for _, held in ready}
    }
    sent: list[Span] = []
    for full, held in ready:
        start = max(full, sent[-1].end if sent else 0.0)
        sent.append(Span(f"bucket {len(sent)}", start, start + costs[held]))
    return Step(done, sent)
