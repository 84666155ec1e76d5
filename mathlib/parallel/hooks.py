"""A code of gradients (`plain.compression`) as communication hook, of our DDP and of PyTorch's.

    DDP(model, hook=Hook(Int8))
    torch_ddp.register_comm_hook(None, Hook(Int8).of_torch)

A thread codes and sends a bucket while backward goes on, in a process group of its own, where its
collectives meet no others.  What a code leaves out stays with its bucket; buckets that are built
anew, as both do after the first backward, begin with nothing left.
"""

import math
from collections.abc import Callable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor
from torch.distributed import ProcessGroup
from torch.futures import Future
from torch.utils.weak import WeakIdKeyDictionary

from mathlib.parallel.plain.compression import Full, PowerSGD


class Hook:
    """Every rank of the group makes one."""

    def __init__(self, code: Callable[[ProcessGroup], Full], group: ProcessGroup | None = None):
        ranks = dist.get_process_group_ranks(group)
        self.group = dist.new_group(ranks, use_local_synchronization=True)
        self.code, self.ranks = code, len(ranks)
        self.ours: MutableMapping = WeakIdKeyDictionary()  # codes, by bucket
        self.torchs: dict[tuple[int, int], Full] = {}
        self.thread = ThreadPoolExecutor(1, "gradients")

    def __call__(self, flat: Tensor, group: ProcessGroup | None) -> Future[Tensor]:
        """For our DDP, whose bucket has shares of the mean."""
        return self._later(self.ours, flat, flat * self.ranks)

    def of_torch(self, _: object, bucket: dist.GradBucket) -> Future[Tensor]:
        """For torch's, whose bucket has gradients."""
        flat = bucket.buffer()
        return self._later(self.torchs, (bucket.index(), len(flat)), flat)

    def _later(self, codes: MutableMapping, bucket: object, gradients: Tensor) -> Future[Tensor]:
        if bucket not in codes:
            codes[bucket] = self.code(self.group)
        code, future = codes[bucket], Future[Tensor]()

        def run() -> None:
            try:
                future.set_result(mean(code, gradients))
            except Exception as error:
                future.set_exception(error)  # type: ignore[arg-type]

        self.thread.submit(run)
        return future


def mean(code: Any, flat: Tensor) -> Tensor:
    """Of a bucket over the ranks; PowerSGD takes it as a square."""
    if not isinstance(code, PowerSGD):
        return code(flat)
    side = math.isqrt(len(flat) - 1) + 1
    return code(F.pad(flat, (0, side**2 - len(flat))).view(side, side)).flatten()[: len(flat)]
