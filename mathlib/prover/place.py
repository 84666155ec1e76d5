"""What of a case is a rank's: its groups, tokens, sequences, and its part of every parameter.

A right rank decides as this class does; a fault does one of these decisions differently.
"""

from typing import NamedTuple

from mathlib.prover.case import Case
from mathlib.prover.modular import Matrix, split
from mathlib.prover.network import HEAD, Parameter
from mathlib.schedule import ring_order


class Part(NamedTuple):
    """The rows and columns that a rank has of a matrix."""

    rows: list[int]
    columns: list[int]

    def of(self, whole: Matrix) -> Matrix:
        return [[whole[r][c] for c in self.columns] for r in self.rows]


class Place:
    """One rank of a case."""

    def __init__(self, case: Case, rank: int):
        self.case, self.rank, self.network = case, rank, case.network
        lay = self.layout = case.layout
        self.at = case.dense.coordinates(rank)
        self.expert_at = case.experts.coordinates(rank)
        self.stage, self.split_rows = self.at["pp"], lay.sequence_parallel and lay.tensor > 1
        self.chunks = case.schedule.chunks_of(self.stage)

    # groups

    def group(self, axis: str) -> tuple[int, ...]:
        """The ranks that this one shares something with."""
        if axis in self.case.groups:
            return self.case.groups[axis][self.rank]
        return getattr(self, f"_{axis.replace(' ', '_').replace('-', '_')}")()

    def _key_value(self) -> tuple[int, ...]:
        """Tensor ranks that have a copy of the same key-value heads."""
        group, mine = self.group("tensor"), self.kv_heads(self.at["tp"])
        return tuple(r for i, r in enumerate(group) if self.kv_heads(i) == mine)

    def _shard(self, of: str = "replicas", degree: int = 0) -> tuple[int, ...]:
        """Those among whom weights, gradients and states are sharded: neighbours."""
        group, n = self.group(of), degree or self.shards
        start = group.index(self.rank) // n * n
        return group[start : start + n]

    def _shard_replicas(self, of: str = "replicas", degree: int = 0) -> tuple[int, ...]:
        """Those that have the same shards in other shard groups."""
        group, n = self.group(of), degree or self.shards
        return group[group.index(self.rank) % n :: n]

    def _expert_shard(self) -> tuple[int, ...]:
        return self._shard("expert replicas", self.expert_shards)

    def _expert_shard_replicas(self) -> tuple[int, ...]:
        return self._shard_replicas("expert replicas", self.expert_shards)

    @property
    def shards(self) -> int:
        return self.layout.shard if self.layout.zero else 1

    @property
    def expert_shards(self) -> int:
        return self.layout.expert_shard if self.layout.zero else 1

    def copies(self, name: str) -> tuple[int, ...]:
        """Ranks of this pipeline that hold the parameter as well."""
        return tuple(self.case.dense.rank(**self.at | {"pp": s}) for s in self.case.holders[name])

    # tokens

    def tokens(self) -> list[int]:
        """The places of a context rank's tokens in the sequence."""
        ranges = ring_order.places(
            "zigzag" if self.case.order == "zigzag" and self.layout.context > 1 else "plain",
            ranks=self.layout.context,
            rank=self.at["cp"],
            tokens=self.network.tokens,
        )
        return [place for one in ranges for place in one]

    def stream_tokens(self) -> list[int]:
        """Those that a rank has of the stream: with sequence parallelism, fewer."""
        own = self.tokens()
        if not self.split_rows:
            return own
        return [own[i] for i in split(len(own), self.layout.tensor, self.at["tp"])]

    def sequences(self, micro_batch: int) -> list[int]:
        """The sequences of a micro-batch, as numbers of the batch."""
        b, m = self.layout.micro_batch, self.layout.micro_batches
        first = (self.at["dp"] * m + micro_batch) * b
        return list(range(first, first + b))

    def rows(self, micro_batch: int, tokens: list[int]) -> list[tuple[int, int]]:
        """(sequence, place) of every row: token after token, in it the sequences."""
        return [(n, place) for place in tokens for n in self.sequences(micro_batch)]

    # parameters

    def kv_heads(self, tensor_rank: int) -> list[int]:
        """The key-value heads that the query heads of a tensor rank look at."""
        net = self.network
        heads = split(net.heads, self.layout.tensor, tensor_rank)
        return sorted({head * net.kv_heads // net.heads for head in heads})

    def own_experts(self, expert_rank: int) -> range:
        """The experts of an expert-parallel rank."""
        return split(self.network.experts, self.layout.expert, expert_rank)

    def parameters(self) -> list[Parameter]:
        """Those of this rank's stage, and of the experts its own."""
        mine = self.own_experts(self.expert_at["ep"])
        return [
            p
            for p in self.network.parameters()
            if self.stage in self.case.holders[p.name] and (p.expert is None or p.expert in mine)
        ]

    def part(self, p: Parameter) -> Part:
        """Of a parameter, what is this rank's."""
        rows, columns = range(p.rows), range(p.columns)
        ranks, rank = self.layout.tensor, self.at["tp"]
        if p.expert is not None:
            ranks, rank = self.layout.expert_split, self.expert_at["tp"]
        if p.cut == "key-value":
            heads = self.kv_heads(rank)
            return Part([h * HEAD + i for h in heads for i in range(HEAD)], list(columns))
        head = HEAD if p.name.endswith((".query", ".out")) else 1
        if p.cut == "rows":
            rows = _heads(split(p.rows // head, ranks, rank), head)
        if p.cut == "columns":
            columns = _heads(split(p.columns // head, ranks, rank), head)
        return Part(list(rows), list(columns))

    def summed_over(self, p: Parameter) -> list[str]:
        """The groups of tensor parallelism in which ranks have only a share of its gradient."""
        leaf = p.name.rpartition(".")[2]
        if leaf in ("query_norm", "key_norm"):
            return ["tensor"]  # of all heads, and each rank has some
        if p.cut == "key-value":
            return ["key-value"]
        whole = not p.cut and p.expert is None
        return ["tensor"] if whole and self.split_rows else []

    def units(self) -> dict[str, list[Parameter]]:
        """What is flattened, reduced and gathered as one."""
        found: dict[str, list[Parameter]] = {}
        for p in self.parameters():
            found.setdefault(p.unit, []).append(p)
        return found

    def shard_range(self, unit: str, size: int) -> range:
        """The numbers of a unit of so many that are this rank's shard; the last may go beyond."""
        axis = "expert shard" if unit.endswith(".experts") else "shard"
        group = self.group(axis)
        each = -(-size // len(group))
        return range(each * group.index(self.rank), each * (group.index(self.rank) + 1))


def _heads(own: range, head: int) -> range:
    """Numbers of whole heads."""
    return range(own.start * head, own.stop * head)
