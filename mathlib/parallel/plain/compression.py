"""Compressed gradients: ranks send fewer bits, and keep what they left out.

N   ranks
K   bytes of gradients, of 4 each

fp16      half the bits, which add up in flight       2 K/2 (N-1)/N sent
int8      a byte each, a scale for 256; in two passes    2 (K/4 + K/256) (N-1)/N
sign      a bit each, a scale for 256; in two passes     2 (K/32 + K/256) (N-1)/N
top-k     the k largest and their places, to everybody   8 k (N-1)
PowerSGD  of an m x n matrix U (m x r) and V (n x r)     8 r (m + n) (N-1)/N

Codes of a byte or a bit cannot be added on their way round a ring.  So a rank owns a
chunk: everybody sends it his code of it, it sends everybody a code of the mean.  What a
code leaves out is added to the next step's gradient (error feedback; Karimireddy et al.
2019); PowerSGD is by Vogels et al. 2019, the two passes are those of 1-bit Adam.

    torchrun --nproc-per-node 4 -m mathlib.parallel.plain.compression
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from mathlib.parallel.plain import ddp
from mathlib.parallel.plain.ring import place

BLOCK, TINY = 256, 1e-30
BITS = 2 ** torch.arange(8, dtype=torch.uint8)
all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor


class Full:
    """Takes this rank's gradient and gives the mean over the ranks."""

    def __init__(self, group: dist.ProcessGroup | None = None):
        self.group, (self.rank, self.ranks) = group, place(group)
        self.left: Any = 0.0  # out of what was sent so far

    def summed(self, x: Tensor) -> Tensor:
        dist.all_reduce(x, group=self.group)
        return x

    def __call__(self, x: Tensor) -> Tensor:
        return self.summed(x / self.ranks)


class Fp16(Full):
    def __call__(self, x: Tensor) -> Tensor:  # divided first: a sum might overflow
        return self.summed((x / self.ranks).half()).to(x.dtype)


class Int8(Full):
    owned: Any = 0.0  # left out of the mean of the chunk that is ours

    def encode(self, x: Tensor) -> list[Tensor]:
        scale = x.abs().amax(-1, keepdim=True) / 127 + TINY
        return [(x / scale).round().to(torch.int8), scale]

    def decode(self, codes: Tensor, scale: Tensor) -> Tensor:
        return codes * scale

    def __call__(self, x: Tensor) -> Tensor:
        N = self.ranks
        chunk = F.pad(x.flatten(), (0, -x.numel() % (N * BLOCK))).view(N, -1, BLOCK)
        whole = chunk + self.left
        codes = self.encode(whole)
        self.left = whole - self.decode(*codes)
        mean = self.decode(*map(self.to_owners, codes)).mean(0) + self.owned
        codes = self.encode(mean)
        self.owned = mean - self.decode(*codes)
        return self.decode(*map(self.to_all, codes)).flatten()[: x.numel()].view_as(x)

    def to_owners(self, code: Tensor) -> Tensor:
        mine = torch.empty_like(code)
        dist.all_to_all_single(mine, code, group=self.group)
        return mine

    def to_all(self, code: Tensor) -> Tensor:
        whole = code.new_empty(self.ranks * len(code), *code.shape[1:])
        all_gather(whole, code, group=self.group)
        return whole


class Sign(Int8):
    def encode(self, x: Tensor) -> list[Tensor]:
        ones = (x >= 0).view(*x.shape[:-1], -1, 8) * BITS.to(x.device)
        eights = ones.sum(-1, dtype=torch.uint8)  # a byte each
        return [eights, x.abs().mean(-1, keepdim=True)]

    def decode(self, codes: Tensor, scale: Tensor) -> Tensor:
        ones = (codes[..., None] & BITS.to(codes.device)).bool().flatten(-2)
        return torch.where(ones, scale, -scale)


class TopK(Int8):
    share = 0.01  # of the numbers

    def __call__(self, x: Tensor) -> Tensor:
        whole = x.flatten() + self.left
        k = max(1, int(self.share * len(whole)))
        at = whole.abs().topk(k).indices
        mean = torch.zeros_like(whole)
        places = self.to_all(at.int())
        mean.index_add_(0, places, self.to_all(whole[at]) / self.ranks)
        self.left = whole.index_fill(0, at, 0)
        return mean.view_as(x)


class PowerSGD(Full):
    rank_of_matrix, V = 4, None

    def __call__(self, x: Tensor) -> Tensor:
        if x.dim() != 2:  # biases and norms, too few to matter
            return super().__call__(x)
        whole, r = x + self.left, min(self.rank_of_matrix, *x.shape)
        if self.V is None:  # the same on all ranks; later the last step's
            draw = torch.Generator().manual_seed(0)
            self.V = torch.randn(x.shape[1], r, generator=draw).to(x)
        U = torch.linalg.qr(self.summed(whole @ self.V / self.ranks)).Q
        self.V = self.summed(whole.T @ U / self.ranks)
        self.left = whole - U @ self.V.T
        return U @ self.V.T


class Compressed(ddp.Naive):
    """Data parallel with a code for all gradients, or one for each (PowerSGD)."""

    def __init__(
        self,
        model: nn.Module,
        make: ddp.Make,
        group: dist.ProcessGroup | None = None,
        code: Callable[..., Full] = Full,
    ):
        super().__init__(model, make, group)
        self.codes = [code(group) for _ in self.parameters]

    def average(self) -> None:
        grads = [p.grad for p in self.parameters]
        if not isinstance(self.codes[0], PowerSGD):
            sizes = [grad.numel() for grad in grads]
            grads = self.codes[0](torch.cat([g.flatten() for g in grads])).split(sizes)
        else:
            grads = [code(grad) for code, grad in zip(self.codes, grads, strict=True)]
        for p, grad in zip(self.parameters, grads, strict=True):
            p.grad = grad.view_as(p)


if __name__ == "__main__":
    from mathlib.parallel.plain import script

    for code in (Full, Fp16, Int8, Sign, TopK, PowerSGD):
        script.train(code.__name__, Compressed, code=code)
