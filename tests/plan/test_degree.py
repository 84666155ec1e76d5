"""The choice of degree: the page's advice, followed for the page's own models."""

import pytest

from mathlib.checks import InputError
from mathlib.memory import fit, zero_rank
from mathlib.plan import degree
from mathlib.specs import Layout, Model, find_model

SMALL = Model("small", layers=4, width=64, heads=4, vocab=250, context=32, dropout=False)
HOW = {"recipe": "mixed-adam", "keep_half": True}  # SageMaker's library builds on DeepSpeed's
RESERVE = 2e9  # context, NCCL, fragments: no formula knows them
NEOX = "gpt-neox-20b"
# The page gives no shape for its 65B; 80 layers of width 8192 have 64.4 billion weights.
NEOX_65B = find_model(NEOX).but(layers=80, width=8192, parameters=0)


def needed(n: int, degree: int, b: int, **options) -> float:
    zero = 3 if degree > 1 else 0
    layout = Layout(data=n, shard=degree, zero=zero, micro_batch=b)
    return zero_rank.peak(SMALL, layout, **HOW, **options).total


def test_the_smallest_degree_then_the_largest_batch():
    room = needed(12, 3, 2)
    found = degree.choose(SMALL, Layout(data=12), room, **HOW)
    assert found and found.layout.shard == 3 and found.layout.micro_batch == 2
    assert [one.layout.shard for one in found.tries] == [1, 2, 3], "divisors, and no further"
    assert not any(one.verdict for one in found.tries[:-1])
    assert found.refused.layout.micro_batch == 3 and not found.refused.verdict
    assert "degree 2, batch 1: does not fit" in str(found) and "degree 3, batch 2: fits" in str(
        found
    )


def test_a_batch_that_is_wanted_raises_the_degree():
    room = needed(12, 3, 2)
    found = degree.choose(SMALL, Layout(data=12), room, micro_batch=3, **HOW)
    assert found.layout.shard > 3 and found.layout.micro_batch >= 3


def test_every_batch_up_to_the_largest_fits_and_no_larger_one():
    for b in (1, 2, 5, 6, 9):
        room = needed(4, 2, b) + 1
        found = degree.choose(SMALL, Layout(data=4), room, **HOW)
        if found.layout.shard == 2:
            assert found.layout.micro_batch == b
    assert degree.choose(SMALL, Layout(data=4), 1e15, most=7, **HOW).layout.micro_batch == 7


def test_where_nothing_fits_every_degree_has_its_reason():
    found = degree.choose(SMALL, Layout(data=6), 1e4, **HOW)
    assert not found and [one.layout.shard for one in found.tries] == [1, 2, 3, 6]
    assert all("does not fit" in str(one) for one in found.tries)
    with pytest.raises(InputError, match="no degree fits"):
        _ = found.layout


def chosen(nodes: int, attention: str, **wanted) -> degree.Choice:
    layout = Layout(data=8 * nodes, recompute="full")
    options = HOW | {"reserve": RESERVE, "attention": attention} | wanted
    return degree.choose(NEOX, layout, "a100-40gb", **options)


@pytest.mark.parametrize("attention", ["standard", "flash"])
def test_the_pages_20b_on_two_nodes(attention):
    """The page: degree 16, 4 sequences a device."""
    found = chosen(2, attention)
    assert found.layout.shard == 16 and found.layout.micro_batch >= 4


def test_the_pages_20b_on_eight_nodes_needs_a_fused_attention():
    """The page: degree 32, 12 sequences a device; with all scores they do not fit."""
    assert chosen(8, "flash", micro_batch=12).layout.shard == 32
    page = Layout(data=64, shard=32, zero=3, micro_batch=12, recompute="full")
    scores = zero_rank.peak(NEOX, page, attention="standard", **HOW)
    assert not fit.fits(scores, "a100-40gb")
    assert chosen(8, "flash").layout.shard == 16, "for its smallest batch half the degree is enough"


@pytest.mark.parametrize(("tokens", "b", "shard", "tensor"), [(2048, 8, 16, 8), (4096, 2, 64, 2)])
def test_the_pages_65b_on_64_nodes(tokens, b, shard, tensor):
    """It fits, even with the layers' inputs on the device that the page offloads."""
    layout = Layout(
        data=512 // tensor, tensor=tensor, shard=shard, zero=3, micro_batch=b, recompute="full"
    )
    found = zero_rank.peak(NEOX_65B, layout, tokens=tokens, **HOW)
    assert fit.fits(found, "a100-40gb", reserve=RESERVE)
    kept = 80 * 2 * tokens * b * 8192
    assert 0.9 * kept < found.amount("activations") <= kept and kept > 0.3 * found.total
