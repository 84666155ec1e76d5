"""Caches as chapter and trial study them: nothing changes, and what is held is the formula."""

import pytest

from mathlib.memory import inference as formulas
from mathlib.model import paging
from mathlib.trials import inference


@pytest.mark.parametrize("kind", inference.KINDS)
def test_a_cache_changes_nothing_and_holds_the_formula(kind):
    shape = inference.KINDS[kind]
    assert inference.off(shape) < 1e-9 < 1e-2 < inference.off(shape, "emptied")
    if kind != "latent":
        assert inference.off(shape, "position 0") > 0.1
    predicted, held = inference.bytes_kept(shape)
    assert predicted == held


def test_without_a_cache_the_same_text_takes_half_its_length_as_many_flop():
    ratio, same = inference.spent(tokens=8)
    whole = sum(range(8, 16))  # rows that are computed again and again
    assert same and ratio == pytest.approx(whole / 15, rel=0.05)


def test_six_readers_share_blocks_and_read_as_if_alone():
    found = inference.served(block=4, steps=3)
    wanted = formulas.paged(tokens=found.lengths, block=4)
    assert (found.used, found.reserved) == (wanted["used"], wanted.total)
    assert found.apart < 1e-4 and found.rooms(50)["room for 50 tokens each"] == 300
    assert found.rooms()["blocks of 1"] == found.used


def test_a_reader_who_reads_from_anothers_block_is_seen(monkeypatch):
    monkeypatch.setattr(paging.Pages, "release", lambda self, name: self.tokens.pop(name))
    right = paging.Pages.slots
    monkeypatch.setattr(paging.Pages, "slots", lambda self, *at: right(self, *at) % 40)
    assert inference.served(steps=2).apart > 1e-3
