"""mathlib kv: the library's cache, and what it leaves room for."""

import pytest
from command_line import answered

from mathlib import specs
from mathlib.compute import params
from mathlib.memory import decode_time, inference


def test_the_cache_is_the_librarys(capsys):
    data = answered("kv llama3-70b --tokens 8k --sequences 3 --bytes 1 --tensor 4", capsys)
    how = {"sequences": 3, "bytes_per_element": 1, "tensor": 4}
    wanted = inference.kv_cache("llama3-70b", tokens=8192, **how)
    assert data["total"] == wanted.total and set(data["parts"]) == {"keys", "values"}
    assert data["verdict"] is None
    latent = answered("kv deepseek-v3", capsys)
    assert set(latent["parts"]) == {"latent", "rotary key"}


def test_a_device_adds_the_longest_context_and_the_next_token(capsys):
    also = answered("kv llama2-7b --tokens 2k --device a100-80gb", capsys)["also"]
    weights = 2 * params.total("llama2-7b")
    assert also["weights of a device"]["value"] == weights
    free = 0.9 * specs.find_device("a100-80gb").room - weights
    most = inference.tokens_within("llama2-7b", size=free)
    assert also["longest context"]["value"] == most
    took = decode_time.step("llama2-7b", "a100-80gb", past=2047)
    assert also["next token, at least"]["value"] == pytest.approx(took.total)
    assert also["tokens a second of a device, at most"]["value"] == 1 / took.total


def test_a_tenth_stays_free_as_vllm_leaves_it_and_the_most_sequences_are_told(capsys):
    line = "kv llama3-70b --tokens 32k --tensor 8 --device h100-sxm --sequences"
    full = answered(f"{line} 50", capsys)
    most = full["also"]["sequences at once, at most"]["value"]
    assert full["verdict"].startswith("does not fit") and 42 <= most < 50
    assert "8.552 GB left for the rest" in full["verdict"], "a tenth of what an H100 reports"
    for n, fits in ((most, True), (most + 1, False)):
        assert answered(f"{line} {n}", capsys)["verdict"].startswith("fits") == fits, n
    assert answered(f"{line} 50 --reserve 0GB", capsys)["verdict"].startswith("fits")


def test_devices_that_share_the_heads_are_faster_together(capsys):
    line = "kv llama3-70b --tokens 8k --sequences 4 --device h100-sxm"
    for t in (1, 8, 16):
        also = answered(f"{line} --tensor {t}", capsys)["also"]
        sizes = {"sequences": 4, "past": 8191, "tensor": t}
        rate = decode_time.tokens_per_second("llama3-70b", "h100-sxm", **sizes)
        assert also["tokens a second of a device, at most"]["value"] == rate
        assert also["next token, at least"]["value"] == pytest.approx(4 / t / rate)


def test_without_room_for_the_weights_there_is_no_context(capsys):
    data = answered("kv llama2-7b --memory 8GB", capsys)
    assert data["verdict"].startswith("does not fit") and "longest context" not in data["also"]


def test_windows_are_kept_whole_where_asked(capsys):
    rolling = answered("kv mistral-7b --tokens 8k", capsys)["total"]
    assert answered("kv mistral-7b --tokens 8k --no-rolling", capsys)["total"] == 2 * rolling
    for line in ("kv mistral-7b --device a100-80gb", "kv mistral-7b --device a100-80gb --tensor 2"):
        also = answered(line, capsys)["also"]
        assert "longest context" not in also  # the window keeps it below for ever
        assert "next token, at least" in also
