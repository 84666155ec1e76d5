"""States of optimizers of whole matrices, by hand; runs are measured in test_muon."""

import pytest
import torch

from mathlib.checks import InputError
from mathlib.compute import params
from mathlib.memory import fit, matrix_states, one_device, states, zero_rank
from mathlib.meters import saved
from mathlib.parallel.plain import muon
from mathlib.plan.room import Room
from mathlib.plan.work import Away
from mathlib.specs import Layout, find_model

GIB = 2**30


def test_muon_keeps_half_of_adam_s_for_matrices_alone():
    found = matrix_states.muon("llama3-8b")
    body = sum(m.parameters for m in params.matrices("llama3-8b")[:-1])
    assert found["momentum"] == 4 * body
    assert found["moments of the rest"] == 8 * (params.total("llama3-8b") - body)
    assert matrix_states.muon("llama3-8b", dtype="bf16").total == found.total / 2


def test_deepspeed_s_saving_is_neither_the_whole_states_nor_an_eighth_of_them():
    """Qwen2.5-3B, stage 2 on 8 GPUs: printed 34.5 and 31.4 GiB, all of it from states."""
    less = 8 * params.total("qwen2.5-3b") - matrix_states.muon("qwen2.5-3b").total
    assert less / GIB == pytest.approx(10.3, abs=0.05)
    assert less / 8 / GIB == pytest.approx(1.29, abs=0.005)
    assert less / 8 / GIB < 34.5 - 31.4 < less / GIB


def test_shampoo_s_factors_are_squares_and_blocks_bound_them():
    found = matrix_states.shampoo("llama3-8b")
    h, f, k, L = 4096, 14336, 1024, 32
    left = 2 * h**2 + 2 * k**2 + 2 * (8192**2 + (f - 8192) ** 2) + 2 * h**2
    assert found["left factors"] == 4 * L * left == found["left roots"]
    small = matrix_states.shampoo("llama3-8b", block=1024)
    body = sum(m.parameters for m in params.matrices("llama3-8b")[:-1])
    assert small["left factors"] == 4 * body == small["right roots"], "squares of one size"
    assert small.total < found.total


@pytest.mark.parametrize("name", ["llama3-8b", "gpt2", "mixtral-8x7b"])
@pytest.mark.parametrize("zero", [0, 1, 3])
def test_a_device_keeps_muon_s_states_whatever_holds_them(name, zero):
    model = find_model(name)
    rest = matrix_states.muon(model)["moments of the rest"] / 2
    alone = matrix_states.elsewhere(model, Layout(), 0, "mixed-muon")
    assert alone == rest and matrix_states.elsewhere(model, Layout(), 0, "mixed-adam") == 0
    lay = Layout(data=4, zero=zero, tensor=2, pipeline=2 if model.layers % 2 == 0 else 1)
    for stage in range(lay.pipeline):
        adam, own = (
            fit.training(model, lay, stage=stage, recipe=recipe)
            for recipe in ("mixed-adam", "mixed-muon")
        )
        P = states.stage_parameters(model, lay, stage).total
        more = matrix_states.elsewhere(model, lay, stage, "mixed-muon")
        kept = own.amount("optimizer states")
        assert 0 < more < 4 * P / (4 if zero else 1)
        assert adam.amount("optimizer states") / 2 < kept < adam.amount("optimizer states")
    whole = fit.training(model, recipe="mixed-muon").amount("optimizer states")
    assert whole == pytest.approx(matrix_states.muon(model).total)


def test_the_planner_keeps_them_too():
    for p in (1, 2):
        lay = Layout(data=4, zero=1, pipeline=p, micro_batches=2)
        model = find_model("llama3-8b")
        exact = [
            fit.training(model, lay, stage=0, recipe=one, tokens=2048).amount("optimizer states")
            for one in ("mixed-adam", "mixed-muon")
        ]
        quick = [Room(model, 2048, one).parts(lay)[0] for one in ("mixed-adam", "mixed-muon")]
        less = quick[0] - quick[1]
        assert less == pytest.approx(exact[0] - exact[1], rel=1e-3), "norms, as everywhere"
        host = Room(model, 2048, "mixed-muon").on_host(lay, (1, 4), Away(states=True))
        own = states.stage_parameters(model, lay, 0).total
        assert host == pytest.approx(exact[1] + 4 * own / 4, rel=1e-3)


@pytest.mark.parametrize(("rows", "columns"), [(48, 160), (160, 48), (64, 64)])
def test_newton_schulz_needs_what_the_formula_says(rows, columns):
    layer = torch.nn.Linear(columns, rows, bias=False)
    layer.weight.grad = torch.randn(rows, columns)
    optimizer = muon.Muon(layer.parameters())
    optimizer.step()
    with saved.Storages(layer) as meter:
        held = [layer.weight.grad, optimizer.state[layer.weight]["momentum"]]
        for tensor in held:
            meter.follow(tensor)
        optimizer.step()
    shape = find_model("llama3-8b").but(
        **{"name": "one", "layers": 1, "width": 48, "heads": 3, "kv_heads": 3, "head_dim": 16},
        ffn_width=160,
    )
    one = (10 if rows > columns else 8) * rows * columns + 4 * min(rows, columns) ** 2
    assert meter.peak - 3 * 4 * rows * columns == pytest.approx(one, abs=64), "a norm, a scale"
    assert matrix_states.at_work(shape) == 10 * 48 * 160 + 4 * 48**2


def test_an_update_needs_a_whole_matrix_beside_the_shards():
    lay = Layout(data=8, zero=1)
    update = one_device.moments("llama3-8b", lay, recipe="mixed-muon", tokens=64)["update"]
    assert update.amount("update") == matrix_states.at_work("llama3-8b")
    assert matrix_states.at_work("llama3-8b") == 10 * 4096 * 14336 + 4 * 4096**2
    with pytest.raises(InputError, match="mixed-muon"):
        zero_rank.moments("llama3-8b", lay, recipe="mixed-muon")
