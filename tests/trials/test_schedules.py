"""Orders on four processes, what PyTorch and Megatron accept, and the quickest in a memory."""

import pytest

from mathlib.model import oracle
from mathlib.schedule.check import validate
from mathlib.schedule.simulate import simulate
from mathlib.schedule.times import Times
from mathlib.trials import schedules
from mathlib.trials.pipeline import named


def test_executed_orders_take_what_the_formulas_say_and_have_one_processs_gradients():
    every = schedules.steps()
    names = ("breadth-first", "ZB-H2", "DualPipe", "interleaved, split")
    ran = schedules.executed(*((every[name][1], Times()) for name in names))
    for name, one in zip(names, ran, strict=True):
        formula, lists = every[name]
        assert one.time == formula and one.far < oracle.EQUAL
        assert one.messages == simulate(lists).messages.total()
        assert one.copies == 1 + (name == "DualPipe")
    assert (one.time, one.messages, simulate(lists).fullest) == (25.5, 112, 4)


def test_gradients_of_another_batch_are_far():
    (one,) = schedules.launch.run(lambda: schedules.torchs(2), 4)[:1]
    assert schedules._far((one,), 2) < 1e-5 < schedules._far((one,), 3)


def test_torchs_class_takes_equal_rounds_only():
    assert schedules.by_torch(6) < 1e-5
    assert "number of rounds (2), but got 9" in schedules.by_torch(9)


@pytest.mark.parametrize(("m", "size"), [(6, 4), (6, 6), (14, 5), (14, 6), (8, 3)])
def test_our_rounds_are_megatrons(m, size):
    assert schedules.taken(m, size) == schedules.taken_by_megatron(m, size)
    assert schedules.taken(14, 5) > schedules.taken(14, 6)


def test_torchs_lists_with_a_split_backward_can_be_executed():
    validate(schedules.torchs_split(4, 8, 2))
    line = simulate(schedules.torchs_split(8, 32, 4))
    assert (line.total, line.fullest) == (96 + 7 / 4, 8)


def test_interleaving_beats_1f1b_up_to_the_forward_of_a_chunk_and_lean_up_to_a_third_of_it():
    for v in (2, 4):
        for part, ahead, better in ((1, 2, True), (0.33, 1, True), (0.4, 1, False)):
            slow = Times(message=part / v)
            chunked = named("interleaved", 32, 8, chunks=v, ahead=ahead)
            plain = simulate(named("1f1b", 32, 8), slow).total
            assert (simulate(chunked, slow).total < plain) == better, (v, part, ahead)


def test_the_quickest_order_fits_and_more_memory_never_slows():
    assert schedules.quickest(0.0, 8, split=False) == ("interleaved v = 4, lean", 101.25)
    assert schedules.quickest(0.5, 8, split=False)[0] == "1F1B"
    assert schedules.quickest(0.5, 8, split=True) == ("ZB-V", 116.5)
    by_flash = schedules.second_copy(attention="flash", dropout=False)
    assert 6 < schedules.second_copy() < 7 < 13 < by_flash < 14
    for split in (False, True):
        times = [schedules.quickest(0.1, memory, split)[1] for memory in (8, 12, 16, 32)]
        assert times == sorted(times, reverse=True)


def test_interleaved_stages_hold_layers_a_round_apart():
    held = schedules.layers_held(named("interleaved"), 8)
    assert held == "1 and 5; 2 and 6; 3 and 7; 4 and 8"
