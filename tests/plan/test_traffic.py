"""Where communication takes over: by hand, by laws, and for the speaker's own figures."""

import pytest

from mathlib import specs
from mathlib.checks import InputError
from mathlib.plan import traffic

NEOX = specs.find_model("gpt-neox-20b").parameters
BATCH = 1538 * 2048  # tokens of a batch of GPT-NeoX-20B (Black et al. 2022, arXiv:2204.06745)
SUMMIT = specs.find_cluster("summit")
V100 = {"achieved": 35e12, "bandwidth": SUMMIT.node_bandwidth}  # "between 30 and 40", he says
NODES = V100 | {"parameters": NEOX, "devices_per_node": SUMMIT.devices_per_node}


def test_a_step_by_hand():
    found = traffic.step_time(
        parameters=10.0,
        stage=3,
        data=5,
        rank_tokens=7,
        achieved=100.0,
        bandwidth=8.0,
        latency=0.5,
        messages=3,
        micro_batches=2,
    )
    assert found["compute"] == 6 * 10 * 7 / 100
    assert found["transfer"] == pytest.approx(2 * 3 * 2 * 10 * 4 / 5 / 8)
    assert found["latency"] == pytest.approx(2 * 3 * 3 * 4 * 0.5)


def test_one_rank_sends_nothing():
    alone = traffic.step_time(
        parameters=1e9, stage=3, data=1, rank_tokens=10, achieved=1e12, bandwidth=1e9, latency=1
    )
    assert alone["transfer"] == alone["latency"] == 0


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_even_tokens_are_even(stage):
    tokens = traffic.even_tokens(stage=stage, **V100)
    found = traffic.step_time(parameters=3e9, stage=stage, data=10**6, rank_tokens=tokens, **V100)
    assert found["compute"] == pytest.approx(found["transfer"], rel=1e-5)


def test_stage_3_needs_half_as_many_again():
    one, three = (traffic.even_tokens(stage=stage, **V100) for stage in (1, 3))
    assert three == pytest.approx(1.5 * one) == pytest.approx(1400)


def test_it_is_the_first_of_all_that_follow():
    given = NODES | {"stage": 3, "latency": 1e-5, "messages": 45}
    n = traffic.tipping_point(batch_tokens=BATCH, **given)
    own = {k: v for k, v in given.items() if k != "devices_per_node"}

    def share(devices):
        took = traffic.step_time(data=devices, rank_tokens=BATCH / devices, **own)
        return 1 - took.share("compute")

    assert share(n - 6) <= 0.5 < share(n) < share(2 * n)
    assert n % 6 == 0


def test_a_fixed_batch_a_rank_tips_by_latency_alone():
    given = NODES | {"stage": 3, "rank_tokens": 2048}
    assert traffic.tipping_point(**given) == 0, "bytes a rank sends do not grow with the ranks"
    few = traffic.tipping_point(latency=1e-5, messages=45, **given)
    many = traffic.tipping_point(latency=1e-5, messages=540, **given)
    assert 0 < many < few


def test_the_speakers_number_needs_more_than_the_machines_figures():
    """100 to 200 devices: not with the batch that the model was trained with and a message a layer;
    with one sequence a rank and a message a tensor they come out.
    """
    own = traffic.tipping_point(stage=3, batch_tokens=BATCH, **NODES)
    late = traffic.tipping_point(
        stage=3, batch_tokens=BATCH, latency=1e-5, messages=45, micro_batch_tokens=2048, **NODES
    )
    assert own > 2000 and late > 800
    tensors = 12 * 44 + 3
    one = traffic.tipping_point(stage=3, rank_tokens=2048, latency=1e-5, messages=tensors, **NODES)
    assert 100 <= one <= 200
    for sequences, wanted in ((68, 100), (137, 200)):
        small = traffic.tipping_point(stage=3, batch_tokens=sequences * 2048, **NODES)
        assert small == pytest.approx(wanted, rel=0.1)


def test_todays_machines_tip_no_later():
    """Faster devices need faster wires: what counts is X / W."""
    a100 = traffic.even_tokens(stage=3, achieved=150e12, bandwidth=50e9)
    h100 = traffic.even_tokens(stage=3, achieved=400e12, bandwidth=400e9)
    summit = traffic.even_tokens(stage=3, **V100)
    assert a100 > summit > h100


def test_one_batch_and_not_the_other_is_asked_for():
    for given in ({}, {"batch_tokens": 1e6, "rank_tokens": 1e3}):
        with pytest.raises(InputError, match="one of them"):
            traffic.tipping_point(stage=3, **given, **NODES)
