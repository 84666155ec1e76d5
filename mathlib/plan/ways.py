"""Every way to spread a model over devices that divides, for a search that looks at very many.

p stages · t tensor · n devices · B sequences · b micro_batch · m micro_batches · v chunks a stage
s tokens · L layers · N data-parallel ranks
"""

from collections.abc import Iterator
from typing import NamedTuple

from mathlib.checks import InputError, divisors, instance, whole
from mathlib.layout import RECOMPUTE, spreads, tensor_degree
from mathlib.plan.work import Way
from mathlib.specs import Model

MOST_CHUNKS = 8


class Mesh(NamedTuple):
    """Degrees that multiply to the devices."""

    tensor: int
    context: int
    pipeline: int
    data: int


Shard = tuple[int, int]  # ZeRO stage, and ranks that it shards over
Family = tuple[Way, list[Shard]]  # ways that differ in nothing else; the first has stage 0


def ways(
    model: Model, *, tokens: int, devices: int, sequences: int, node: int, micro_batch: int = 8
) -> Iterator[Way]:
    """Every layout that divides: B sequences over n devices, tensor ranks inside a node, micro-
    batches of powers of two up to `micro_batch`. Where p does not divide L some stages have a
    layer fewer, those of the ends first, as `layout.chunk_layers` says.

    Chapter: planning
    """
    model, B = instance("model", model, Model), whole("sequences", sequences)
    s, n, near = whole("tokens", tokens), whole("devices", devices), whole("node", node)
    most = whole("micro_batch", micro_batch)
    return (
        sharded(way, shard)
        for mesh in meshes_of(model, s, n, near)
        for way, shards in families_of(model, mesh, near, B, most)
        for shard in shards
    )


def sharded(way: Way, shard: Shard) -> Way:
    """The same way with a ZeRO stage."""
    return way._replace(zero=shard[0], shard=shard[1])


def meshes_of(model: Model, s: int, n: int, node: int) -> list[Mesh]:
    """Degrees that multiply to n, as the model accepts them."""
    found = []
    for t in divisors(n):
        if t > node or not _accepts(model, t):
            continue
        for p in divisors(n // t):
            if p > model.layers:  # a stage would be empty
                continue
            for among in divisors(n // t // p):
                if s % (2 * among) == 0 or among == 1:  # halves of a piece share the causal work
                    found.append(Mesh(t, among, p, n // t // p // among))
    return found


def _accepts(model: Model, tensor: int) -> bool:
    try:
        return bool(tensor_degree(model, tensor))
    except InputError:
        return False


def families_of(model: Model, mesh: Mesh, near: int, B: int, most: int) -> Iterator[Family]:
    """Families of a mesh for B sequences, micro-batches of powers of two."""
    if B % mesh.data:
        return
    own = B // mesh.data
    for b in [2**i for i in range(most.bit_length()) if own % 2**i == 0]:
        yield from of_mesh(model, mesh, near, b, own // b)


def of_mesh(model: Model, mesh: Mesh, near: int, b: int, m: int) -> Iterator[Family]:
    """Families of a mesh with m micro-batches of b sequences."""
    t, among, p, data = mesh
    shards = _shards(data * among, near // t)
    for v in _chunks(model.layers, p, m):
        for ep in _dealt(model, data * among * t):
            et = 1 if ep > 1 else t
            for again in RECOMPUTE:
                one = Way(data, t, p, v, 0, data * among, t > 1, b, m, again, among, ep, et)
                yield one, shards


def _shards(replicas: int, near: int) -> list[Shard]:
    """ZeRO stages and the groups they shard over: all, or those in a node."""
    if replicas == 1:
        return [(0, 1)]
    groups = {replicas, near} if 1 < near < replicas and replicas % near == 0 else {replicas}
    return [(0, replicas), *((z, S) for z in (1, 2, 3) for S in sorted(groups))]


def _dealt(model: Model, ranks: int) -> list[int]:
    """Degrees over which experts can be distributed; each is whole on its rank."""
    if not model.experts:
        return [1]
    return [e for e in divisors(model.experts.routed) if ranks % e == 0]


def _chunks(layers: int, p: int, m: int) -> list[int]:
    """Chunks a stage can have."""
    if p == 1 or m % p:
        return [1]
    return [v for v in divisors(-(-layers // p)) if v <= MOST_CHUNKS and spreads(layers, p, v)]
