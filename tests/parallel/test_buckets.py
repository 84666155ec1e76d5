"""What a bucket holds, when it is full, and which parameters a result leads to."""

import random
from collections import OrderedDict
from dataclasses import dataclass

import torch
import torch.distributed as dist
from small_models import FLOATS
from torch import nn

from mathlib.parallel import buckets


def test_a_bucket_is_full_where_torchs_is():
    draw = random.Random(0)
    for _ in range(200):
        tensors = [
            torch.empty(draw.randrange(1, 100), dtype=draw.choice(FLOATS))
            for _ in range(draw.randrange(1, 30))
        ]
        first, later = draw.randrange(1, 1000), draw.randrange(1, 2000)
        theirs, _ = dist._compute_bucket_assignment_by_size(tensors, [first, later])
        ours = buckets.buckets_of(map(nn.Parameter, tensors), first, later)
        number = {tensor.data_ptr(): i for i, tensor in enumerate(tensors)}
        assert sorted([number[p.data_ptr()] for p in bucket.slots] for bucket in ours) == sorted(
            theirs
        )


def test_types_and_devices_travel_apart():
    kinds = [(dtype, device) for dtype in FLOATS for device in ("cpu", "meta")]
    parameters = [nn.Parameter(torch.empty(2, dtype=d, device=place)) for d, place in kinds * 2]
    found = buckets.buckets_of(parameters, 1e9, 1e9)
    assert [(b.flat.dtype, b.flat.device.type, b.flat.numel()) for b in found] == [
        (*kind, 4) for kind in kinds
    ]


def test_a_slot_lies_in_the_bucket_in_the_form_of_its_parameter():
    tensors = {
        "rows": torch.randn(3, 4),
        "columns": torch.randn(3, 4).t(),
        "channels last": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
        "no dense one": torch.randn(6, 4)[::2],
        "a number": torch.tensor(1.0),
        "nothing": torch.zeros(0, 3),
    }
    parameters = {name: nn.Parameter(t) for name, t in tensors.items()}
    (bucket,) = buckets.buckets_of(parameters.values(), 1e9, 1e9)
    for number, (name, p) in enumerate(parameters.items()):
        slot = bucket.slots[p].fill_(number)
        assert slot.shape == p.shape
        assert (slot.stride() == p.stride()) == (name != "no dense one"), name
        assert (bucket.flat == number).sum() == p.numel() or number == 0, name
    assert bucket.flat.tolist() == [0] * 12 + [1] * 12 + [2] * 120 + [3] * 12 + [4]


def test_a_slot_tells_who_wrote_in_it_and_not_what_befell_the_bucket():
    p = nn.Parameter(torch.ones(2))
    (bucket,) = buckets.buckets_of([p], 1, 1)
    before = bucket.slots[p]._version
    bucket.flat += 1
    assert bucket.slots[p]._version == before and bucket.slots[p].tolist() == [1, 1]
    bucket.slots[p].mul_(2)
    assert bucket.slots[p]._version != before and bucket.flat.tolist() == [2, 2]


def test_all_parameters_behind_all_outputs_are_found():
    layers = [nn.Linear(2, 2) for _ in range(3)]
    x = torch.ones(1, 2)
    outputs = {"a": [layers[0](x)], "b": (layers[1](x), layers[2].bias)}
    expected = {*layers[0].parameters(), *layers[1].parameters(), layers[2].bias}
    assert buckets.reachable(outputs) == expected


def test_a_bucket_takes_what_the_hooks_future_held():
    p = nn.Parameter(torch.ones(2))
    (bucket,) = buckets.buckets_of([p], 1, 1)
    bucket.flat.fill_(3)
    for sums in (None, [None], bucket.flat, [bucket.flat], bucket.flat[:1]):
        bucket.take(sums)  # nothing, or what is there already
        assert bucket.slots[p].tolist() == [3, 3]
    for number, sums in enumerate((torch.ones(2), [torch.full((1, 2), 2.0)]), 1):
        bucket.take(sums)
        assert bucket.slots[p].tolist() == [number, number]


@dataclass
class Output:
    x: torch.Tensor


class Mapped(OrderedDict):
    """A mapping that torch does not know."""


def test_mappings_and_dataclasses_are_looked_into():
    x, y = torch.ones(1), torch.ones(2)
    found = list(buckets.tensors_in([Mapped(a=x), Output(y), Output(Mapped(b=[x])), 3, None]))
    assert list(map(id, found)) == list(map(id, [x, y, x]))


def test_a_graph_of_many_ways_is_walked_once():
    """Each of 200 values is used twice, which makes 2^200 ways."""
    p = nn.Parameter(torch.ones(1))
    x = p * 1
    for _ in range(200):
        x = x.sin() + x.cos()
    assert buckets.reachable(x) == {p}
