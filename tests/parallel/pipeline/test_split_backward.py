"""I and then W leave what one backward leaves, for the same number of operations."""

import pipelines
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from mathlib.checks import InputError
from mathlib.parallel.pipeline import model_chunks
from mathlib.parallel.pipeline.split_backward import LaterWeights
from mathlib.schedule import orders

B = pipelines.SEQUENCES
SCHEDULE = orders.make("gpipe", stages=2, micro_batches=1)


def chunk_and_output(recompute="none", later=None, freeze=False):
    """The second half of the model, on an input of its own."""
    chunk = model_chunks.build(pipelines.shape(), SCHEDULE, 1, recompute=recompute)[1].double()
    if freeze:
        chunk.blocks["2"].mlp.up.requires_grad_(False)
    if later:
        later.watch(chunk)
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(B, 8, 16, generator=draw, dtype=torch.float64, requires_grad=True)
    return chunk, x, chunk(x)


def gradients(chunk, x):
    return {"x": x.grad} | {name: p.grad for name, p in chunk.named_parameters()}


@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
@pytest.mark.parametrize("freeze", [False, True])
def test_both_parts_leave_what_one_backward_leaves(recompute, freeze):
    one, x, y = chunk_and_output(freeze=freeze)
    y.square().sum().backward()
    wanted = gradients(one, x)
    later = LaterWeights()
    two, x, y = chunk_and_output(recompute, later, freeze)
    with later.put_off("first"):
        y.square().sum().backward()
    assert (x.grad - wanted["x"]).abs().max() < 1e-12
    assert two.head.weight.grad is None and two.norm.weight.grad is not None
    later.form("first")
    for name, found in gradients(two, x).items():
        assert (found is None) == (wanted[name] is None), name
        assert found is None or (found - wanted[name]).abs().max() < 1e-12, name
    assert not later.waiting


def test_watched_matmuls_go_back_whole_outside_the_block():
    one, x, y = chunk_and_output()
    y.sum().backward()
    two, z, y = chunk_and_output(later=LaterWeights())
    y.sum().backward()
    for name, found in gradients(two, z).items():
        assert (found - gradients(one, x)[name]).abs().max() < 1e-12, name


def test_the_parts_cost_together_what_the_whole_costs():
    """Nothing is done twice: the matmuls of I and W are those of B."""
    counts = []
    for parts in (1, 2):
        later = LaterWeights()
        _, _, y = chunk_and_output(later=later)
        with FlopCounterMode(display=False) as counter:
            if parts == 1:
                y.sum().backward()
            else:
                with later.put_off(0):
                    y.sum().backward()
        counts.append(counter.get_total_flops())
        if parts == 2:
            with FlopCounterMode(display=False) as counter:
                later.form(0)
            counts.append(counter.get_total_flops())
    whole, first, second = counts
    assert whole == first + second
    assert 0 < second < first  # attention's own matmuls have no weights


def test_weights_that_nobody_put_off_are_refused():
    with pytest.raises(InputError, match="name = 3"):
        LaterWeights().form(3)
