"""Gradients that leave while backward goes on: what of them is alive.

S ranks ZeRO shards over · e bytes of an element
A row is what travels as one: a bucket of gradients in stage 2, a layer in stage 3. It is padded to
a multiple of S, and a rank keeps a piece of it, 1/S. An all-to-all has a row on its way twice: the
row that is sent, and as much that arrives from the other ranks, to be added up. A reduce-scatter
adds up on the way, and only a piece arrives.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from math import ceil
from typing import NamedTuple

from mathlib.records import dataclass


class Row(NamedTuple):
    """Parameters that travel together."""

    parameters: float
    ranks: int
    last: int  # the tensor with which backward has filled it, counted in backward's order

    @property
    def piece(self) -> int:
        """Numbers that a rank keeps."""
        return ceil(self.parameters / self.ranks)

    @property
    def padded(self) -> int:
        """Numbers of the whole row."""
        return self.ranks * self.piece


def _filled(
    tensors: Sequence[float], *, ranks: int, element: float, bucket: float
) -> Iterator[Row]:
    """Rows closed by the tensor with which they reach the size of a bucket, in bytes."""
    held = 0.0
    for number, size in enumerate(tensors):
        held += size
        if held and (held * element >= bucket or number == len(tensors) - 1):
            yield Row(held, ranks, number)
            held = 0.0


@dataclass(frozen=True)
class Exchange:
    """A backward's gradients: those that wait for their row to be full, rows on their way, pieces
    that have come.
    """

    rows: list[Row]  # in the order in which they leave
    tensors: Sequence[float]  # parameters of each, as backward comes to them
    on_their_way: int  # rows, at most
    element: float  # bytes of a gradient's number
    piece_element: float  # bytes of a number in a piece that has come
    accumulation: bool  # pieces of earlier micro-batches are there
    whole: bool = True  # as much arrives as is sent, else a piece

    @cached_property
    def _filled_by(self) -> list[int]:
        return [row.last for row in self.rows]

    @cached_property
    def _up_to(self) -> dict[str, list[float]]:
        """Parameters of the first tensors and of the first rows, 0 of them, 1, 2, ..."""
        amounts = {
            "tensors": self.tensors,
            "rows": [row.parameters for row in self.rows],
            "pieces": [row.piece for row in self.rows],
            "padded": [row.padded for row in self.rows],
        }
        return {name: list(accumulate(each, initial=0)) for name, each in amounts.items()}

    def closed(self, arrived: int) -> int:
        """Rows that have left after so many tensors."""
        return bisect_left(self._filled_by, arrived)

    def state(self, arrived: int, closed: int, settling: bool = False) -> dict[str, float]:
        """Bytes after so many tensors, of which the first rows have left; `settling`: what has come
        for the oldest row on its way is being added up.
        """
        settled = max(0, closed - self.on_their_way)
        waiting = self._up_to["tensors"][arrived] - self._up_to["rows"][closed]
        added = settling and closed >= self.on_their_way
        return {
            "gradients": self._pieces(settled, added),
            "gradients that wait": self.element * waiting,
            "rows on their way": self._flying(settled, closed),
        }

    def _pieces(self, settled: int, added: bool) -> float:
        """Pieces of the rows that are through; when one is added to what is there, it stands
        beside.
        """
        there = self._up_to["pieces"][-1 if self.accumulation else settled]
        more = self.rows[settled].piece if added else 0
        return self.piece_element * (there + more)

    def _flying(self, first: int, end: int) -> float:
        """Rows that are sent, and what arrives for them."""
        sent = self._up_to["padded"]
        arrived = sent if self.whole else self._up_to["pieces"]
        return self.element * (sent[end] - sent[first] + arrived[end] - arrived[first])

    def fullest(self, begin: int, end: int) -> dict[str, float]:
        """The fullest state while the tensors from `begin` to `end` arrive, before and after rows
        leave.
        """
        states = [self.state(end, self.closed(end))]
        for n in range(begin + 1, end + 1):
            before, after = self.closed(n - 1), self.closed(n)
            if after > before:
                states.append(self.state(n, before, settling=True))
            states.append(self.state(n, after))
        return max(states, key=lambda state: sum(state.values()))

    def finishing(self) -> Iterator[dict[str, float]]:
        """The end of a backward: rows on their way are added up one after the other."""
        for n in range(max(0, len(self.rows) - self.on_their_way), len(self.rows)):
            yield {
                "gradients": self._pieces(n, added=True),
                "rows on their way": self._flying(n, len(self.rows)),
            }

    def leaving(self) -> Iterator[dict[str, float]]:
        """Stage 1, where all gradients are there: a row is packed beside its own, then what arrives
        takes their place; before the next one is packed, the oldest's piece has come.
        """
        gone, come = self._up_to["rows"], self._up_to["pieces"]
        for n, row in enumerate(self.rows):
            oldest = max(0, n + 1 - self.on_their_way)
            for sent, more in ((n, self.element * row.padded), (n + 1, 0)):
                left, pieces = gone[-1] - gone[sent], come[oldest + sent - n]
                yield {
                    "gradients": self.element * left + self.piece_element * pieces,
                    "rows on their way": self._flying(oldest, sent) + more,
                }
