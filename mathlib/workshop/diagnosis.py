"""What went wrong, told from the numbers alone: they are exact, so that a sum shows its terms.

A number of the result is searched for as c_0 x_0 + ... + c_N-1 x_N-1, x_r what rank r has to give;
the c_r say whose term is missing, and whose counts twice.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, reduce
from itertools import groupby, product
from operator import add
from typing import Any

from mathlib.prover.modular import PRIME, inverse
from mathlib.workshop.tensor import Tensor, join

MOST_FACTOR = 13  # above and below the line, of a factor that is looked for
MOST_TERMS = 8  # of a sum whose terms are looked for


def total(parts: Sequence[Tensor]) -> Tensor:
    """Their sum."""
    return reduce(add, parts)


def differs(got: Any, wanted: Tensor, known: Mapping[str, Tensor] | None = None) -> str:
    """How a result differs from what is wanted; "" if it does not.  `known`: what a result is
    called that equals one of these.
    """
    if not isinstance(got, Tensor):
        return (
            f"returns {type(got).__name__ if got is not None else 'nothing'}: expected a {wanted}"
        )
    if got.shape != wanted.shape:
        return f"returns a {got}: expected a {wanted}"
    if got == wanted:
        return ""
    for said, one in (known or {}).items():
        if got == one:
            return said
    numbers, right = flat(got), flat(wanted)
    if sorted(numbers) == sorted(right):
        return "has the right numbers in the wrong places"
    if factor := _factor(numbers, right):
        return f"has {factor} times what is expected"
    wrong = [i for i, (a, b) in enumerate(zip(numbers, right, strict=True)) if a != b]
    return f"is wrong in {len(wrong)} of {len(right)} numbers, first in {_place(wrong[0], got)}"


def sum_differs(
    got: Any,
    parts: Sequence[Tensor],
    what: str,
    own: int | None,
    mean: bool = False,
    of: Sequence[int] = (),
    who: str = "rank",
) -> str:
    """The same for a sum or mean over ranks, by its terms; `own`: which one is the rank's own.

    `of`: the ranks whose terms these are, if not all; `who`: what has a term, if not a rank.
    """
    n = len(parts)
    wanted = total(parts) / n if mean else total(parts)
    plain = differs(got, wanted, _known(wanted, what, n, mean, None if own is None else parts[own]))
    plain = plain.replace("times what", f"times the {what} that")
    if not plain.startswith("is wrong") or n > MOST_TERMS:
        return plain
    names, scale = [*(of or range(n))], inverse(n) if mean else 1
    rows = zip(flat(got), zip(*map(flat, parts), strict=True), strict=True)
    said = [terms(number, row, scale, names, who) for number, row in rows]
    told = [(where, text.replace("term", what)) for text, where in _runs(said) if text]
    return f"numbers {told[0][0][0]} to {told[0][0][-1]}: {told[0][1]}" if told else plain


def _known(wanted: Tensor, what: str, n: int, mean: bool, own: Tensor | None) -> dict[str, Tensor]:
    """What a wrong sum or mean is often, by what it is called."""
    named = {f"has a {what} of nothing but 0": wanted * 0}
    if own is not None:
        named[f"still has its own {what}"] = own
    if mean:
        return named | {f"has the sum of all {what}s: expected their mean": wanted * n}
    return named | {f"has the mean of all {what}s: expected their sum": wanted / n}


def terms(number: int, parts: Sequence[int], scale: int, names: Sequence[int], who: str) -> str:
    """Whose terms a wrong number has; "" where it is right, or no such sum."""
    for counts in _counts(len(parts)):
        if sum(c * x for c, x in zip(counts, parts, strict=True)) * scale % PRIME == number:
            lacks = [r for r, c in zip(names, counts, strict=True) if c == 0]
            twice = [r for r, c in zip(names, counts, strict=True) if c == 2]
            said = [f"the term of {listed(who, lacks)} is missing"] if lacks else []
            said += [f"the term of {listed(who, twice)} counts twice"] if twice else []
            return "; ".join(said)
    return ""


def _factor(got: Sequence[int], right: Sequence[int]) -> str:
    """The small fraction by which all numbers differ, -1 or 2/3; "" if there is none."""
    for over, under, sign in product(range(1, MOST_FACTOR), range(1, MOST_FACTOR), (1, -1)):
        a, b = sign * over, under
        if all((x * b - y * a) % PRIME == 0 for x, y in zip(got, right, strict=True)):
            return f"{a}/{b}" if b > 1 else f"{a}"
    return ""


@cache
def _counts(n: int) -> list[tuple[int, ...]]:
    """How often each term may be there, the fewest mistakes first; of many, none twice."""
    each = (1, 0, 2) if n <= 5 else (1, 0)
    return sorted(product(each, repeat=n), key=lambda counts: sum(c != 1 for c in counts))


def joined(got: Any) -> Any:
    """A list of tensors as one; anything else as it is."""
    tensors = isinstance(got, (list, tuple)) and all(isinstance(x, Tensor) for x in got)
    return join(got) if tensors and len({x.shape[1:] for x in got}) == 1 else got


def listed(who: str, some: Sequence[int]) -> str:
    """rank 1; ranks 1, 2 and 5."""
    *first, last = map(str, some)
    return (
        f"{who}{'es' if who[-1] == 'h' else 's'} {', '.join(first)} and {last}"
        if first
        else f"{who} {last}"
    )


def flat(x: Tensor) -> list[int]:
    """Its numbers, row by row."""
    return [number for row in x.rows for number in row]


def each_rank(results: Sequence[Any], says: Any) -> Iterator[str]:
    """What `says(rank, result)` finds wrong, with the rank before it."""
    for rank, result in enumerate(results):
        said = says(rank, result)
        if said:
            yield (
                f"rank {rank} {said}" if not said.startswith("numbers") else f"rank {rank}, {said}"
            )


def _runs(said: Sequence[str]) -> Iterator[tuple[str, list[int]]]:
    """Neighbouring numbers with the same words: these, and which numbers."""
    for text, run in groupby(enumerate(said), key=lambda pair: pair[1]):
        yield text, [i for i, _ in run]


def _place(i: int, x: Tensor) -> str:
    return f"number {i}" if len(x.shape) == 1 else f"row {i // x.shape[1]}"
