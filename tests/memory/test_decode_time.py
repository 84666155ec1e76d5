"""A decoding step: what it reads, what it computes, and which of the two takes longer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mathlib import specs
from mathlib.checks import InputError
from mathlib.compute import flops, params
from mathlib.memory import decode_time

A100 = specs.find_device("a100-80gb")


def test_one_sequence_is_bound_by_bytes():
    """70B in int8 on an A100: weights over bandwidth, 29 tokens a second at most."""
    step = decode_time.step("llama2-70b", A100, bytes_per_parameter=1)
    met = params.met("llama2-70b")
    assert step["weights"] == pytest.approx(met / A100.memory_bandwidth)
    assert 29 < 1 / step.total < 30


def test_a_large_batch_is_bound_by_flop():
    step = decode_time.step("llama2-7b", A100, sequences=1024)
    work = decode_time.work("llama2-7b", sequences=1024)
    assert step["weights"] == pytest.approx(work.amount("weights") / A100.half)
    assert work["weights"] == 2 * 1024 * params.met("llama2-7b")


@given(st.integers(1, 600), st.integers(0, 5000))
def test_a_step_takes_the_larger_of_both(sequences, past):
    sizes = {"sequences": sequences, "past": past}
    read, work = (f("llama3-8b", **sizes) for f in (decode_time.bytes_read, decode_time.work))
    step = decode_time.step("llama3-8b", A100, **sizes)
    for part in ("weights", "cache"):
        bytes_, flop = read.amount(part) / A100.memory_bandwidth, work.amount(part) / A100.half
        assert step[part] == max(bytes_, flop)
    total = flops.forward("llama3-8b", sequences=sequences, tokens=1, past=past, causal=True).total
    assert work.total == total


@given(st.integers(1, 600), st.integers(0, 5000))
def test_tokens_a_second_are_the_batch_over_the_step(sequences, past):
    sizes = {"sequences": sequences, "past": past, "bytes_per_parameter": 1, "achieved": 2e14}
    rate = decode_time.tokens_per_second("llama3-8b", A100, **sizes)
    assert rate == sequences / decode_time.step("llama3-8b", A100, **sizes).total


def test_devices_that_share_the_heads_write_as_many_each_till_the_key_heads_are_out():
    """Llama 3 70B has 8 key heads: up to 8 devices halve the step by doubling, 16 keep copies."""

    def rate(t, past):
        sizes = {"sequences": 4, "past": past}
        return decode_time.tokens_per_second("llama3-70b", A100, **sizes, tensor=t)

    for past in (0, 100_000):
        assert rate(8, past) == pytest.approx(rate(1, past))
    step = decode_time.step("llama3-70b", A100, sequences=4, past=100_000)
    seconds = step.amount("weights") / 16 + step.amount("cache") / 8  # a copy of a head in each
    assert rate(16, 100_000) == pytest.approx(4 / 16 / seconds)
    assert rate(16, 100_000) < 0.7 * rate(8, 100_000)


def test_a_latent_is_read_by_every_device():
    """Its reading is not shared, its arithmetic is: 16 devices wait for the memory."""
    sizes = {"sequences": 4, "past": 100_000}
    step = decode_time.step("deepseek-v3", A100, **sizes)
    read = decode_time.bytes_read("deepseek-v3", **sizes).amount("cache") / A100.memory_bandwidth
    assert step.amount("cache") > read > step.amount("cache") / 16
    rate = decode_time.tokens_per_second("deepseek-v3", A100, **sizes, tensor=16)
    assert rate == pytest.approx(4 / 16 / (step.amount("weights") / 16 + read))


def test_tensor_has_to_fit_the_heads():
    with pytest.raises(InputError, match="tensor = 3"):
        decode_time.tokens_per_second("llama3-70b", A100, tensor=3)


def test_intensity_is_the_batch_and_caches_bring_it_down():
    short = [decode_time.intensity("llama3-8b", sequences=b) for b in (1, 64)]
    assert short == pytest.approx([1, 64], rel=0.01)
    long = decode_time.intensity("llama3-8b", sequences=64, past=32000)
    assert long < short[1] / 5


def test_a_latent_is_asked_by_all_heads():
    """128 heads read the same 576 numbers: 2 * 128 * (2 * 512 + 64) FLOP for 2 * 576 bytes."""
    sizes = {"sequences": 4, "past": 100_000}
    work = decode_time.work("deepseek-v3", **sizes)["cache"]
    read = decode_time.bytes_read("deepseek-v3", **sizes)["cache"]
    assert work / read == pytest.approx(2 * 128 * (2 * 512 + 64) / (2 * 576))


def test_the_tipping_batch_is_the_devices_ridge():
    """With a short cache, weights take as long to read as to use at B = peak / bandwidth."""
    ridge = A100.half / A100.memory_bandwidth
    for b, longer in ((int(ridge), "bytes"), (int(ridge) + 1, "flop")):
        step = decode_time.step("llama2-7b", A100, sequences=b)["weights"]
        read = decode_time.bytes_read("llama2-7b", sequences=b).amount("weights")
        assert (step > read / A100.memory_bandwidth * (1 + 1e-9)) == (longer == "flop")


def test_a_token_reads_its_experts_and_a_batch_nearly_all():
    """Mixtral: 2 of 8; checked by drawing tokens' choices."""
    one, many = (
        decode_time.bytes_read("mixtral-8x7b", sequences=b)["weights"] / 2 for b in (1, 64)
    )
    assert one == pytest.approx(params.met("mixtral-8x7b"), rel=1e-4)
    every = sum(m.parameters for m in params.matrices("mixtral-8x7b"))
    assert many == pytest.approx(every, rel=1e-6) and every > 3.5 * one


def test_prefill_is_bound_by_flop():
    step = decode_time.step("llama2-7b", A100, tokens=2048)
    work = decode_time.work("llama2-7b", tokens=2048)
    assert step["weights"] == pytest.approx(work.amount("weights") / A100.half)
    assert work.total == flops.forward("llama2-7b", tokens=2048, causal=True).total


def test_drafted_tokens_by_hand():
    """1 + 0.8 + 0.64 + 0.512 + 0.4096."""
    assert decode_time.drafted(acceptance=1, ahead=3) == 4
    assert decode_time.drafted(acceptance=0.8, ahead=4) == pytest.approx(3.3616)
    assert decode_time.gain(acceptance=0.8, ahead=4, draft_time=0) == pytest.approx(3.3616)


@given(st.floats(0.05, 0.95), st.integers(1, 8))
def test_drafted_tokens_by_adding_up(acceptance, ahead):
    """n drafts stay with probability rho^n."""
    wanted = sum(acceptance**n for n in range(ahead + 1))
    assert decode_time.drafted(acceptance=acceptance, ahead=ahead) == pytest.approx(wanted)
    slow = decode_time.gain(acceptance=acceptance, ahead=ahead, draft_time=1)
    assert slow < 1, "a draft as slow as the model itself never pays"
