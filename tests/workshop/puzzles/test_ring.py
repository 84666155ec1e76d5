"""Ring all-reduce: each mistake is named."""

import pytest
from solutions import assert_wrong

WRONG = [  # what stands there, what somebody writes, and what is said
    ("    return join(shards)", "    return gradient", "rank 0 still has its own gradient"),
    (
        "    return join(shards)",
        "    return shards[me.rank]",
        "rank 0 returns a tensor of 3: expected a tensor of 12",
    ),
    (
        "for step in range(1, N)",
        "for step in range(1, N - 1)",
        "rank 0, numbers 0 to 2: the gradient of ranks 1, 2 and 3 is missing",
    ),
    (
        "for step in range(N - 1):",
        "for step in range(N - 2):",
        "rank 0, numbers 3 to 5: the gradient of rank 1 is missing",
    ),
    (
        "+= await me.receive(left)",
        "= await me.receive(left)",
        "rank 0, numbers 0 to 2: the gradient of ranks 0, 2 and 3 is missing",
    ),
    (
        "    return join(shards)",
        "    return join(shards) / N",
        "rank 0 has the mean of all gradients: expected their sum",
    ),
    (
        (
            "        await me.send(right, shards[(me.rank - step) % N])\n"
            "        shards[(me.rank - step - 1) % N] = "
        ),
        (
            "        await me.send(right, shards[me.rank])\n"
            "        shards[(me.rank - step - 1) % N] = "
        ),
        "rank 0 is wrong in 6 of 12 numbers, first in number 3",
    ),
    (
        "shards[(me.rank - step - 1) % N] = await me.receive(left)",
        "shards[(me.rank - step - 1) % N] += await me.receive(left)",
        "rank 0, numbers 9 to 11: the gradient of rank 0 counts twice",
    ),
    (
        "shards = gradient.shards(N)",
        "shards = [gradient] * N",
        "rank 0 returns a tensor of 48: expected a tensor of 12",
    ),
    (
        "        shards[(me.rank - step - 1) % N] = await me.receive(left)\n",
        "        shards[(me.rank - step - 1) % N] = me.receive(left)\n",
        (
            "rank 0, line 8: a message of me.receive(3) without await: expected a tensor, a "
            "number, or a list of them"
        ),
    ),
    (
        "(me.rank + 1) % me.size",
        "me.rank + 1",
        "rank 3, line 5: me.send(4, ...): expected a rank, 0 to 3",
    ),
    (
        "    return join(shards)",
        "    shards.reverse()\n    return join(shards)",
        "rank 0 has the right numbers in the wrong places",
    ),
]


@pytest.mark.parametrize(("old", "new", "words"), WRONG)
def test_a_mistake_is_named(old, new, words):
    assert_wrong("ring", [(old, new)], words)
