"""The rule of the SageMaker page, condition by condition."""

import pytest

from mathlib.checks import InputError
from mathlib.plan import smddp

GOOD = {"shard": 16, "nodes": 2, "gather_input": 8 * 2**20}


def test_every_condition_met_is_smddp():
    found = smddp.back_end(**GOOD)
    assert found.name == "smddp" and not found.reasons and "every condition" in str(found)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"shard": 1}, "not above 1"),
        ({"nodes": 1}, "one node"),
        ({"instance": "ml.p3dn.24xlarge"}, "ml.p3dn.24xlarge, not ml.p4d.24xlarge"),
        ({"asked": "nccl"}, "ddp_dist_backend"),
        ({"gather_input": 17 * 2**20, "shard": 2}, "scratch buffer"),
        ({"sort_buffer_bytes": 8192}, "sort buffer"),
    ],
)
def test_each_condition_alone_makes_it_nccl(change, reason):
    found = smddp.back_end(**GOOD | change)
    assert found.name == "nccl" and len(found.reasons) == 1 and reason in found.reasons[0]


def test_the_sort_buffer_at_its_limit():
    """Default 128 MB holds an input of 16 MB for degree 64 exactly: 1/8 * 64 * 16 MB."""
    assert smddp.sort_buffer(shard=64, gather_input=16 * 2**20) == smddp.SORT
    at = {"shard": 64, "nodes": 8, "gather_input": 16 * 2**20}
    assert smddp.back_end(**at).name == "smddp"
    assert smddp.back_end(**at | {"shard": 65}).name == "nccl"


def test_the_pages_tuned_buffers_make_most_gathers_nccl():
    """Its example sets both buffers to 8192 bytes: an input may then have 8192, and less from
    degree 9 on.
    """
    small = {"nodes": 8, "scratch_buffer": 8192, "sort_buffer_bytes": 8192}
    assert smddp.back_end(shard=8, gather_input=8192, **small).name == "smddp"
    assert smddp.back_end(shard=64, gather_input=1024, **small).name == "smddp"
    assert smddp.back_end(shard=64, gather_input=1026, **small).name == "nccl"
    layer = 12 * 6144**2 * 2 / 64  # bytes of GPT-NeoX's layer that a rank of 64 has
    assert len(smddp.back_end(shard=64, gather_input=layer, **small).reasons) == 2


@pytest.mark.parametrize("name", ["scratch_buffer", "sort_buffer_bytes"])
def test_buffers_are_multiples(name):
    with pytest.raises(InputError, match=f"{name} = 10000: expected a multiple of 8192"):
        smddp.back_end(**GOOD | {name: 10000})
