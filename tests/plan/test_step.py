"""A step's parts against FLOP, bytes on the wire and idle time as the other rooms count them."""

from dataclasses import replace

import pytest

from mathlib.checks import InputError
from mathlib.compute import flops
from mathlib.layout import stage_sizes
from mathlib.plan import step, work
from mathlib.plan.calibration import Rates, find_rates
from mathlib.schedule import bubble
from mathlib.specs import Cluster, Layout, find_cluster, find_model
from mathlib.traffic import volumes

PERFECT = Rates(
    matmul=1, grouped=1, attention=1, memory=1, link=1, network=1, hop=0, reread=1e-12, traffic=0,
    launch=0, data_hidden=0,
)  # fmt: skip
NODE = Cluster("one node", "h100-sxm", 64, 64 * 50e9)  # all ranks are neighbours
LLAMA = find_model("llama3-8b")
LINK = 450e9


def timed(layout: Layout, name: str = "llama3-8b", rates: Rates = PERFECT, **how):
    return step.step(step.machine(name, NODE, rates, tokens=2048, **how), layout)


def test_alone_and_perfect_a_step_is_its_flop() -> None:
    found = timed(Layout(micro_batches=3))
    counted = flops.training(LLAMA, tokens=2048, sequences=3, causal=True, attention_backward=2.5)
    assert found.total - found.amount("optimizer") == pytest.approx(counted.total / 989e12)
    on = step.machine(LLAMA, NODE, PERFECT, tokens=2048)
    assert (
        1 < step.utilization(on, Layout(micro_batches=300)) < 1.1
    )  # full pairs, half are computed
    full = Layout(micro_batches=3, recompute="full")
    assert step.utilization(on, full, executed=True) > step.utilization(on, full)
    again = timed(full).amount("recomputation")
    assert again == pytest.approx(
        (flops.forward(LLAMA, tokens=2048, sequences=3, causal=True).total
         - 3 * 2 * 2048 * LLAMA.width * LLAMA.padded_vocab) / 989e12
    )  # fmt: skip


@pytest.mark.parametrize("recompute", ["none", "full"])
def test_tensor_exchange_is_what_is_sent(recompute: str) -> None:
    lay = Layout(tensor=4, micro_batches=3, recompute=recompute)
    sent = volumes.tensor_parallel(
        LLAMA, tensor=4, tokens=2048, micro_batches=3, recompute=recompute
    )
    assert timed(lay).amount("TP communication") == pytest.approx(sent.total / LINK)
    hidden = timed(lay, rates=replace(PERFECT, tensor_hidden=0.75))
    assert hidden.amount("TP communication") == pytest.approx(sent.total / LINK / 4)


def test_context_and_expert_exchanges_are_what_is_sent() -> None:
    lay = Layout(context=4, micro_batches=2)
    sent = volumes.context_parallel(
        LLAMA, context=4, tokens=2048, micro_batches=2, method="all-gather"
    )
    assert timed(lay).amount("CP communication") == pytest.approx(sent.total / LINK)
    experts = Layout(data=8, expert=8, micro_batches=2)
    sent = volumes.expert_parallel("mixtral-8x7b", expert=8, tokens=2048, micro_batches=2)
    found = timed(experts, "mixtral-8x7b").amount("EP communication")
    assert found == pytest.approx(sent.total / LINK)


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
@pytest.mark.parametrize("shard", [0, 2])
def test_data_exchange_is_what_is_sent(zero: int, shard: int) -> None:
    lay = Layout(data=8, zero=zero, shard=shard if zero else 0, micro_batches=3)
    on = step.machine(LLAMA, NODE, PERFECT, tokens=2048)
    own = step._held(on, lay)
    sent = volumes.zero(
        parameters=own.dense + 2 * own.table,
        data=8,
        stage=zero,
        shard=lay.shard,
        micro_batches=3,
        gradient_bytes=4,
    )
    assert step.step(on, lay).amount("DP communication") == pytest.approx(sent.total / LINK)
    hides = step.machine(LLAMA, NODE, replace(PERFECT, data_hidden=1), tokens=2048)
    found = step.step(hides, lay)
    left = found.amount("DP communication") if "DP communication" in found else 0
    assert left < sent.total / LINK


@pytest.mark.parametrize(("p", "v"), [(2, 1), (4, 1), (4, 2), (8, 4)])
def test_the_bubble_is_that_of_the_schedule(p: int, v: int) -> None:
    lay = Layout(pipeline=p, chunks=v, micro_batches=16)
    found = timed(lay, rates=replace(PERFECT, sends=0))
    busy = found.amount("matmuls") + found.amount("attention")
    loss = found.amount("loss on the last stage") / 16  # 32 layers divide: all of it is there
    mean = busy / 16 + loss / p
    idle = bubble.over_ideal(stages=p, micro_batches=16, chunks=v)
    assert found.amount("bubble") == pytest.approx(16 * mean * idle)


def test_what_grows_a_step() -> None:
    """Each cause for itself: launches, crowding, a last stage with the loss, uneven layers."""
    lay = Layout(pipeline=4, micro_batches=16)
    base = timed(lay)
    slow = timed(lay, rates=replace(PERFECT, launch=0.1))
    assert slow.amount("waiting for launches") > 10 * base.total
    assert base.amount("loss on the last stage") > 0
    uneven = timed(lay, LLAMA.but(layers=29, name="29 layers"))
    assert uneven.amount("matmuls") == base.amount("matmuls")  # 7, 8, 7, 7 layers
    assert uneven.amount("loss on the last stage") < base.amount("loss on the last stage")
    for layers in range(4, 40):
        assert step._layers(lay, layers) == stage_sizes(layers, 4)[1:]
    many = step.machine(LLAMA, find_cluster("dgx-h100"), replace(PERFECT, crowd=0.1), tokens=2048)
    assert step.step(many, Layout(data=16)).amount("crowding") > 0


def test_every_part_of_a_step_has_its_letters() -> None:
    rates = replace(PERFECT, crowd=0.1)
    on = step.machine("mixtral-8x7b", find_cluster("dgx-h100"), rates, tokens=2048)
    lay = Layout(data=4, pipeline=4, chunks=2, zero=1, shard=2, micro_batches=8)
    letters, found = step.letters(on, lay), step.step(on, lay)
    assert set(found) < set(letters) == set(step.NAMES) - {"offloading"}
    given = letters["optimizer"]
    own = step._held(on, lay)
    assert given["P"] == own.dense + own.experts + own.table and given["S"] == 2
    assert found["optimizer"] == pytest.approx(work.STATE * given["P"] / 2 / given["W"])
    rest = found.total - found.amount("crowding")
    assert letters["crowding"] == {"c": 0.1, "n": 2, "t_0": pytest.approx(rest)}


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(InputError, match="precision = 'fp8': a100-80gb has no such matmuls"):
        step.machine(LLAMA, find_cluster("dgx-a100"), Rates(precision="fp8"))
    with pytest.raises(InputError, match="layout"):
        step.step(step.machine(LLAMA, NODE, find_rates("h100-sxm")), None)


HOST = step.Host(link=50e9, memory=1e12, bandwidth=100e9)


def test_a_host_updates_weights_as_fast_as_its_link_and_its_memory() -> None:
    on = step.machine(LLAMA, NODE, PERFECT, tokens=2048, host=HOST)
    for zero, S in ((0, 1), (1, 8), (3, 8)):
        lay = Layout(data=8, zero=zero, micro_batches=4)
        here, there = step.step(on, lay), step.step(on, lay, offload="states")
        own = step._held(on, lay)
        P = (own.dense + own.table) / S
        expected = P * (4 + 2) / 50e9 + P * work.STATE / 100e9  # gradients, weights; Adam
        assert there.amount("optimizer") == pytest.approx(expected)
        assert there.total - here.total == pytest.approx(expected - here.amount("optimizer"))


def test_what_waits_on_the_host_counts_in_the_utilization() -> None:
    on = step.machine(LLAMA, NODE, PERFECT, tokens=2048, host=HOST)
    lay = Layout(data=8, zero=1, micro_batches=4)
    here, there = (step.utilization(on, lay, offload=what) for what in ("none", "states"))
    took = [step.step(on, lay, offload=what).total for what in ("none", "states")]
    assert there / here == pytest.approx(took[0] / took[1]) and there < here


def test_activations_travel_behind_computing_where_the_link_is_fast_enough() -> None:
    lay = Layout(micro_batches=4)
    on = step.machine(LLAMA, NODE, PERFECT, tokens=2048, host=replace(HOST, link=1e12))
    assert step.step(on, lay, offload="activations").total == step.step(on, lay).total
    slow = step.machine(LLAMA, NODE, PERFECT, tokens=2048, host=replace(HOST, link=1e9))
    sent = on.room.layer(lay) / 1e9
    computing = step.pass_seconds(on, lay).computing
    waited = step.step(slow, lay, offload="activations").amount("offloading")
    assert waited == pytest.approx(4 * 32 * (2 * sent - computing))
    with pytest.raises(InputError, match="offload = 'both': expected a machine with a host"):
        step.step(step.machine(LLAMA, NODE, PERFECT), lay, offload="both")
    with pytest.raises(InputError, match="link = 0"):
        step.Host(link=0, memory=1, bandwidth=1)


def test_no_interval_is_quicker_than_the_matmuls_of_a_step_alone() -> None:
    """The parts that are not matmuls could vanish; the share of the peak is what its runs had."""
    rates = find_rates("a100-80gb", "fsdp")
    on = step.machine("llama3-8b", find_cluster("p4de.24xlarge"), rates, tokens=8192)
    for layout in (Layout(data=8, zero=3, micro_batches=4), Layout(data=8, tensor=8)):
        between, parts = step.interval(on, layout), step.step(on, layout)
        done = flops.training(
            LLAMA, tokens=8192, sequences=layout.sequences, causal=True, attention_backward=2.5
        )
        alone = done.total / (layout.world * 0.8 * on.device.half)
        assert alone <= between.low * 1.01 and between.low < parts.total < between.high
    bound, free = Layout(data=8, zero=3, micro_batches=4), Layout(data=8, tensor=8)
    shares = [step.interval(on, lay).low / step.step(on, lay).total for lay in (bound, free)]
    assert shares[0] > 1.05 * shares[1], "the first has hardly anything but matmuls"


OTHER = {  # of each axis of a way: another value
    "data": 16, "tensor": 4, "pipeline": 4, "chunks": 2, "sequence_parallel": True,
    "micro_batch": 2, "micro_batches": 16, "recompute": "full", "context": 2,
    "expert": 4, "expert_tensor": 1,
}  # fmt: skip


def test_no_axis_is_missing_where_families_of_layouts_share_an_answer() -> None:
    """What a search remembers of one way is never told of another that differs in it."""
    assert {*OTHER, "zero", "shard"} == set(work.Way._fields)
    rates, mixtral = find_rates("h100-sxm"), find_model("mixtral-8x7b")
    shards = [(0, 1), (1, 2), (3, 2)]
    first = work.Way(8, 2, 2, 1, 0, 1, False, 1, 8, "none", 1, 2, 0)

    def asked(on: step.Machine, way: work.Way) -> tuple[object, object]:
        return step.times_of(on, way, shards), on.room.of_family(way, shards)

    for axis, other in OTHER.items():
        used, fresh = (step.machine(mixtral, NODE, rates, tokens=2048) for _ in range(2))
        way = first._replace(**{axis: other})
        assert asked(used, first) and asked(used, way) == asked(fresh, way), axis
