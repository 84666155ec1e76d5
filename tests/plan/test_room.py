"""The quick sum of a device's bytes against what is alive at each moment."""

import pytest

from mathlib.memory import fit, states
from mathlib.plan.room import Keeps, Room
from mathlib.plan.work import OFFLOAD, UNTIMED, Way
from mathlib.specs import Experts, Layout

LAYOUTS = {
    "alone": Layout(micro_batches=2),
    "tensor": Layout(tensor=8, sequence_parallel=True, micro_batches=4),
    "open": Layout(tensor=8, micro_batches=4),
    "pipeline": Layout(tensor=2, sequence_parallel=True, pipeline=4, micro_batches=16),
    "interleaved": Layout(tensor=2, sequence_parallel=True, pipeline=4, chunks=4, micro_batches=16),
    "zero 1": Layout(data=64, zero=1, micro_batches=4),
    "zero 3": Layout(data=64, zero=3, micro_batches=4, micro_batch=2),
    "groups": Layout(data=64, zero=1, shard=8, micro_batches=4),
    "uneven": Layout(tensor=2, sequence_parallel=True, pipeline=6, micro_batches=16),
    "uneven, interleaved": Layout(
        tensor=2, sequence_parallel=True, pipeline=6, chunks=2, micro_batches=18
    ),
    "context": Layout(data=4, context=4, zero=1, micro_batches=4),
    "recomputed": Layout(data=8, zero=1, recompute="full", micro_batch=4, micro_batches=4),
}
RECIPE = "mixed-adam-fp32-gradients"


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("model", ["llama3-8b", "llama3-70b"])
def test_the_quick_sum_is_near_the_exact_one(name: str, model: str) -> None:
    room = Room(fit.find_model(model), 4096)
    lay = LAYOUTS[name]
    exact = fit.training(model, lay, tokens=4096, recipe=RECIPE, loss="fused", fused_gate=True)
    assert room.total(lay) == pytest.approx(exact.total, rel=0.1)


def test_where_the_second_stage_is_fuller_it_counts() -> None:
    """32 layers in 12 stages: 2 in the first with the embedding, 3 in the second."""
    lay = Layout(tensor=2, sequence_parallel=True, pipeline=12, micro_batches=24)
    room = Room(fit.find_model("llama3-8b"), 4096)
    early, (P,) = room.stages(lay), room._held(lay)
    assert room.counts(lay) == {0: (2,), 1: (3,), 11: (2,)} and early.last == (2,)
    states_, kept, *_ = room.parts(lay)
    assert kept == 3 * 11 * room.layer(lay) > 2 * 12 * room.layer(lay)
    layer, each = P.dense, room._copies(0, 1)[0]
    assert states_ == pytest.approx(max(2 * layer + P.table, 3 * layer) * each)
    small = Room(fit.find_model("llama3-8b").but(vocab=1000, name="few words"), 4096)
    table = small._held(lay)[0].table
    assert table < layer and small.parts(lay)[0] == pytest.approx(3 * layer * each)
    how = {"tokens": 4096, "recipe": RECIPE, "loss": "fused", "fused_gate": True}
    for model, most in (("llama3-70b", 1.02), ("llama3-8b", 1.17)):  # its table weighs two layers
        exact = fit.training(model, lay, **how).total
        assert 0.99 < Room(fit.find_model(model), 4096).total(lay) / exact < most


def test_experts_are_near_too() -> None:
    room = Room(fit.find_model("mixtral-8x7b"), 4096)
    for expert in (1, 8):
        lay = Layout(data=16, expert=expert, zero=1, micro_batches=4)
        exact = fit.training(
            "mixtral-8x7b", lay, tokens=4096, recipe=RECIPE, loss="fused", fused_gate=True
        )
        assert room.total(lay) == pytest.approx(exact.total, rel=0.1)


SIMUMAX = {  # github.com/MooreThreads/SimuMax docs/b200 @e691807, as in allocated.toml: 4 layers
    "v2": (Experts(160, 6, 1536, 2, 1), {"width": 5120, "ffn_width": 12288, "vocab": 102400}, 48.0),
    "v3": (Experts(256, 8, 2048, 1, 1), {}, 122.4),
}


@pytest.mark.parametrize("name", SIMUMAX)
def test_a_stage_behind_dense_layers_is_as_full_as_it_was(name: str) -> None:
    experts, changes, measured = SIMUMAX[name]
    v3 = fit.find_model("deepseek-v3")
    model = v3.but(name=name, layers=4, experts=experts, padded_vocab=0, **changes)
    lay = Layout(data=4, pipeline=2, expert=4, zero=1, micro_batches=8)
    needs = Room(model, 4096).total(lay)
    exact = fit.training(model, lay, recipe=RECIPE, loss="fused", fused_gate=True, tokens=4096)
    assert needs == pytest.approx(measured * 1e9, rel=0.05)
    assert needs == pytest.approx(exact.total, rel=0.05)


@pytest.mark.parametrize("every", [1, 2])
def test_experts_count_on_the_stages_that_have_them(every: int) -> None:
    model = fit.find_model("deepseek-v3").but(
        name="mixed", layers=12, experts=Experts(64, 8, 2048, 1, 3, every)
    )
    room = Room(model, 4096)
    for how in (
        {"pipeline": 4},
        {"pipeline": 2, "chunks": 2},
        {"pipeline": 4, "recompute": "full"},
        {"pipeline": 4, "zero": 3},
        {"tensor": 8, "sequence_parallel": True, "expert_tensor": 1, "pipeline": 2},
    ):
        lay = Layout(data=8, expert=8, micro_batches=8, **{"zero": 1} | how)
        exact = fit.training(model, lay, tokens=4096, recipe=RECIPE, loss="fused", fused_gate=True)
        assert 0.9 < room.total(lay) / exact.total < 1.17, how


def test_each_axis_changes_what_it_should() -> None:
    room = Room(fit.find_model("llama3-8b"), 4096)
    base = room.parts(Layout(data=8, micro_batches=8))
    zero = room.parts(Layout(data=8, zero=1, micro_batches=8))
    assert zero[0] < base[0] and zero[1:] == base[1:]
    context = room.parts(Layout(context=8, micro_batches=8))
    assert context[0] == base[0] and context[1] == pytest.approx(base[1] / 8)
    full = room.parts(Layout(data=8, recompute="full", micro_batches=8))
    assert full[1] < base[1] / 10 and full[3] > base[3]


@pytest.mark.parametrize("zero", [1, 2, 3])
def test_what_waits_on_the_host_is_what_the_device_lacks(zero: int) -> None:
    room = Room(fit.find_model("llama3-8b"), 4096, "mixed-adam")
    lay = Layout(data=8, zero=zero, micro_batches=8)
    here, there = room.parts(lay), room.parts(lay, OFFLOAD["states"])
    waits = room.on_host(lay, (zero, 8), OFFLOAD["states"])
    (P,) = room._held(lay)
    assert here[0] - there[0] == pytest.approx(waits)
    assert waits == pytest.approx(12 / 8 * (32 * P.dense + 2 * P.table))  # m, v, master weights
    assert there[1:] == here[1:]
    kept = room.parts(lay, OFFLOAD["activations"])
    assert kept[1] == pytest.approx(here[1] / 16) and kept[0] == here[0]  # 2 of 32 layers
    assert room.on_host(lay, (zero, 8), OFFLOAD["activations"]) == pytest.approx(here[1])


@pytest.mark.parametrize("offload", OFFLOAD)
def test_a_family_waits_on_the_host_as_each_of_it_does(offload: str) -> None:
    room = Room(fit.find_model("llama3-8b"), 4096, "mixed-adam")
    way, shards = Way(**vars(Layout(data=8, micro_batches=8))), [(0, 8), (1, 8), (2, 8), (3, 8)]
    each = [room.on_host(way, one, OFFLOAD[offload]) for one in shards]
    assert room.family_on_host(way, shards, OFFLOAD[offload]) == each
    assert (len(set(each)) > 1) == OFFLOAD[offload].states


@pytest.mark.parametrize("devices", [1, 8])
def test_where_parameters_wait_too_a_layer_at_a_time_is_here(devices: int) -> None:
    room = Room(fit.find_model("llama3-8b"), 4096, "mixed-adam")
    lay, away = Layout(data=devices, zero=3), UNTIMED["parameters"]
    here, there = room.parts(lay), room.parts(lay, away)
    (P,) = room._held(lay)
    assert there[0] == 0 and there[1:3] == here[1:3]
    assert there[3] == pytest.approx(4 * max(P.dense, P.table))  # weight and gradient
    waits = 16 / devices * (32 * P.dense + 2 * P.table)
    assert room.on_host(lay, (3, devices), away) == pytest.approx(waits)


def test_zero_offload_fits_the_model_it_was_published_with() -> None:
    """Ren et al. 2021 (arXiv:2101.06840): 13 billion parameters on a V100 of 32 GB, where 1.4 are
    the most without; gradients leave as they come, and one layer's at a time are there.
    """
    model = fit.find_model("gpt3-13b")
    room = Room(model, 1024, "mixed-adam")
    lay = Layout(recompute="full")
    needs = sum(room.parts(lay, OFFLOAD["states"]))
    gradients = 2 * states.stage_parameters(model, lay).total
    assert needs - gradients < 32e9 < needs  # ours keeps all gradients until the update
    assert room.total(lay) > 6 * 32e9


def test_what_a_program_keeps_counts_where_it_should() -> None:
    model = fit.find_model("llama3-8b")
    lay = Layout(data=4, tensor=2, sequence_parallel=True, micro_batches=4, micro_batch=2)
    n, V, h, f = 2 * 4096, model.padded_vocab, model.width, model.ffn_width
    usual = Room(model, 4096).parts(lay)
    more = {
        "recipe": Keeps(recipe="mixed-adam"),
        "logits": Keeps(logit=14, whole_logits=True),
        "gate": Keeps(fused_gate=False),
        "norm": Keeps(norm=4),
    }
    own = {name: Room(model, 4096, keeps=one).parts(lay) for name, one in more.items()}
    assert own["recipe"] == Room(model, 4096, "mixed-adam").parts(lay)
    assert own["logits"][2] == pytest.approx((14 * V + 4 * h) * n) and usual[2] < 7 * V * n / 2
    assert own["gate"][1] - usual[1] == pytest.approx(model.layers * 2 * f * n / 2)
    assert own["norm"][1] - usual[1] == pytest.approx(model.layers * 2 * 4 * h * n / 2)
    open_ = Layout(data=4, tensor=2, micro_batches=4, micro_batch=2)  # each rank norms all tokens
    two = [Room(model, 4096, keeps=one).parts(open_)[1] for one in (Keeps(), more["norm"])]
    assert two[1] - two[0] == pytest.approx(model.layers * 2 * 4 * h * n)
    again = Layout(data=4, recompute="full", micro_batches=4)
    kept, other = (Room(model, 4096, keeps=one).parts(again) for one in (Keeps(), more["norm"]))
    assert kept[1] == other[1] and other[3] > kept[3]
