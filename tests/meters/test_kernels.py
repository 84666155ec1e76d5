"""What a kernel moves, against tensors whose bytes are known."""

import torch
from torch.nn import functional as F

from mathlib.meters.kernels import KINDS, REST, kernels_of, own_bytes

X = torch.ones(8, 16)  # 512 bytes


def only(action):
    (one,) = kernels_of(action)
    return one


def test_a_matmul_reads_two_matrices_and_writes_one():
    w = torch.ones(16, 4)
    one = only(lambda: X @ w)
    assert (one.name, one.flop, one.kind) == ("mm", 2 * 8 * 16 * 4, "matmuls")
    assert one.moved == 4 * (8 * 16 + 16 * 4 + 8 * 4) and one.shape == (8, 4)
    assert one.seconds > 0


def test_a_view_moves_nothing_and_a_copy_twice_its_size():
    assert kernels_of(lambda: X.t()) == []
    assert kernels_of(lambda: X.reshape(128)) == [] and kernels_of(lambda: torch.empty(9)) == []
    assert only(lambda: X.t().contiguous()).moved == 2 * 512
    assert only(lambda: X.t().contiguous()).kind == REST


def test_what_is_repeated_without_a_copy_is_read_once():
    row = torch.ones(1, 16).expand(8, 16)
    assert own_bytes([row]) == 64 and own_bytes([X, X]) == 512
    assert only(lambda: X + row).moved == 512 + 64 + 512


def test_a_change_in_place_is_read_and_written():
    y = torch.ones(8, 16)
    assert only(lambda: y.mul_(2)).moved == 2 * 512
    assert only(lambda: y.zero_()).moved == 512


def test_a_look_up_reads_the_rows_that_it_takes():
    table, which = torch.ones(1000, 16), torch.arange(8)
    assert only(lambda: F.embedding(which, table)).moved == 512


def test_a_fused_update_reads_gradients_and_writes_three_tensors():
    w = torch.nn.Parameter(torch.ones(64, 64))
    optimizer = torch.optim.Adam([w], fused=True)
    w.grad = torch.ones(64, 64)
    optimizer.step()
    found = [one for one in kernels_of(optimizer.step) if one.kind == "optimizer"]
    assert [one.moved for one in found] == [28 * 64 * 64 + 4]  # the counter of steps, too


def test_kinds_are_told_by_names():
    assert only(lambda: F.gelu(X)).kind == "activation function"
    assert only(lambda: X.softmax(-1)).kind == "softmax"
    assert REST not in KINDS


def test_the_clock_is_read_around_the_kernel_when_the_device_has_finished():
    told, ticks = [], iter(range(9))
    (one,) = kernels_of(lambda: X + X, lambda: told.append("waits"), lambda: next(ticks))
    assert one.seconds == 1 and told == ["waits", "waits"] and next(ticks) == 2
