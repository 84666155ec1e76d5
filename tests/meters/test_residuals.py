"""Every byte between the prediction and the device has one name, and the names add up."""

import pytest
import torch

from mathlib.checks import InputError
from mathlib.meters import residuals

MIB = 2**20


class Card:
    """A device's answers, as torch gives them."""

    def __init__(self):
        self.alive, self.recording = 12 * MIB, []

    def clear_workspaces(self):
        self.alive -= 8 * MIB

    def record(self, enabled="all", **_):
        self.recording.append(enabled)


@pytest.fixture
def card(monkeypatch):
    one = Card()
    events = [
        {"action": "segment_alloc", "size": 20 * MIB},
        {"action": "alloc", "size": 5 * MIB},
        {"action": "free_requested", "size": 5 * MIB},
        {"action": "alloc", "size": 2 * MIB},
        {"action": "free_completed", "size": 5 * MIB},
    ]
    other = [{"action": "alloc", "size": 7 * MIB}]
    answers = {
        "synchronize": lambda _: None,
        "empty_cache": lambda: None,
        "reset_peak_memory_stats": lambda _: None,
        "memory_allocated": lambda _: one.alive,
        "current_device": lambda: 0,
        "mem_get_info": lambda _: (60 * MIB, 100 * MIB),
        "memory_stats": lambda _: {
            "requested_bytes.all.peak": 17 * MIB,
            "allocated_bytes.all.peak": 18 * MIB,
            "reserved_bytes.all.peak": 30 * MIB,
        },
    }
    for name, answer in answers.items():
        monkeypatch.setattr(torch.cuda, name, answer)
    monkeypatch.setattr(torch.cuda.memory, "_record_memory_history", one.record)
    monkeypatch.setattr(torch.cuda.memory, "_snapshot", lambda: {"device_traces": [events, other]})
    monkeypatch.setattr(
        torch._C, "_cuda_clearCublasWorkspaces", one.clear_workspaces, raising=False
    )
    return one


def test_the_names_add_up_to_what_is_gone_from_the_device(card):
    with residuals.step("cuda", foreseen=8 * MIB) as found:
        assert card.recording == ["all"] and found.held is None
    parts = found.held.parts()
    assert {name: bytes_ / MIB for name, bytes_ in parts.items()} == {
        "foreseen": 8,
        "tensors not foreseen": 1,
        "workspace of matmuls": 8,
        "rounding to blocks": 1,
        "fragments and spare blocks": 12,
        "context and kernels": 10,
    }
    assert parts.total == 40 * MIB


def test_the_recording_is_a_line_of_bytes_and_ends_even_if_the_step_breaks(card):
    with residuals.step("cuda", foreseen=0) as found:
        pass
    assert [bytes_ / MIB for bytes_ in found.timeline] == [17, 19, 14]
    with pytest.raises(ZeroDivisionError), residuals.step("cuda", foreseen=0) as found:
        1 / 0  # noqa: B018
    assert card.recording == ["all", None, "all", None] and found.held is None


def test_the_recording_is_that_of_the_device_asked_for(card):
    with residuals.step("cuda:1", foreseen=0) as found:
        pass
    assert found.timeline == [19 * MIB]


def test_a_cpu_is_refused():
    with (
        pytest.raises(InputError, match='device = "cpu": only a CUDA device'),
        residuals.step("cpu", foreseen=1),
    ):
        pass
