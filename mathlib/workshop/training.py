"""Data parallelism beside one process: the batches of all ranks, and the weights of every step."""

from collections.abc import Iterator, Sequence
from typing import Any

from mathlib.prover.modular import inverse
from mathlib.schedule.cluster import Cluster
from mathlib.workshop.diagnosis import differs, each_rank, sum_differs
from mathlib.workshop.draw import drawn
from mathlib.workshop.network import Batch, Network
from mathlib.workshop.puzzle import Budget, Trial
from mathlib.workshop.tensor import Tensor, join


class Training:
    """N ranks that take some steps, each with its own batch at every step; `beta`: of momentum."""

    rate = inverse(7)  # of learning

    def __init__(
        self,
        ranks: int,
        steps: int,
        tokens: int = 3,
        model: Network | None = None,
        beta: int = 0,
    ):
        self.beta = beta
        self.ranks, self.steps, self.model = ranks, steps, model or Network()
        self.batches = [
            [self.model.batch(f"rank {r}, step {s}", tokens) for s in range(steps)]
            for r in range(ranks)
        ]
        self.weights = join(self.model.weights())
        self.after = [self.weights]  # of one process, before and after each step
        self.momenta = [drawn("momentum", self.numbers)]
        for s in range(steps):
            gradient = self.model.whole_gradient(self.after[-1], self.of_all(s))
            self.momenta.append(self.momenta[-1] * beta + gradient)
            self.after.append(self.after[-1] - self.momenta[-1] * self.rate)

    @property
    def numbers(self) -> int:
        """Of all weights."""
        return len(self.weights)

    def of_all(self, step: int) -> Batch:
        """The batch of one process: those of all ranks, one after the other."""
        inputs, targets = zip(*[of[step] for of in self.batches], strict=True)
        return join(inputs), join(targets)

    def wrong(self, results: Sequence[Any]) -> Iterator[str]:
        """What ranks have that return their weights after each step."""
        for s in range(self.steps):
            for said in each_rank(results, lambda r, got, s=s: self.differs(got, s, r)):
                yield f"step {s + 1}: {said}"

    def differs(self, got: Any, step: int, rank: int) -> str:
        """What is wrong with a rank's weights after a step, by the gradient that it used."""
        if not isinstance(got, list) or len(got) != self.steps:
            return (
                f"returns {got!r}: expected a list of its weights after each of {self.steps} steps"
            )
        said = differs(got[step], self.after[step + 1])
        if not said or not isinstance(got[step], Tensor) or len(got[step]) != self.numbers:
            return said
        before = self.after[step]
        moved = (before - got[step]) * inverse(self.rate)
        mean = self.momenta[step + 1] - self.momenta[step] * self.beta
        known = {
            "forgets the momentum": mean,
            "does not multiply the momentum by beta": self.momenta[step] + mean,
        }
        if self.beta and moved in known.values():
            return differs(moved, self.momenta[step + 1], known)
        own = [self.model.whole_gradient(before, of[step]) for of in self.batches]
        used = moved - self.momenta[step] * self.beta
        return sum_differs(used, own, "gradient", rank, mean=True)


def gradient_sum(
    title: str, cluster: Cluster, numbers: int, most: tuple[Budget, ...], *more: Any
) -> Trial:
    """Every rank has another gradient, and must end with the sum; `more` is given to each."""
    parts = [drawn(f"gradient of rank {r}", numbers) for r in range(cluster.ranks)]
    return Trial(
        title,
        cluster,
        lambda me: [parts[me.rank][:], *more],
        lambda out: each_rank(out.results, lambda r, x: sum_differs(x, parts, "gradient", r)),
        most,
    )
