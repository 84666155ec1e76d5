"""A checkpoint for other ranks: each mistake is named."""

import pytest
from solutions import assert_wrong

WRONG = [  # what stands there, what somebody writes, and what is said
    (
        "    return join(found)",
        "    return found[0]",
        "rank 0 returns a tensor of 5: expected a tensor of 7",
    ),
    (
        "total * me.rank // me.size, total * (me.rank + 1) // me.size",
        "total // me.size * me.rank, total // me.size * (me.rank + 1)",
        "rank 2 returns a tensor of 7: expected a tensor of 8",
    ),
    (
        "    return [start, total, shard]",
        "    return shard",
        "rank 0, line 8: ValueError: too many values to unpack (expected 3)",
    ),
    (
        "    return [start, total, shard]",
        "    return [start, len(shard), shard]",
        "rank 0 returns a tensor of 1: expected a tensor of 7",
    ),
    (
        "    return [start, total, shard]",
        "    return [0, total, shard]",
        "rank 1, line 14: join of nothing: expected one width",
    ),
    (
        "            found.append(shard[first - start : last - start])",
        "            found.append(shard)",
        "rank 0 returns a tensor of 11: expected a tensor of 7",
    ),
    (
        "            found.append(shard[first - start : last - start])",
        "            found.append(shard[first:last])",
        "rank 0 returns a tensor of 6: expected a tensor of 7",
    ),
    (
        "    found, own = [], None",
        ("    everything = [read(i) for i in range(files)]\n    found, own = [], None"),
        "right, but live numbers: 44, and 2 P/N for N loaders, and two files is 28",
    ),
    (
        "            found.append(shard[first - start : last - start])",
        "            found.insert(0, shard[first - start : last - start])",
        "rank 0 has the right numbers in the wrong places",
    ),
    (
        "    for file in range(files):",
        "    for file in range(me.size):",
        "rank 2 returns a tensor of 2: expected a tensor of 8",
    ),
    (
        "    return join(found)",
        "    return join([read(i)[2] for i in range(files)])",
        "rank 0 returns a tensor of 22: expected a tensor of 7",
    ),
    (
        "total * me.rank // me.size, total * (me.rank + 1) // me.size",
        "total * me.rank // files, total * (me.rank + 1) // files",
        "rank 0 returns a tensor of 5: expected a tensor of 7",
    ),
]


@pytest.mark.parametrize(("old", "new", "words"), WRONG)
def test_a_mistake_is_named(old, new, words):
    assert_wrong("checkpoint", [(old, new)], words)
