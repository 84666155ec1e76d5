"""Right programs on real processes: the same numbers, and as many bytes by the system's count."""

import pytest
from solutions import edited

from mathlib.checks import InputError
from mathlib.workshop import real


@pytest.mark.parametrize(
    ("name", "ranks"), [("ring", 3), ("pipeline", 4), ("interleaved", 2), ("experts", 2)]
)
def test_a_solution_does_the_same_on_processes(name, ranks):
    found = real.on_processes(name, edited(name), ranks)
    assert found and not any(one.wrong for one in found), found
    assert all(max(one.bytes) > 0 and len(one.bytes) == ranks for one in found)


def test_bytes_are_those_of_the_formula_and_sixteen_a_number():
    (found,) = real.on_processes("ring", edited("ring"), 4)
    assert found.says == "4 ranks, 12 numbers" and found.bytes == [16 * 2 * 12 * 3 // 4] * 4


ONLY_THERE = "import sys\n\n\n" + edited(
    "ring", ("    return join(shards)", "    return join(shards) * (1 + {})")
)
REAL = (
    "(('torch.distributed' in sys.modules) and sys.modules['torch.distributed'].is_initialized())"
)


def test_what_differs_on_processes_is_said():
    (found,) = real.on_processes("ring", ONLY_THERE.format(REAL), 2)
    assert found.wrong == "rank 0 ends with other numbers on real processes"


def test_what_sends_more_there_is_said():
    more = edited(
        "ring",
        (
            "    return join(shards)",
            f"    if {REAL}:\n"
            "        await me.send(right, shards[0])\n"
            "        await me.receive(left)\n"
            "    return join(shards)",
        ),
    )
    (found,) = real.on_processes("ring", f"import sys\n\n\n{more}", 2)
    assert "rank 0 sent 112 bytes of numbers: expected 16 for each of 5" in found.wrong


@pytest.mark.parametrize(("name", "said"), [("ring", "2, 3, 4, 5"), ("checkpoint", "none, since")])
def test_a_number_of_ranks_that_no_test_has_is_refused(name, said):
    with pytest.raises(InputError, match=f"these numbers of ranks: {said}"):
        real.on_processes(name, edited(name), 7)
