"""Who is chosen, and what keeps loads alike."""

import torch

from mathlib.parallel.experts import router


def test_a_bias_chooses_and_does_not_weigh():
    logits = torch.tensor([[0.0, 1.0, 2.0]])
    for score in router.SCORES:
        how = router.Routing(score)
        plain = router.choose(logits, torch.zeros(3), 2, how)
        moved = router.choose(logits, torch.tensor([2.0, 0.0, 0.0]), 2, how)
        assert plain.chosen.tolist() == [[2, 1]] and moved.chosen.tolist() == [[0, 2]]
        assert moved.weights[0, 1] == plain.weights[0, 0]
        assert torch.allclose(moved.shares.sum(-1), torch.ones(1))
    shares = router.choose(logits, torch.zeros(3), 2, router.Routing(normalised=True)).weights
    assert torch.allclose(shares.sum(), torch.ones(()))


def test_the_auxiliary_loss_is_1_where_loads_are_alike_and_e_where_one_expert_has_all():
    even, one = torch.full((6, 4), 0.25), torch.eye(4)[[0] * 6]
    tokens = torch.tensor(6.0)
    assert router.auxiliary(even, torch.tensor([3.0, 3, 3, 3]), tokens) == 1
    assert router.auxiliary(one, torch.tensor([6.0, 0, 0, 0]), tokens) == 4


def test_a_bias_evens_out_loads_that_no_loss_pushes():
    draw = torch.Generator().manual_seed(0)
    logits = torch.randn(512, 8, generator=draw) + torch.linspace(0, 2, 8)
    bias, how, most = torch.zeros(8), router.Routing("sigmoid", bias_rate=0.02), []
    for _ in range(100):
        chosen = router.choose(logits, bias, 2, how).chosen
        visits = chosen.flatten().bincount(minlength=8).float()
        most.append((visits.max() / visits.mean()).item())
        bias = router.moved(bias, visits, how.bias_rate)
    assert most[0] > 1.7 and most[-1] < 1.3, (most[0], most[-1])
