"""The experiment of the data-parallel chapter: buckets on the wire while backward goes on."""

from collections.abc import Sequence

from mathlib.show import says, svg
from mathlib.show.equation import Number, equation
from mathlib.show.experiments import Choice, Range, doubling, experiment
from mathlib.traffic import overlap

DRAWN = 100  # buckets that can be told apart
BUCKETS = (1, 8, 20, 25, 40, 64, 100, 128, 200, 256, 512, 1024, 2048)  # MiB; PyTorch's is 25
LINKS = (1, 2, 4, 8, 12, 25, 50, 100, 200, 400)  # GB/s
TENSORS = (4, 4, 1, 3)  # a GPT layer's matrices as backward meets them: MLP out, in, attention, QKV


def _stops(name: str, label: str, stops: Sequence[int], default: int, unit: str) -> Choice:
    """A slider over the numbers that are met, in steps that are not equal."""
    options = tuple((f"{stop:,} {unit}", stop) for stop in stops)
    return Choice(name, label, options, default, slider=True)


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
    "Hide communication behind backward",
    _stops("bucket", "Bucket size", BUCKETS, 25, "MiB"),
    _stops("gigabytes", "Link of a rank, one direction", LINKS, 50, "GB/s"),
    doubling("ranks", "Ranks", 2, 1024, 64),
    _stops("latency", "Latency of a round", (1, 2, 5, 10, 20, 50, 100, 200, 500), 20, "µs"),
    _stops("megabytes", "Gradients", (20, 50, 100, 200, 500, 1000, 2000, 5000), 2000, "MB"),
    Range("backward", "Time of backward", 10, 500, 10, 100, "ms"),
    doubling("layers", "Layers", 4, 64, 32),
    code=(overlap.packed, overlap.bucketed),
)
def buckets(
    bucket: int,
    gigabytes: int,
    ranks: int,
    latency: int,
    megabytes: int,
    backward: int,
    layers: int,
) -> str:
    alpha = latency * 1e-6
    step = overlap.bucketed(
        layers=layers,
        ranks=ranks,
        backward=backward / 1e3,
        payload=megabytes * 1e6,
        bucket=bucket * 2**20,
        bandwidth=gigabytes * 1e9,
        latency=alpha,
        tensors=TENSORS,
    )

    show = says.time
    say = (
        f'<p class="mlx-say">The optimizer waits <b>{show(step.exposed)}</b> after backward. '
        f"{step.hidden:.0%} of the communication is hidden, in {len(step.buckets)} "
        f"bucket{'s' if len(step.buckets) > 1 else ''} of whole matrices.</p>"
    )
    work = [("backward", s.start, s.end, s.what) for s in step.backward]
    end = work[-1][2]
    rows = [
        ("rank", [*work, ("idle", end, end + step.exposed, "the optimizer waits")]),
        ("wire", [("communication", *stretch) for stretch in _stretches(step.buckets)]),
    ]
    chart = svg.timeline(rows, title="Backward and the wire", show=show, axis_title="time")
    total = show(step.sending)
    rest = (
        f"<p>All buckets together, hidden or not, take {total} on the wire: latency, and bytes.</p>"
    )
    latencies = _latency_law(len(step.buckets), ranks, alpha)
    return f"{say}{chart}{rest}{latencies}{_bytes_law(megabytes, ranks, gigabytes)}"


def _latency_law(n: int, N: int, alpha: float) -> str:
    """What n all-reduces wait in their rounds."""
    T = 2 * n * (N - 1) * alpha
    numbers: dict[str, Number] = {"n": n, "N": N, "alpha": (alpha, says.time(alpha))}
    return equation("T_latency = 2 * n * (N - 1) * alpha", T_latency=(T, says.time(T)), **numbers)


def _bytes_law(megabytes: int, N: int, gigabytes: int) -> str:
    """What their bytes take, however they are cut."""
    K, W = megabytes * 1e6, gigabytes * 1e9
    T = 2 * K * (N - 1) / (N * W)
    return equation(
        "T_bytes = 2 * K * (N - 1) / (N * W)",
        T_bytes=(T, says.time(T)),
        K=(K, f"{megabytes:,} MB"),
        N=N,
        W=(W, f"{gigabytes} GB/s"),
    )
