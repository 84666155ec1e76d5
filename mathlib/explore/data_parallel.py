"""The experiment of the data-parallel chapter: buckets on the wire while backward goes on."""

from mathlib.parts import exact_sum
from mathlib.show import says, svg
from mathlib.show.equation import equation
from mathlib.show.experiments import Range, doubling, experiment
from mathlib.traffic import overlap

DRAWN = 100  # buckets that can be told apart
TENSORS = (4, 4, 1, 3)  # a GPT layer's matrices as backward meets them: MLP out, in, attention, QKV


def _stretches(buckets: list[overlap.Span]) -> list[tuple[float, float, str]]:
    """Each bucket with its time on the wire; too many for a picture are joined where one follows
    the other at once.
    """
    if len(buckets) <= DRAWN:
        return [(b.start, b.end, b.what) for b in buckets]
    begins = [i for i, b in enumerate(buckets) if i == 0 or b.start > buckets[i - 1].end]
    ends = [i - 1 for i in begins[1:]] + [len(buckets) - 1]
    names = [
        f"bucket {a} to {z}" if a < z else buckets[a].what
        for a, z in zip(begins, ends, strict=True)
    ]
    return [
        (buckets[a].start, buckets[z].end, what)
        for a, z, what in zip(begins, ends, names, strict=True)
    ]


@experiment(
    "buckets",
    "Hiding the gradients' way behind backward",
    doubling("layers", "Layers", 4, 32, 16),
    doubling("ranks", "Ranks", 2, 1024, 8),
    doubling("megabytes", "Gradients", 16, 16384, 1024, "MB"),
    doubling("bucket", "Bucket size", 1, 16384, 64, "MiB"),
    Range("backward", "Time of backward", 10, 500, 10, 100, "ms"),
    doubling("gigabits", "Link of a rank, one direction", 1, 4096, 256, "Gbit/s"),
    doubling("latency", "Latency of a message", 1, 512, 16, "microseconds"),
    code=(overlap.bucketed,),
)
def buckets(
    layers: int, ranks: int, megabytes: int, bucket: int, backward: int, gigabits: int, latency: int
) -> str:
    K, W, alpha = megabytes * 1e6, gigabits * 1e9 / 8, latency * 1e-6
    step = overlap.bucketed(
        layers=layers,
        ranks=ranks,
        backward=backward / 1e3,
        payload=K,
        bucket=bucket * 2**20,
        bandwidth=W,
        latency=alpha,
        tensors=TENSORS,
    )

    show = says.time
    say = (
        f'<p class="mlx-say">The optimizer waits <b>{show(step.exposed)}</b> after backward. '
        f"{step.hidden:.0%} of the communication is hidden, in {len(step.buckets)} "
        f"bucket{'s' if len(step.buckets) > 1 else ''}.</p>"
    )
    rows = [
        ("backward", [("backward", s.start, s.end, s.what) for s in step.backward]),
        ("wire", [("communication", *stretch) for stretch in _stretches(step.buckets)]),
    ]
    chart = svg.timeline(rows, title="Backward and the wire", show=show, axis_title="time")
    total = exact_sum(s.end - s.start for s in step.buckets)
    law = equation(
        "T = n * 2 * (N - 1) * alpha + 2 * K * (N - 1) / (N * W)",
        T=(total, show(total)),
        n=len(step.buckets),
        N=ranks,
        alpha=(alpha, says.time(alpha)),
        K=(K, f"{megabytes:,} MB"),
        W=(W, says.rate(W)),
    )
    return f"{say}{chart}<p>All messages together:</p>{law}"
