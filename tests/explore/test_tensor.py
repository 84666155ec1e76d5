"""The cut MLP: shapes, bytes and times are those of the formulas."""

import re

from mathlib import specs
from mathlib.show import says
from mathlib.show.experiments import find
from mathlib.traffic import tensor_time, volumes


def test_shapes_bytes_and_times_are_those_of_the_formulas():
    html = find("cut-mlp").run({"model": "llama3-8b", "tensor": 8, "tokens": 4096})
    told = re.sub("<[^>]*>", "", html).replace("\u00a0", " ")
    assert "4,096 × 1,792" in told and "1,792 × 4,096" in told
    sent = volumes.tensor_parallel("llama3-8b", tensor=8, tokens=4096, layers=1).total
    assert says.size(sent / 2) in told
    X = 0.4 * specs.find_device("h100-sxm").flops_per_second("bf16")
    how = {"achieved": X, "bandwidth": 512e9, "tokens": 4096}
    alone, cut = (tensor_time.layer("llama3-8b", tensor=t, **how) for t in (1, 8))
    assert f"{alone.total / cut.total:.1f} times as fast" in told
    assert f"computes {cut.share('compute'):.0%}" in told


def test_one_rank_sends_nothing_and_a_slow_link_makes_the_layer_slower_than_one():
    assert "computes 100%" in find("cut-mlp").run({"tensor": 1})
    assert "0.1 times as fast" in find("cut-mlp").run({"tensor": 2, "gigabytes": 1})


def test_a_degree_that_does_not_divide_the_heads_is_refused():
    html = find("cut-mlp").run({"model": "llama2-13b", "tensor": 16})
    assert "Not possible" in html and "can be: 1, 2, 4, 8" in html
