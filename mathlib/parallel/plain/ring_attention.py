"""Ring attention: a rank has a part of each sequence; keys and values go round.

P   ranks, of which this one is r     S   tokens of a sequence, P or 2P chunks of them
a   heads     d   width of a head     L   logarithm of a query's sum of exp(score)

order    chunks of rank r    scores in a step, in parts of (S/P)^2       at work
plain    r                   1/2, then 1 where keys are of the past      P/(2P-1)
zigzag   r and 2P-1-r        1/2 on every rank                           always

Queries stay; step i brings the keys and values of rank r-i.  Sums of exp(score - top)
are scaled when a larger top comes (Milakov and Gimelshein 2018); chunks of the future
are left out, so that every row has a key and there is no inf - inf.  Backward knows L:
exp(score - L) is right in any order (Liu et al. 2023).  K and V go round again; dK and
dV go with them, in 32 bits at least, and a step farther: home.

    torchrun --nproc-per-node 4 -m mathlib.parallel.plain.ring_attention
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from mathlib.parallel.plain import ddp, ring


def chunks(order: str, r: int, P: int) -> list[int]:
    return [r] if order == "plain" else [r, 2 * P - 1 - r]


def pairs(order: str, r: int, source: int, P: int) -> list[tuple[int, int, bool]]:
    """My chunks and theirs that they look at; True where it is one and the same."""
    mine, theirs = (list(enumerate(chunks(order, one, P))) for one in (r, source))
    return [(i, j, x == y) for i, x in mine for j, y in theirs if y <= x]


def scores(q: Tensor, k: Tensor, same: bool) -> Tensor:
    found = q @ k.mT * q.shape[-1] ** -0.5
    future = torch.ones_like(found, dtype=torch.bool).triu(1)
    return found.masked_fill(future, float("-inf")) if same else found


def passed(give, group):
    ring.pass_on(give, take := torch.empty_like(give), group)
    return take


class Ring(torch.autograd.Function):
    """Forward K, V go round; backward K, V go round, and dK, dV, which come home."""

    @staticmethod
    def forward(ctx, q, k, v, order, group):  # B a S/P d
        (r, P), kv = ring.place(group), torch.stack([k, v])
        n, wide = len(chunks(order, r, P)), torch.promote_types(q.dtype, torch.float32)
        out = torch.zeros_like(q, dtype=wide)
        total, top = out[..., :1].clone(), out[..., :1] - float("inf")
        Q, Y, Z, M = (x.chunk(n, -2) for x in (q.to(wide), out, total, top))
        for step in range(P):
            K, V = (x.chunk(n, -2) for x in kv.to(wide))
            for i, j, same in pairs(order, r, (r - step) % P, P):
                found = scores(Q[i], K[j], same)
                larger = torch.maximum(M[i], found.amax(-1, keepdim=True))
                scale, weights = (M[i] - larger).exp(), (found - larger).exp()
                Z[i].mul_(scale).add_(weights.sum(-1, keepdim=True))
                Y[i].mul_(scale).add_(weights @ V[j])
                M[i].copy_(larger)
            kv = passed(kv, group) if step < P - 1 else kv
        out = (out / total).to(q.dtype)
        ctx.save_for_backward(q, k, v, out, top + total.log())
        ctx.how = order, group, n, wide
        return out

    @staticmethod
    def backward(ctx, arrived):
        order, group, n, wide = ctx.how
        q, k, v, out, L = (x.to(wide) for x in ctx.saved_tensors)
        (r, P), kv = ring.place(group), torch.stack(ctx.saved_tensors[1:3])
        arrived, dq = arrived.to(wide), torch.zeros_like(q)
        dkv = torch.zeros_like(kv, dtype=wide)
        inner = (arrived * out).sum(-1, keepdim=True)
        Q, dQ, dY, D, L = (x.chunk(n, -2) for x in (q, dq, arrived, inner, L))
        for step in range(P):
            K, V, dK, dV = (x.chunk(n, -2) for x in (*kv.to(wide), *dkv))
            for i, j, same in pairs(order, r, (r - step) % P, P):
                weights = (scores(Q[i], K[j], same) - L[i]).exp()
                dV[j].add_(weights.mT @ dY[i])
                ds = weights * (dY[i] @ V[j].mT - D[i]) * q.shape[-1] ** -0.5
                dQ[i].add_(ds @ K[j])
                dK[j].add_(ds.mT @ Q[i])
            kv = passed(kv, group) if step < P - 1 else kv
            dkv = passed(dkv, group) if P > 1 else dkv
        return dq.to(k.dtype), *dkv.to(k.dtype), None, None


class RingAttention(ddp.Naive):
    """The small GPT; of a batch that all ranks have, each takes its part."""

    def __init__(self, model, make, order="zigzag", group=None):
        super().__init__(model, make, group)
        self.model, self.order = model, order
        for block in model.blocks:
            block.attention.core = self.attention

    def attention(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return Ring.apply(q, k, v, self.order, self.group)

    def loss(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """Its mean over ranks is that over all tokens that count; so with gradients."""
        r, P = ring.place(self.group)
        places = torch.arange(tokens.shape[1]).chunk(len(chunks(self.order, 0, P)) * P)
        mine = torch.cat([places[chunk] for chunk in chunks(self.order, r, P)])
        logits = self.model(tokens[:, mine], mine).flatten(0, 1)
        total = F.cross_entropy(logits, targets[:, mine].flatten(), reduction="sum")
        return P * total / (targets >= 0).sum()


if __name__ == "__main__":
    from mathlib.parallel.plain import script

    for order in ("plain", "zigzag"):
        script.sequences(f"ring attention, {order}", RingAttention, order=order)
