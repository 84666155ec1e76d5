"""Bytes of a parameter and of a token: what is switched on is counted, and nothing else."""

import pytest
import torch

from mathlib import specs
from mathlib.trials import memory


def test_every_copy_is_there_when_it_is_switched_on():
    whole = {"weights": 2, "gradients": 2, "master weights": 4, "optimizer": 8}
    assert memory.resident() == whole
    assert memory.resident(gradients="both") == whole | {"main gradients": 4}
    assert sum(memory.resident(gradients="main").values()) == 18
    assert memory.resident(a_step=True, master=False) == {"weights": 2, "optimizer": 8}


def test_torch_makes_as_many_states_as_its_optimizer_has():
    for name, states in {"SGD": 0, "momentum": 4, "Adam": 8}.items():
        kept = memory.in_mixed_precision(memory.OPTIMIZERS[name])
        assert kept == {"weights": 2, "gradients": 2, "master": 4, "states": states}
    more = memory.in_mixed_precision(lambda p: torch.optim.Adam(p, amsgrad=True))
    assert more["states"] == 12


def test_strides_grow_with_momentum_alone():
    def half(weights):
        return torch.optim.SGD(weights, lr=0.1, momentum=0.5)

    assert memory.last_stride(half) == pytest.approx(2)
    assert memory.last_stride(memory.OPTIMIZERS["momentum"], steps=2) == pytest.approx(1.9)
    assert memory.last_stride(torch.optim.Adam) == pytest.approx(1)


def test_bytes_of_eight_bit_states_and_of_gradients():
    states, weights = memory.of_eight_bits()
    assert 2.1 > states > 2 and 1.1 > weights > 1
    assert memory.of_gradients(torch.bfloat16) == 2
    assert memory.of_gradients(torch.bfloat16, kept=torch.float32) == 4
    assert memory.of_gradients(torch.float32, cast=True) == 4


def test_layers_of_published_models_by_hand():
    for name, each in {"llama2-7b": 37.5, "llama3-8b": 41, "llama3-70b": 40.5}.items():
        m = specs.find_model(name)
        heads = 2 * m.kv_heads * m.head_dim / m.width
        assert {2 * (6 + heads + 4 * m.ffn_width / m.width)} == set(memory.layer_bytes(name))
        assert set(memory.layer_bytes(name)) == {each}
    v3 = memory.layer_bytes("deepseek-v3")
    assert [round(one) for one in v3] == [53] * 3 + [85] * 58
    assert memory.layer_bytes("mixtral-8x7b")[0] == pytest.approx(41 + 8 * 3.5 + 8, abs=0.1)
    assert memory.kept_by("gpt3-175b") == ["GPT-3 175B", "114", "275 GB", "4.83 GB"]
