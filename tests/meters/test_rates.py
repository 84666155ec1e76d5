"""Rates are those of the shapes asked for; no verdict here is a time."""

import time

import torch

from mathlib.meters import rates


def test_a_rate_for_each_shape_and_size():
    matmuls = rates.matmul_rates([(8, 8, 8), (64, 64, 64)], repeat=2)
    streams = rates.stream_rates([4096, 2**20], repeat=2, enough=2**20)
    assert len(matmuls) == len(streams) == 2
    assert min(*matmuls, *streams) > 0
    assert rates.launch_seconds(many=10, repeat=2) > 0


def test_rates_are_work_over_the_quickest_time(monkeypatch):
    said = {}

    def pretend(*actions, repeat, pick, clock):
        for action in actions:
            action()
        said.update(repeat=repeat, pick=pick, clock=clock)
        return [0.5] * len(actions)

    monkeypatch.setattr(rates, "interleaved_seconds", pretend)
    assert rates.matmul_rates([(2, 3, 4)], repeat=7) == [2 * 2 * 3 * 4 / 0.5]
    assert said == {"repeat": 7, "pick": min, "clock": time.process_time}
    assert rates.stream_rates([4096], enough=4 * 8192) == [4 * 8192 / 0.5]
    assert rates.launch_seconds(many=10) == 0.05


def test_other_types_are_multiplied_too():
    assert rates.matmul_rates([(8, 8, 8)], dtype=torch.bfloat16, repeat=1)[0] > 0


def test_a_gpu_is_waited_for_and_no_other_a_cpu_need_not_be(monkeypatch):
    waited = []
    monkeypatch.setattr(torch.cuda, "synchronize", waited.append)
    assert rates.waiter("cpu")() is None and not waited
    rates.waiter("cuda:1")()
    assert waited == ["cuda:1"]


def test_in_place_writes_where_it_has_read(monkeypatch):
    seen = []
    monkeypatch.setattr(rates, "_stream", lambda x, y, again, finish: seen.append(x is y))
    for in_place in (False, True):
        rates.stream_rates([4096], in_place=in_place, repeat=1)
    assert set(seen[: len(seen) // 2]) == {False} and set(seen[len(seen) // 2 :]) == {True}
