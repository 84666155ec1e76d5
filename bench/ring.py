"""Our ring all-reduce, in Python, against gloo's, in C++."""

from collections.abc import Iterator

import rounds
import torch
import torch.distributed as dist

from mathlib import launch
from mathlib.parallel import collectives
from mathlib.parallel.plain import ring

KIB = 1024
OURS = {
    "ring": collectives.ring_all_reduce,
    "plain ring": ring.all_reduce,
    "halving-doubling": collectives.halving_doubling_all_reduce,
    "tree": collectives.tree_all_reduce,
}


def all_sizes(sizes: list[int], quick: bool) -> list[rounds.Times]:
    found = []
    for size in sizes:
        x = torch.zeros(size // 4)
        candidates = {"gloo": lambda x=x: dist.all_reduce(x)} | {
            n: lambda x=x, f=f: f(x) for n, f in OURS.items()
        }
        found.append(
            rounds.on_ranks(candidates, rounds=5 if quick else 60 if size <= 1024 * KIB else 30)
        )
    return found


def rows(quick: bool) -> Iterator[dict]:
    sizes = [size * KIB for size in (1, 16, 128, 1024, 4096, 8192, 16384)]
    for n in (2, 4, 8):
        for size, times in zip(
            sizes, launch.run(all_sizes, n, sizes, quick, timeout=900)[0], strict=True
        ):
            label = f"{size // KIB:>5} KiB, {n} ranks"
            yield from (
                rounds.row(label, times, ours, "gloo", ranks=n, bytes=size) for ours in OURS
            )
