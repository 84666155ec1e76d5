"""Dispatch to experts: other right programs pass, and each mistake is named."""

import pytest
from solutions import assert_right, assert_wrong

RIGHT = [
    """\
async def program(me, tokens, chosen, expert):
    # by plain messages, and a single call of the expert
    ranks = range(me.size)
    at = {r: [i for i, e in enumerate(chosen) if e == r] for r in ranks}
    for r in ranks:
        if r != me.rank:
            await me.send(r, tokens[at[r]])
    came = [tokens[at[r]] if r == me.rank else await me.receive(r) for r in ranks]
    seen, start = expert(join(came)), 0
    back = {}
    for r, part in zip(ranks, came, strict=True):
        back[r] = seen[start : start + len(part)]
        start += len(part)
        if r != me.rank:
            await me.send(r, back[r])
    rows = {}
    for r in ranks:
        part = back[r] if r == me.rank else await me.receive(r)
        rows.update({i: part[j] for j, i in enumerate(at[r])})
    return join([rows[i] for i in sorted(rows)])
""",
    """\
async def program(me, tokens, chosen, expert):
    # sorted by expert, and sorted back
    order = sorted(range(len(chosen)), key=lambda i: chosen[i])
    counts = [chosen.count(r) for r in range(me.size)]
    starts = [sum(counts[:r]) for r in range(me.size + 1)]
    in_order = tokens[order]
    parts = [in_order[starts[r] : starts[r + 1]] for r in range(me.size)]
    arrived = await all_to_all(me, parts)
    results = join(await all_to_all(me, [expert(x) for x in arrived]))
    return results[[order.index(i) for i in range(len(order))]]
""",
]
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


@pytest.mark.parametrize("text", RIGHT)
def test_another_right_program_passes(text):
    assert_right("experts", text)


@pytest.mark.parametrize(("old", "new", "words"), WRONG)
def test_a_mistake_is_named(old, new, words):
    assert_wrong("experts", [(old, new)], words)
