"""The timeline of a step: what is followed, and in which phase."""

import pytest
import torch
from torch import nn

from mathlib.meters import live, saved
from mathlib.model import data, gpt, mixed_adam

MODEL = gpt.small(vocab=len(data.vocabulary()))
TOKENS, TARGETS = data.batch(2, MODEL.context)


def batches(number):
    return (data.batch(2, MODEL.context, step) for step in range(number))


def test_gradients_live_from_micro_batch_to_micro_batch():
    run = gpt.GPT(MODEL)
    line = live.step_timeline(run, batches(4), torch.optim.SGD(run.parameters()), accumulation=2)
    once = ["forward", "backward"] * 2 + ["step", "zero_grad"]
    assert [name for _, name in line.marks] == once * 2 and len(line.steps()) == 2
    P = 4 * sum(p.numel() for p in run.parameters())
    assert [line.at("forward", i)["gradients"] for i in range(4)] == [0, P, 0, P]
    assert line.at("zero_grad")["activations"] == line.at("zero_grad")["temporary"] == 0


def test_a_state_that_is_there_from_the_start_is_counted_from_the_start():
    peaks = {}
    state = None
    for way in ("fresh", "resumed"):
        run = gpt.GPT(MODEL)
        optimizer = torch.optim.AdamW(run.parameters(), foreach=False)
        if state:
            optimizer.load_state_dict(state)
        line = live.step_timeline(run, batches(2), optimizer)
        state = optimizer.state_dict()
        peaks[way] = [max(line.total(row) for row in range(*span)) for span in line.steps()]
    assert peaks["fresh"][0] < peaks["fresh"][1]
    assert peaks["resumed"] == [peaks["fresh"][1]] * 2


def test_autocast_keeps_half_of_what_matmuls_read_and_a_copy_of_every_matrix():
    kept = {}
    for cast in (None, torch.bfloat16):
        run = gpt.GPT(MODEL, "flash")
        optimizer = torch.optim.SGD(run.parameters())
        kept[cast] = live.step_timeline(run, batches(1), optimizer, autocast=cast).at("forward")
        assert all(p.dtype == torch.float32 for p in run.parameters())
    assert kept[None]["weights"] == kept[torch.bfloat16]["weights"]
    matrices = 2 * sum(p.numel() for p in run.parameters() if p.dim() == 2)
    saved = kept[torch.bfloat16]["activations"]
    assert 0.5 * kept[None]["activations"] + 0.9 * matrices < saved, "the stream stays in 32 bits"
    assert saved < kept[None]["activations"] + matrices


@pytest.mark.parametrize("gradients, numbers", [("half", 12), ("main", 16)])
def test_what_mixed_adam_keeps_is_optimizer_state(gradients, numbers):
    run = gpt.GPT(MODEL)
    optimizer = mixed_adam.MixedAdam(run, gradients=gradients)
    line = live.step_timeline(run, batches(2), optimizer)
    P = sum(p.numel() for p in run.parameters())
    assert line.at("forward", 1)["weights"] == 2 * P
    assert line.at("forward", 1)["optimizer"] == numbers * P


def test_a_step_gives_back_what_it_took():
    model = gpt.GPT(MODEL)
    optimizer = torch.optim.AdamW(model.parameters())
    line = live.step_timeline(
        model, (data.batch(2, MODEL.context, step) for step in range(2)), optimizer
    )
    P = 4 * sum(p.numel() for p in model.parameters())
    tensors = len(list(model.parameters()))
    assert line.at("backward") | {"temporary": 0} == {
        "weights": P,
        "gradients": P,
        "optimizer": 0,
        "activations": line.at("backward")["activations"],
        "temporary": 0,
    }
    assert (
        line.at("step")["optimizer"] == 2 * P + 4 * tensors
    )  # two moments, and a step counter of 4 bytes each
    assert (
        line.at("zero_grad")
        == line.at("zero_grad", 1)
        == {
            "weights": P,
            "gradients": 0,
            "optimizer": 2 * P + 4 * tensors,
            "activations": 0,
            "temporary": 0,
        }
    )
    assert line.phase(line.peak) == "backward" and line.total(line.peak) > line.total(-1)


def test_after_the_block_nothing_is_watched():
    layer = nn.Linear(2, 2)
    with live.live(layer) as watching:
        pass
    seen = len(watching.events)
    layer(torch.ones(1, 2, requires_grad=True)).sum().backward()
    assert layer.weight.grad is not None and len(watching.events) == seen


def test_frozen_weights_are_weights():
    layer = nn.Linear(2, 2).requires_grad_(False)
    with live.live(layer) as watching:
        layer(torch.ones(1, 2))
        watching.mark("forward")
    assert watching.timeline().at("forward")["weights"] == 4 * (4 + 2)


def test_activations_of_the_timeline_are_the_saved_bytes():
    model = gpt.GPT(MODEL)
    line = live.step_timeline(model, [(TOKENS, TARGETS)], torch.optim.SGD(model.parameters()))
    assert line.at("forward")["activations"] == saved.saved_bytes(
        lambda: model.loss(TOKENS, TARGETS), model
    )


def test_where_a_smaller_device_would_give_up():
    rows = [{"weights": n} for n in (1, 3, 2, 1, 4, 1)]
    marks = [(2, "forward"), (3, "backward"), (5, "forward"), (6, "backward")]
    line = live.Timeline(("weights",), rows, marks)
    assert [line.first_beyond(limit) for limit in (0, 1, 2, 3, 4)] == [
        "forward of step 1",
        "forward of step 1",
        "forward of step 1",
        "forward of step 2",
        "",
    ]
    assert [line.phase(row) for row in range(6)] == ["forward"] * 2 + ["backward"] + [
        "forward",
        "forward",
        "backward",
    ]
    assert line.peak == 4 and line.steps() == [(0, 3), (3, 6)]
    assert line.at("backward", 1) == {"weights": 1}


def test_operations_get_their_keyword_arguments():
    with live.LiveMeter():
        assert torch.zeros(2, dtype=torch.int8).dtype == torch.int8


def test_a_storage_that_stays_while_its_bytes_come_and_go():
    row = torch.zeros(100)
    with live.LiveMeter() as meter:
        meter.follow(row, "weights")
        row.untyped_storage().resize_(0)
        row.untyped_storage().resize_(200)
        other = torch.zeros(3)
        del other
        meter.mark("end")
    line = meter.timeline()
    assert [line.total(i) for i in range(len(line.rows))] == [400, 0, 200, 212, 200]
    row.untyped_storage().resize_(400)
    assert len(meter.events) == 5, "outside of the block nothing is seen"


def test_only_one_devices_memory_is_counted():
    with live.LiveMeter() as meter:
        torch.zeros(3)
        torch.empty(100, device="meta")
    assert max(meter.size.values()) == 12


@pytest.mark.parametrize("ranks", [True, False])
def test_on_ranks_what_a_thread_of_gloo_still_holds_is_not_counted(monkeypatch, ranks):
    monkeypatch.setattr(live.dist, "is_initialized", lambda: ranks)
    layer, x, sent = nn.Linear(2, 3), torch.ones(4, 2, requires_grad=True), []

    def forward():
        y = layer(x)
        if not sent:
            sent.append(y.detach().clone())  # as if the message had left a moment ago
        return y.square().sum()

    y = 4 * 4 * 3
    assert live.held_bytes(forward, layer, x) == (y if ranks else 2 * y)
