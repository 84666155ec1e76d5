"""The page's figures: what leaves a node, what fits, what its advice finds, who gathers."""

import pytest

from mathlib.trials import mics_published as page


def test_far_groups_send_more_and_by_rings_more_than_all_ranks():
    staged = [page.leaves(S).total for S in page.DEGREES]
    rings = [page.leaves(S, rings=True).total for S in page.DEGREES]
    assert staged == sorted(staged) and rings[0] == staged[0] < rings[3] < rings[2] < rings[1]
    assert page.leaves(16, 2).total > 1.4 * page.leaves(32).total
    assert [row[0] for row in page.seconds()] == ["8", "16", "32", "64"]
    assert page.same_batch()[0] == ["16", "2 × 6", "154 GB", "262 GB"]


def test_the_reference_configurations_fit_with_recomputation_only():
    for model, nodes, _, sequences, b, *_, t in page.ROWS.values():
        assert 8 * nodes // t * b == sequences and model.layers in (44, 80)
    for name in page.ROWS:
        full = page.needed(name)
        assert page.fits(full) and not page.fits(page.needed(name, "none"))
        assert sum(page.grouped(full).values()) == pytest.approx(full.total)
    assert not page.fits(page.needed("20B on 8", attention="standard"))


def test_the_advice_finds_the_pages_degrees_or_half():
    found = {(row[0], row[1]): (row[3], row[4]) for row in page.advised()}
    assert found["20B on 2", "4"] == ("16", "8") and found["20B on 8", "12"] == ("32", "12")
    assert found["20B on 8", "1"] == ("16", "8"), "for a small batch half the degree is enough"
    assert [found[f"65B, tensor {t}", b][0] for t, b in ((8, "8"), (2, "2"))] == ["8", "32"]


def test_a_matrix_an_eighth_too_large_falls_back():
    assert page.back_end(16, 2, 6144 * 24576) == "nccl" != page.back_end(16, 2, 2**20)
    shares = [page.served(16, 2), page.served(32, 8), page.served(16, 2, scratch_buffer=2**26)]
    assert [round(100 * share) for share in shares] == [32, 97, 100]
