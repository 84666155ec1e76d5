"""What a step computes, and what is reserved, as counted."""

from charts import drawn, said

from mathlib.memory import inference as formulas
from mathlib.show.schemes import inference


def count(rows):
    return sum(cell is not None for row in rows for cell in row)


def test_matmuls_of_a_step():
    for tokens in (1, 5, 9):
        assert count(inference.rows_of(tokens, False)) == tokens * (tokens + 1) // 2
        assert count(inference.rows_of(tokens, True)) == tokens
    assert "28 matmuls without a cache, 7 with one" in said(drawn(inference.feeding()))


def test_blocks_as_the_formula_counts_them():
    lengths = (13, 40, 5)
    rows = formulas.paged(tokens=lengths, block=8)
    blocks = inference.dealt(lengths, 8)
    assert 8 * sum(map(len, blocks)) == rows.total
    assert sorted(sum(blocks, [])) == list(range(len(sum(blocks, [])))), "each dealt once"
    assert f"in blocks {int(rows.total)}" in said(drawn(inference.pages(lengths, 8, 64)))


def test_what_stays_of_a_draft():
    text = said(drawn(inference.judging((0.5, 0.3, 0.2), (0.1, 0.2, 0.7))))
    assert "50% stays" in text and "50% is refused" in text


def test_kinds_are_named_with_their_numbers():
    kept = {"multi-head": (8, 1024), "one latent": (1, 72)}
    text = said(drawn(inference.sharing(8, kept)))
    assert "multi-head keeps 1024 numbers" in text and "one latent keeps 72" in text
