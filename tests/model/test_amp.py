"""Mixed precision beside torch.autocast and GradScaler: the same losses to the bit, the same
skipped steps; and what goes wrong without a scale.
"""

import pytest
import torch
from torch import nn

from mathlib.checks import InputError
from mathlib.model import amp, data, gpt
from mathlib.model.oracle import flat_weights, loss

SHAPE = gpt.small(width=32, context=16, vocab=len(data.vocabulary()))
BATCHES = [data.batch(4, SHAPE.context, step) for step in range(6)]
HALVES = (torch.float16, torch.bfloat16)


def fresh(make=torch.optim.Adam, lr=3e-3):
    model = gpt.GPT(SHAPE)
    return model, make(model.parameters(), lr=lr)


def by_torch(dtype, scaler, make):
    """The same steps with torch's own classes."""
    model, optimizer = fresh(make)
    losses, scales = [], []
    for batch in BATCHES:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype):
            value = loss(model, *batch)
        scaler.scale(value).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(value.item())
        scales.append(scaler.get_scale())
    return losses, scales, flat_weights(model)


@pytest.mark.parametrize("make", [torch.optim.Adam, torch.optim.SGD])
@pytest.mark.parametrize("dtype", HALVES)
def test_losses_scales_and_weights_are_torchs(dtype, make):
    theirs = torch.amp.GradScaler("cpu", init_scale=2.0**22, growth_interval=3)
    losses, scales, weights = by_torch(dtype, theirs, make)
    model, optimizer = fresh(make)
    ours = amp.LossScaler(2.0**22, interval=3)
    found, held = [], []
    for batch in BATCHES:
        found += amp.train(model, [batch], optimizer, loss, dtype, ours)
        held.append(ours.scale)
    assert found == losses and held == scales
    assert torch.equal(flat_weights(model), weights)
    assert (ours.skipped > 0) == (dtype == torch.float16)


def test_matmuls_are_narrow_and_the_loss_is_not():
    model, _ = fresh()
    with amp.Casts(torch.bfloat16) as casts:
        assert model.head(torch.ones(2, SHAPE.width)).dtype == torch.bfloat16
        assert model.norm(torch.ones(2, SHAPE.width)).dtype == torch.float32
        assert model.loss(*BATCHES[0]).dtype == torch.float32
    assert all(p.dtype == torch.float32 for p in model.parameters()) and not casts.copies


def test_a_weight_is_cast_once_a_forward_and_its_copy_counted():
    model, _ = fresh()
    with amp.Casts(torch.float16) as casts:
        for _ in range(3):
            model(BATCHES[0][0])
        assert casts.narrow(model.head.weight) is casts.narrow(model.head.weight)
    linear = {
        id(p): p
        for layer in model.modules()
        if isinstance(layer, nn.Linear)
        for p in layer.parameters()
    }
    assert casts.copied == 2 * sum(p.numel() for p in linear.values())


def test_a_static_scale_stays_and_an_infinite_gradient_changes_no_weight():
    layer = nn.Linear(1, 1, bias=False)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    before = layer.weight.item()
    for dynamic, wanted in ((False, 8.0), (True, 4.0)):
        scaler = amp.LossScaler(8.0, dynamic=dynamic)
        layer.weight.grad = torch.full((1, 1), float("inf"))
        assert not scaler.step(optimizer) and layer.weight.item() == before
        assert (scaler.scale, scaler.skipped) == (wanted, 1)
    layer.weight.grad = torch.full((1, 1), 8.0)
    assert scaler.step(optimizer) and layer.weight.item() == pytest.approx(before - 0.1 * 2)


def test_a_dynamic_scale_grows_after_good_steps_in_a_row():
    scaler = amp.LossScaler(4.0, interval=2)
    for finite, wanted in ((True, 4), (True, 8), (True, 8), (False, 4), (True, 4), (True, 8)):
        scaler.update(finite)
        assert scaler.scale == wanted


def test_alike_micro_batches_are_one_step_of_as_many():
    model, optimizer = fresh()
    twin, other = fresh()
    amp.train(model, BATCHES[:1], optimizer, loss, micro_batches=4)
    for _ in range(4):
        (loss(twin, *BATCHES[0]) / 4).backward()
    other.step()
    torch.testing.assert_close(flat_weights(model), flat_weights(twin))


def test_shares_of_what_a_type_cannot_say():
    values = [torch.tensor([0.0, 1.0, 2.0**-24, 2.0**-26, 1e5, -(2.0**-26)])]
    found = amp.underflow(lambda: values, torch.float16)
    assert found == {"zero": 0.4, "subnormal": 0.2, "too large": 0.2}
    assert amp.underflow(lambda: values, torch.float16, 4.0)["zero"] == 0
    assert amp.underflow(lambda: values, torch.bfloat16)["zero"] == 0


def test_a_step_without_gradients_is_refused():
    _, optimizer = fresh()
    with pytest.raises(InputError, match="has no gradients"):
        amp.LossScaler().step(optimizer)
    with pytest.raises(InputError, match="dtype"):
        amp.Casts(torch.float32)


def test_gradients_at_the_logits_are_those_of_autograd():
    model, (tokens, targets) = gpt.GPT(SHAPE), BATCHES[0]
    logits = model(tokens).detach().requires_grad_()
    nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten()).backward()
    found = amp.logit_gradients(logits.detach(), targets, targets.numel())
    torch.testing.assert_close(found.float(), logits.grad)
