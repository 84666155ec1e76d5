"""Parts of all ranks are the parameter again."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mathlib.checks import InputError
from mathlib.parallel.tensor.split_tensors import WHOLE, Cut, share, sharers


@given(st.integers(1, 7), st.integers(1, 9), st.integers(1, 3), st.integers(1, 3))
def test_parts_are_the_parameter_again(ranks, heads, d, matrices):
    if heads < ranks and ranks % heads:
        with pytest.raises(InputError, match=f"a multiple of the {heads} key-value heads"):
            sharers(heads, ranks)
        return
    for dim in (0, 1):
        rows = heads * d * matrices
        shape = (rows, 5) if dim == 0 else (5, rows)
        whole, cut = torch.arange(5.0 * rows).view(shape), Cut(dim, d, matrices)
        parts = [cut.mine(whole, r, ranks) for r in range(ranks)]
        assert torch.equal(cut.joined(parts, rows), whole)
        sizes = {part.shape[dim] for part in parts}
        assert max(sizes) - min(sizes) in (0, d * matrices)
        assert sum(part.numel() for part in parts) == whole.numel() * sharers(heads, ranks)


def test_a_whole_one_is_alike_and_nobody_has_no_word():
    x = torch.ones(3)
    assert torch.equal(WHOLE.joined([WHOLE.mine(x, 1, 2)], 3), x)
    assert [list(share(2, r, 4)) for r in range(4)] == [[0], [0], [1], [1]]
