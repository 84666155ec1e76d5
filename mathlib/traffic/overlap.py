"""One data-parallel step on a clock: gradients get ready one by one, full buckets leave one after
the other.

L layers · N ranks · K payload of all gradients, bytes · W bandwidth · alpha latency
Backward takes the same time for each layer, and for each byte of a layer's tensors; the wire
carries one bucket at a time (Li et al. 2020, section 3.2).
"""

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

from mathlib.checks import InputError, listed, non_negative, positive, whole
from mathlib.parts import exact_sum
from mathlib.traffic import comm


class Span(NamedTuple):
    """Something that takes time."""

    what: str
    start: float  # seconds from the beginning of backward
    end: float


def seconds_of(spans: Iterable[Span]) -> float:
    """Of all of them together."""
    return exact_sum(span.end - span.start for span in spans)


class Step(NamedTuple):
    """Backward and the messages behind it."""

    backward: list[Span]  # a layer each, the last layer first
    buckets: list[Span]

    @property
    def exposed(self) -> float:
        """Seconds that the optimizer waits for the last bucket after backward."""
        return self.buckets[-1].end - self.backward[-1].end

    @property
    def sending(self) -> float:
        """Seconds in which the wire is busy."""
        return seconds_of(self.buckets)

    @property
    def hidden(self) -> float:
        """Share of the communication that runs beside backward."""
        end = self.backward[-1].end
        total = self.sending
        return (
            exact_sum(max(0.0, min(b.end, end) - min(b.start, end)) for b in self.buckets) / total
            if total
            else 0.0
        )


class Gradient(NamedTuple):
    """A tensor's gradient, or a bucket of them."""

    ready: float  # seconds from the beginning of backward
    size: float  # bytes


def _gradients(layers: int, seconds: float, size: float, shares: list[float]) -> list[Gradient]:
    """Those of equal layers, in the order in which backward comes to them."""
    so_far = list(accumulate(shares))
    return [
        Gradient((i + upto / so_far[-1]) * seconds, size * share / so_far[-1])
        for i in range(layers)
        for share, upto in zip(shares, so_far, strict=True)
    ]


def packed(
    *,
    layers: int,
    backward: float,
    payload: float,
    bucket: float,
    first_bucket: float = 0.0,
    tensors: Sequence[float] = (1,),
) -> list[Gradient]:
    """Buckets as DDP packs them: each is closed by the gradient with which it reaches
    `bucket` bytes.

    No tensor is cut, so a bucket may hold more, and the last may hold less.
    `first_bucket`: the limit of the first, 0 for that of the others; PyTorch's defaults
    are 1 MiB and 25 MiB. `tensors`: relative sizes of a layer's tensors as backward
    comes to them; without it a layer is one tensor.

    Chapter: data_parallel
    """
    L, others = whole("layers", layers), positive("bucket", bucket)
    each, size = positive("backward", backward) / L, positive("payload", payload) / L
    shares = [positive("tensors", share) for share in listed("tensors", tensors)]
    if not shares:
        raise InputError(f"tensors = {tensors!r}: expected a size for each tensor")
    limit, found, held = non_negative("first_bucket", first_bucket) or others, [], 0.0
    gradients = _gradients(L, each, size, shares)
    for number, (ready, more) in enumerate(gradients, 1):
        held += more
        full = held >= limit * (1 - 1e-9)  # thirds may add up to 0.99...9
        if full or number == len(gradients):
            found.append(Gradient(ready, held))
            limit, held = others, 0.0
    return found


def bucketed(
    *,
    layers: int,
    ranks: int,
    backward: float,
    payload: float,
    bucket: float,
    bandwidth: float,
    latency: float = 0.0,
    first_bucket: float = 0.0,
    tensors: Sequence[float] = (1,),
) -> Step:
    """A bucket leaves when its last gradient is ready and the wire free; each costs
    2(N-1) alpha + 2 K_i (N-1)/(N W).

    Buckets are those of `packed`, with the same `bucket`, `first_bucket` and `tensors`.

    Chapter: data_parallel
    """
    sent: list[Span] = []
    for ready, held in packed(
        layers=layers,
        backward=backward,
        payload=payload,
        bucket=bucket,
        first_bucket=first_bucket,
        tensors=tensors,
    ):
        cost = comm.time(
            "all-reduce",
            payload=held,
            ranks=ranks,
            bandwidth=bandwidth,
            latency=latency,
        )
        start = max(ready, sent[-1].end if sent else 0.0)
        sent.append(Span(f"bucket {len(sent)}", start, start + cost.total))
    each, L = backward / layers, layers
    done = [Span(f"layer {L - i}", i * each, (i + 1) * each) for i in range(L)]
    return Step(done, sent)
