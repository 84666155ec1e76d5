"""Dispatch to experts: each mistake is named."""

import pytest
from solutions import assert_wrong

WRONG = [  # what stands there, what somebody writes, and what is said
    (
        "    return join([by_place[i] for i in range(len(tokens))])",
        "    return join(back)",
        "rank 0 has its tokens in the order of the experts: put them back where they were",
    ),
    (
        "    back = await all_to_all(me, [expert(some) for some in arrived])",
        "    back = [expert(some) for some in arrived]",
        "rank 0 is wrong in 4 of 6 numbers, first in row 0",
    ),
    (
        "    back = await all_to_all(me, [expert(some) for some in arrived])",
        "    back = await all_to_all(me, arrived)",
        "rank 0 has its tokens as they were: no expert has seen them",
    ),
    (
        "    arrived = await all_to_all(me, [tokens[some] for some in places])",
        "    arrived = [tokens[some] for some in places]",
        "rank 0 is wrong in 4 of 6 numbers, first in row 0",
    ),
    ("if e == rank]", "if e == me.rank]", "rank 0, line 8: KeyError: 0"),
    (
        "    return join([by_place[i] for i in range(len(tokens))])",
        "    return join([by_place[i] for i in reversed(range(len(tokens)))])",
        "rank 0 has the right numbers in the wrong places",
    ),
    (
        "all_to_all(me, [tokens[some] for some in places])",
        "all_to_all(me, [tokens for some in places])",
        "rank 0 is wrong in 4 of 6 numbers, first in row 1",
    ),
    (
        "    return join([by_place[i] for i in range(len(tokens))])",
        "    return expert(tokens)",
        "rank 0 sends all its tokens to its own expert",
    ),
    (
        "    return join([by_place[i] for i in range(len(tokens))])",
        "    return by_place",
        "rank 0 returns dict: expected a tensor of 3 x 2",
    ),
    (
        "[expert(some) for some in arrived]",
        "[expert(some) for some in reversed(arrived)]",
        "rank 0, line 6: tensor of 1 x 2[1]: its places are 0 to 0",
    ),
    (
        "[expert(some) for some in arrived]",
        "[expert(expert(some)) for some in arrived]",
        "rank 0 is wrong in 6 of 6 numbers, first in row 0",
    ),
    (
        "    return join([by_place[i] for i in range(len(tokens))])",
        (
            "    everything = await all_to_all(me, [tokens] * me.size)\n"
            "    return join([by_place[i] for i in range(len(tokens))])"
        ),
        (
            "right, but bytes sent: 56, and h numbers of each token that leaves a rank, there "
            "and back is 32"
        ),
    ),
]


@pytest.mark.parametrize(("old", "new", "words"), WRONG)
def test_a_mistake_is_named(old, new, words):
    assert_wrong("experts", [(old, new)], words)
