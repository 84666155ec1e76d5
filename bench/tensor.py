"""A step of a small Llama in our tensor parallelism and in torch's parallelize_module; and matmuls
in chunks beside whole ones, over links that the kernel holds.

torch's plan prepares what several matrices read, so that both send the same bytes. Chunks can hide
a gather only where the link is slow enough to wait for and quick enough to be hidden.
"""

from collections.abc import Callable, Iterator
from functools import partial

import rounds
import torch
import torch.distributed as dist
from shapes import SEQUENCES
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    loss_parallel,
    parallelize_module,
)

from mathlib import launch, specs
from mathlib.launch.slow_wires import wires
from mathlib.model import data, llama, oracle
from mathlib.parallel.tensor.tensor_parallel import TensorParallel

WORDS = len(data.vocabulary()) // 4 * 4 + 4  # that ranks divide
CONTEXT = 128
SHAPE = specs.find_model("llama3-8b").but(
    **{"layers": 4, "width": 256, "heads": 8, "kv_heads": 4, "ffn_width": 704},
    **{"context": CONTEXT, "vocab": WORDS, "padded_vocab": WORDS},
)
LINKS = (100e6, 25e6)  # bytes a second
COLUMNS = ("attention.query", "attention.key", "attention.value", "mlp.gate", "mlp.up")
ROWS = ("attention.out", "mlp.down")
Step = Callable[[], object]


def by_torch() -> Step:
    model, same = llama.Llama(SHAPE), (Replicate(),)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    ready = PrepareModuleInput(input_layouts=same, desired_input_layouts=same)
    plan = {name: ColwiseParallel() for name in COLUMNS} | {"attention": ready, "mlp": ready}
    for block in model.blocks:
        parallelize_module(block, mesh, plan | {name: RowwiseParallel() for name in ROWS})
    head = ColwiseParallel(output_layouts=Shard(-1), use_local_output=False)
    ends = {"tokens": RowwiseParallel(input_layouts=Replicate()), "head": head}
    parallelize_module(model, mesh, ends)

    def step() -> None:
        model.zero_grad()
        with loss_parallel():
            oracle.loss(model, *data.batch(SEQUENCES, CONTEXT)).backward()

    return step


def ours(**options: bool) -> Step:
    model = TensorParallel(llama.Llama(SHAPE), **options)

    def step() -> None:
        model.zero_grad()
        model.loss(*data.batch(SEQUENCES, CONTEXT)).backward()

    return step


WAYS: dict[str, Callable[[], Step]] = {
    "tensor parallel": ours,
    "parallelize_module": by_torch,
    "sequence parallel": partial(ours, sequence_parallel=True),
    "in chunks": partial(ours, sequence_parallel=True, chunked=True),
}


def race(names: list[str], count: int, link: float) -> rounds.Times:
    torch.manual_seed(0)
    steps = {name: WAYS[name]() for name in names}
    for step in steps.values():  # what connects in a first step has done so when the links slow
        step()
    with wires(bandwidth=link):
        return rounds.on_ranks(steps, rounds=count)


def rows(quick: bool) -> Iterator[dict]:
    names, count = ["tensor parallel", "parallelize_module"], 2 if quick else 20
    for ranks in (2, 4):
        times = launch.run(race, ranks, names, count, float("inf"), timeout=900)[0]
        yield rounds.row(f"Llama step, forward and backward, {ranks} ranks", times, *names)
    names = ["in chunks", "sequence parallel", "tensor parallel"]
    for ranks in (2, 4):
        for link in LINKS:
            times = launch.run(race, ranks, names, 2 if quick else 10, link, timeout=900)[0]
            label = f"Llama step, {ranks} ranks, links of {link / 1e6:.0f} MB/s"
            for theirs in names[1:]:
                yield rounds.row(label, times, names[0], theirs, bandwidth=link)
