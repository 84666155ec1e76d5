"""What a query meets has two matmuls; what masks, tiles and windows keep is counted."""

import pytest
from charts import drawn, words

from mathlib import specs
from mathlib.checks import InputError
from mathlib.compute import flops
from mathlib.show.schemes import attention


def test_a_query_meets_keys_and_values_in_two_matmuls_of_one_size():
    written = words(drawn(attention.one_query()))
    assert written.count("2 s d") == 2 and written.count("scores") == 2
    assert {"q", "keysᵀ", "values", "output"} <= set(written)


def test_a_mask_keeps_half_and_the_diagonal():
    for tokens, tile in ((8, 2), (6, 3), (4, 1)):
        caption = repr(attention.causal_mask(tokens=tokens, tile=tile))
        kept, tiles = tokens * (tokens + 1) // 2, tokens * (tokens + tile) // 2
        assert f"Of {tokens**2} scores the mask keeps {kept};" in caption
        assert f"computes {tiles}." in caption
    with pytest.raises(InputError, match="tile = 3"):
        attention.causal_mask(tokens=8, tile=3)


def test_a_window_keeps_what_the_formula_counts():
    for tokens, width in ((12, 4), (6, 6), (5, 1)):
        caption = repr(attention.window(tokens=tokens, nearest=width))
        near = flops.attention_pairs(tokens=tokens, causal=True, window=specs.Window(width))
        full = flops.attention_pairs(tokens=tokens, causal=True)
        assert f"a full layer keeps {full}, one with a window of {width} tokens {near};" in caption
