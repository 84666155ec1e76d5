"""Which optimizers may see a piece of a row, and in which forms parameter groups come."""

from functools import partial

import pytest
import torch
from sharded_cases import ClipsItself, Lamb, Sign
from torch import nn

from mathlib.checks import InputError
from mathlib.parallel.zero import sharded_optimizer

OPTIM = torch.optim
BY_ELEMENT = [OPTIM.ASGD, OPTIM.Adadelta, OPTIM.Adagrad, OPTIM.Adam, OPTIM.AdamW, OPTIM.Adamax]
BY_ELEMENT += [OPTIM.NAdam, OPTIM.RAdam, OPTIM.RMSprop, OPTIM.Rprop, OPTIM.SGD, Sign]


def over(make, **group):
    shard = nn.Parameter(torch.ones(5))
    return sharded_optimizer.optimizer_over(make, [group], [(0, shard)]).param_groups[0]


@pytest.mark.parametrize("kind", BY_ELEMENT)
def test_what_treats_every_element_by_itself_is_taken(kind):
    assert [len(p) for p in over(kind)["params"]] == [5]


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (partial(Lamb, lr=0.1), "Lamb: looks at whole tensors"),
        (partial(ClipsItself, lr=0.1), "ClipsItself: looks at whole tensors"),
        (torch.optim.Adafactor, "Adafactor: looks at whole tensors"),
        (torch.optim.Muon, "Muon: cannot update a shard of a flat buffer"),
        (torch.optim.LBFGS, "LBFGS: cannot update a shard of a flat buffer"),
        (torch.optim.SparseAdam, "SparseAdam: cannot update a shard of a flat buffer"),
    ],
)
def test_what_looks_at_more_is_refused_by_name(kind, why):
    with pytest.raises(InputError, match=f"optimizer = {why}.* such as SGD, Adam or AdamW"):
        over(kind)


def test_a_schedule_that_begins_at_zero_hides_nothing():
    with pytest.raises(InputError, match="looks at whole tensors"):
        over(partial(Lamb, lr=0.0))
    assert over(partial(torch.optim.Adam, lr=torch.tensor(0.0)))["lr"] == 0


def test_the_options_of_a_group_are_tried_and_stay():
    assert over(torch.optim.SGD, lr=0.3, momentum=0.5)["lr"] == 0.3
    with pytest.raises(TypeError, match="no_such_option"):
        over(partial(torch.optim.SGD, no_such_option=1))


def test_groups_in_every_form_of_torchs_optimizers_are_the_same():
    layer = nn.Linear(2, 3)
    both = list(layer.parameters())
    for groups in (
        None,
        layer.parameters(),
        layer.named_parameters(),
        [{"params": layer.parameters()}],
        iter([{"params": filter(lambda p: p.requires_grad, both)}]),
    ):
        (group,) = sharded_optimizer.grouped(layer, groups)
        assert group["params"] == both
    weight, bias = sharded_optimizer.grouped(
        layer, [{"params": layer.weight}, {"params": layer.bias, "lr": 2}]
    )
    assert weight == {"params": [layer.weight]} and bias == {"params": [layer.bias], "lr": 2}
