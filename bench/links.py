"""Three ways to use four ranks, over links of three speeds: data parallelism (its gradients in one
message after backward, or hidden behind it by DDP), tensor parallelism, and a pipeline.

Layers sleep, each way a quarter of them on every rank, and the kernel holds what a rank sends. So
a step is as long as naps and wire make it, and what a way adds to that is its own. The kernel lets
a message of a single packet go at once, as a pipeline's are: there the sender pauses instead.
"""

from collections.abc import Callable, Iterator
from functools import partial

import rounds
import torch
import torch.distributed as dist
from torch import Tensor, nn

from mathlib import launch
from mathlib.launch import slow_wires
from mathlib.launch.slow_ranks import Sleep
from mathlib.model import data, gpt
from mathlib.model.oracle import flat_gradient, loss, my_part
from mathlib.parallel.pipeline import model_chunks
from mathlib.parallel.pipeline.runtime import Pipeline
from mathlib.parallel.plain import tensor
from mathlib.schedule import orders
from mathlib.schedule.times import Times

RANKS, MICRO_BATCHES, SEQUENCES = 4, 8, 16
NAP = 0.05  # seconds: a layer's forward, a quarter of it; backward takes twice as long
LINKS = (20e6, 3e6, 1e6)  # bytes a second
SHAPE = gpt.small(layers=8, width=64, context=32, vocab=len(data.vocabulary()), tied=False)
BUCKET = 0.2  # MB: about a layer's gradients
Step = Callable[[], object]


def rest(module: nn.Module, given: tuple, y: Tensor) -> Tensor:
    return Sleep.apply(y, NAP)


def resting(model: gpt.GPT) -> gpt.GPT:
    for block in model.blocks:
        block.register_forward_hook(rest)
    return model


def by_data() -> Step:
    model, mine = resting(gpt.GPT(SHAPE)), my_part(data.batch(SEQUENCES, SHAPE.context))
    return lambda: (
        model.zero_grad(),
        loss(model, *mine).backward(),
        dist.all_reduce(flat_gradient(model)),
    )


def by_data_hidden() -> Step:
    model, mine = resting(gpt.GPT(SHAPE)), my_part(data.batch(SEQUENCES, SHAPE.context))
    outer = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=BUCKET)
    return lambda: loss(outer, *mine).backward()


def by_tensor() -> Step:
    model = resting(tensor.cut(gpt.GPT(SHAPE)))
    return lambda: loss(model, *data.batch(SEQUENCES, SHAPE.context)).backward()


def by_pipeline() -> Step:
    schedule = orders.make("1f1b", stages=RANKS, micro_batches=MICRO_BATCHES)
    chunks = model_chunks.build(SHAPE, schedule, dist.get_rank())
    pace = Times(forward=NAP, backward=2 * NAP)
    pipe = Pipeline(chunks, schedule, torch.optim.SGD, width=SHAPE.width, pace=pace)
    return lambda: pipe.run(*data.batch(SEQUENCES, SHAPE.context))


WAYS = {"data": by_data, "data, hidden": by_data_hidden, "tensor": by_tensor}
WAYS["pipeline"] = by_pipeline
BY = {"pipeline": "program"}  # who holds a link; else the kernel


def race(link: float, count: int) -> rounds.Times:
    """Every way over one link, in turns."""
    steps = {way: make() for way, make in WAYS.items()}
    for step in steps.values():  # opens connections, which are then held
        step()

    def held(way: str) -> None:
        with slow_wires.wires(bandwidth=link, by=BY.get(way, "kernel")):
            steps[way]()
            dist.barrier()

    return rounds.on_ranks({way: partial(held, way) for way in WAYS}, count, warm_up=1)


def rows(quick: bool) -> Iterator[dict]:
    for link in LINKS:
        times = launch.run(race, RANKS, link, 2 if quick else 5, timeout=900)[0]
        for way in WAYS:
            facts = {"ranks": RANKS, "bytes_per_second": link, "nap": NAP}
            what = f"a step over {link / 1e6:g} MB/s, {way}"
            least = {"ours_least": round(min(times[way]), 4)}
            yield rounds.row(what, times, way, "data", **facts, **least)
