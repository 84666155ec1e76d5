"""Codes of gradients: what they send, that nothing is lost, and that a whole code is exact."""

from functools import partial

import pytest
import sharding
import torch
import torch.distributed as dist

from mathlib import launch
from mathlib.meters import wire
from mathlib.parallel.plain.compression import Fp16, Full, Int8, PowerSGD, Sign, TopK
from mathlib.traffic import compressed

ROWS, COLUMNS = 48, 64  # 12 blocks of 256: whole chunks for 2 and 3 ranks
n = ROWS * COLUMNS
LOSSY = (Int8, Sign, TopK, PowerSGD)
BYTES = {
    Full: partial(compressed.coded, numbers=n, bits=32, block=None),
    Fp16: partial(compressed.coded, numbers=n, bits=16, block=None),
    Int8: partial(compressed.coded, numbers=n, bits=8),
    Sign: partial(compressed.coded, numbers=n, bits=1),
    TopK: partial(compressed.largest, kept=n // 100),
    PowerSGD: partial(compressed.low_rank, shapes=[(ROWS, COLUMNS)], rank=4),
}


def gradient(step, rank, dtype=torch.float64):
    draw = torch.Generator().manual_seed(1000 * rank + step)
    return torch.randn(ROWS, COLUMNS, generator=draw, dtype=dtype) + 1


def sent():
    """By each code, as the program and the kernel count them."""
    found = {}
    for make in BYTES:
        code = make()
        for step in range(2):  # the first opens connections
            mine = gradient(step, dist.get_rank(), torch.float32)
            with wire.sent() as counted:
                code(mine)
        found[make] = counted.program, counted.system
    return found


@pytest.mark.parametrize("ranks", [2, 3])
def test_bytes_are_those_of_the_formula(ranks):
    found = launch.run(sent, ranks)
    for make, formula in BYTES.items():
        program, system = (
            sum(side) / ranks for side in zip(*(f[make] for f in found), strict=True)
        )
        assert program == pytest.approx(formula(ranks=ranks), rel=1e-12), make
        assert program == pytest.approx(system, rel=1e-12), make


def balance(steps):
    """By each lossy code: the sum of what it gave, what is left out, and of what is left out of
    the means, after some steps.
    """
    found = []
    for make in LOSSY:
        code, total = make(), torch.zeros(ROWS, COLUMNS, dtype=torch.float64)
        for step in range(steps):
            total += code(gradient(step, dist.get_rank()))
        owned = getattr(code, "owned", 0.0) * torch.ones(1, dtype=torch.float64)
        found.append((total, code.left, owned))
    return found


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_what_a_code_leaves_out_comes_later(ranks, steps=4):
    by_rank = launch.run(balance, ranks, steps)
    wanted = sum(gradient(s, r) for s in range(steps) for r in range(ranks)) / ranks
    for number, make in enumerate(LOSSY):
        totals, left, owned = zip(*(found[number] for found in by_rank), strict=True)
        assert all(torch.equal(total, totals[0]) for total in totals), "all ranks get one mean"
        rest = (sum(left) / ranks).flatten()
        if make in (Int8, Sign):
            rest = rest + torch.cat([chunk.flatten() for chunk in owned])
        assert rest.abs().max() > 1e-4, "something is left out"
        torch.testing.assert_close(totals[0].flatten() + rest, wanted.flatten())


def whole():
    mine = gradient(0, dist.get_rank())
    codes = {"Full": Full(), "TopK": TopK(), "PowerSGD": PowerSGD()}
    codes["TopK"].share, codes["PowerSGD"].rank_of_matrix = 1, ROWS
    return {name: code(mine) for name, code in codes.items()}


def test_a_code_with_room_for_everything_is_exact():
    mean = (gradient(0, 0) + gradient(0, 1)) / 2
    for found in launch.run(whole, 2):
        for name, given in found.items():
            torch.testing.assert_close(given, mean, msg=name)


def rounded():
    mine = gradient(0, dist.get_rank())
    return [make()(mine) for make in (Fp16, Int8, Sign)]


def test_how_far_a_code_rounds():
    mine = gradient(0, 0)
    half, byte, sign = (given.view(-1, 256) for given in launch.run(rounded, 1)[0])
    blocks = mine.view(-1, 256)
    torch.testing.assert_close(half, blocks, rtol=2**-11, atol=0)
    step = blocks.abs().amax(1, keepdim=True) / 127
    assert ((byte - blocks).abs() <= step * 1.001).all(), "half a step in each of two passes"
    assert torch.equal(sign.sign(), torch.where(blocks >= 0, 1.0, -1.0).double())
    torch.testing.assert_close(sign.abs(), blocks.abs().mean(1, keepdim=True).expand(-1, 256))


def test_uncompressed_is_data_parallel():
    case = {"stage": "plain compressed", "problem": "gpt", "optimizer": "SGD"}
    assert not sharding.apart(3, [case])
