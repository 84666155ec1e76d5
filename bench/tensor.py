"""A step of a small Llama in our tensor parallelism and in torch's parallelize_module; and a matmul
in chunks that hides the all-gather before it, over a link that the kernel holds.

torch's plan prepares what several matrices read, so that both send the same bytes. The chunks'
matmul sleeps, so that nothing but the order of things decides: with t ranks, a chunk's matmul n
and its message c seconds, t n + (t-1) c at once, and n + (t-1) max(n, c) in chunks.
"""

import time
from collections.abc import Callable, Iterator
from unittest import mock

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
from mathlib.parallel.tensor import conjugates, token_rings
from mathlib.parallel.tensor.tensor_parallel import TensorParallel

WORDS = len(data.vocabulary()) // 4 * 4 + 4  # that ranks divide
CONTEXT = 128
SHAPE = specs.find_model("llama3-8b").but(
    **{"layers": 4, "width": 256, "heads": 8, "kv_heads": 4, "ffn_width": 704},
    **{"context": CONTEXT, "vocab": WORDS, "padded_vocab": WORDS},
)
LINKS = (80e6, 20e6, 10e6)  # bytes a second
NAP = 0.1  # seconds: the matmul of a chunk, and its message at 20 MB/s
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


def ours() -> Step:
    model = TensorParallel(llama.Llama(SHAPE))

    def step() -> None:
        model.zero_grad()
        model.loss(*data.batch(SEQUENCES, CONTEXT)).backward()

    return step


WAYS: dict[str, Callable[[], Step]] = {"tensor parallel": ours, "parallelize_module": by_torch}


def race(names: list[str], count: int) -> rounds.Times:
    torch.manual_seed(0)
    return rounds.on_ranks({name: WAYS[name]() for name in names}, rounds=count)


def hiding(link: float, count: int) -> rounds.Times:
    """An all-gather of chunks that take NAP seconds each on a link of 20 MB/s, and its matmul."""
    t, x = dist.get_world_size(), torch.ones(1, 1, int(NAP * 20e6) // 4)

    def at_once() -> None:
        conjugates.gathered(x, None)
        time.sleep(t * NAP)

    def nap(chunk: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        time.sleep(NAP)
        return chunk[..., :1]

    def in_chunks() -> None:
        with mock.patch.object(token_rings.F, "linear", nap):
            token_rings.gather_matmul(x, [torch.ones(1, 1)])

    at_once()  # what connects in a first step has done so when the links slow
    in_chunks()
    with wires(bandwidth=link):
        return rounds.on_ranks({"in chunks": in_chunks, "at once": at_once}, rounds=count)


def rows(quick: bool) -> Iterator[dict]:
    names, count = ["tensor parallel", "parallelize_module"], 2 if quick else 20
    for ranks in (2, 4):
        times = launch.run(race, ranks, names, count, timeout=900)[0]
        yield rounds.row(f"Llama step, forward and backward, {ranks} ranks", times, *names)
        for link in LINKS:
            times = launch.run(hiding, ranks, link, 2 if quick else 10, timeout=900)[0]
            label = f"All-gather and matmul, {ranks} ranks, links of {link / 1e6:.0f} MB/s"
            yield rounds.row(label, times, "in chunks", "at once", bandwidth=link)
