"""What is computed for GPUs, by hand."""

import pytest

from mathlib.trials import inference_gpu as gpu


def test_tokens_that_fit():
    token = 2 * 80 * 8 * 128 * 2
    assert gpu.room(8)[0] == gpu.FREE // (8 * token) and 4096 * token == gpu.CACHE
    assert gpu.room()[0] // 8 == gpu.room()[1] > gpu.room(memory=80e9)[1]
    assert gpu.MEMORY == 80 * 2**30


def test_caches_over_weights():
    assert gpu.trained()["Llama 2 7B"] == pytest.approx(4096 * 2**19 / 2 / 6.738e9, rel=1e-3)
    line = dict(gpu.crossover()["Mistral 7B"])
    assert line[2**20] == line[4096] == 16 * line[256], "a window of 4,096"


def test_seconds_of_a_pass():
    assert gpu.seconds() == pytest.approx(gpu.WEIGHTS / gpu.A100.memory_bandwidth, rel=0.01)
    one, half = (gpu.by_bits()[name] for name in ("8 bits", "4 bits"))
    assert one[0] == 2 * half[0] and 1.9 < half[1] / one[1] < 2
    scaled = gpu.by_bits()["4 bits and scales"][0]
    assert scaled / gpu.WEIGHTS == (32 * 4 + 16) / (32 * 8), "a 16-bit scale for 32 weights"
    assert gpu.checking(8, past=1000) < 1.001 and gpu.checking(5, sequences=512) > 4.9
    assert gpu.latent_intensity() == pytest.approx(128 * (2 * 512 + 64) / 576, rel=1e-3)
