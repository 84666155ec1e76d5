"""What ranks of a ring hold, step by step."""

import pytest

from mathlib.show.held import held_after


@pytest.mark.parametrize("n", range(2, 9))
def test_pieces_fill_and_finish_as_the_text_says(n):
    everyone = frozenset(range(n))
    for step in range(n):
        held, _ = held_after(n, step)
        assert sorted(len(piece) for row in held for piece in row)[-n:] == [step + 1] * n, (
            "one longer chain a rank"
        )
    assert [row.index(everyone) for row in held_after(n, n - 1)[0]] == list(range(n)), (
        "piece r is finished on rank r"
    )
    for step in range(n - 1, 2 * n - 1):
        assert all(row.count(everyone) == step - n + 2 for row in held_after(n, step)[0])
