"""Without delay it is one process; with delay it is the recurrence, by hand."""

import pytest
import torch
from torch import nn

from mathlib.model import delayed_sgd, gpt, oracle


def test_without_delay_it_is_one_process():
    batches = [tuple(torch.randint(0, 8, (2, 4)) for _ in range(2)) for _ in range(3)]
    shape = gpt.small(layers=1, width=8, heads=2, vocab=8, context=4, tied=False)
    results = []
    for train in (oracle.one_process, lambda *given: delayed_sgd.one_process(*given, lambda _: 0)):
        model = gpt.GPT(shape).double()
        results.append(train(model, batches, oracle.OPTIMIZERS["SGD"](model.parameters())))
    wanted, (found, _) = results
    assert all(torch.equal(one, other) for one, other in zip(wanted, found, strict=True))


@pytest.mark.parametrize("late", [0, 1, 2])
def test_the_recurrence_by_hand(late):
    """One weight w and the loss of two classes with scores w and 0: f' = -1 / (1 + e^w)."""

    class One(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.tensor(0.5, dtype=torch.float64))

        def forward(self, tokens):
            return torch.stack([self.w, 0 * self.w]).expand(*tokens.shape, 2)

    model, batch = One(), (torch.zeros(1, 1), torch.zeros(1, 1, dtype=torch.long))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    found, losses = delayed_sgd.one_process(model, [batch] * 4, optimizer, lambda _: late)
    w = [torch.tensor(0.5, dtype=torch.float64)]
    for k in range(4):
        met = w[max(0, k - late)]
        assert losses[k] == pytest.approx(float(torch.log1p(torch.exp(-met))))
        w.append(w[k] + 0.5 / (1 + torch.exp(met)))
        assert found[k].item() == pytest.approx(w[-1].item(), rel=1e-12)
