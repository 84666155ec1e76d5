"""Who holds whose numbers while a ring adds up: the record that experiment and scheme draw."""

from mathlib.traffic import comm

Whose = frozenset[int]  # the ranks whose numbers are in a piece
Held = list[list[Whose]]  # [rank][piece]


def held_after(ranks: int, steps: int) -> tuple[Held, list[int]]:
    """What every rank holds after so many steps, and which piece came to it last."""
    held: Held = [[frozenset([r])] * ranks for r in range(ranks)]
    came = [-1] * ranks
    turns = [comm.ring_steps(range(ranks), r) for r in range(ranks)]
    for step in range(steps):
        before = [list(row) for row in held]
        for r, (scatter, gather) in enumerate(turns):
            _, p = [*scatter, *gather][step]
            held[r][p] = before[r - 1][p]
            if step < len(scatter):  # add to it what is there
                held[r][p] |= before[r][p]
            came[r] = p
    return held, came
