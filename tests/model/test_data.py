"""The corpus and its batches: the same on every machine."""

import torch

from mathlib.model import data


def test_batches_repeat_and_targets_are_the_next_characters():
    (x, y), (again, _) = data.batch(4, 16, step=3), data.batch(4, 16, step=3)
    assert (
        torch.equal(x, again)
        and torch.equal(x[:, 1:], y[:, :-1])
        and not torch.equal(x, data.batch(4, 16, step=4)[0])
    )
    assert data.encode(data.decode(x[0])).equal(x[0])


def test_a_seed_makes_other_batches_and_the_last_character_can_be_reached():
    x, y = data.batch(4, 16)
    assert not torch.equal(x, data.batch(4, 16, seed=1)[0])
    assert x.untyped_storage().nbytes() == x.nbytes and y.untyped_storage().nbytes() == y.nbytes, (
        "no view of more"
    )
    whole = data.encode(data.text())
    (before, after) = data.batch(1, len(whole) - 1)
    assert torch.equal(before[0], whole[:-1]) and torch.equal(after[0], whole[1:])


def test_a_token_is_a_place_in_the_vocabulary():
    characters = data.vocabulary()
    assert list(characters) == sorted(set(data.text()))
    assert data.encode(characters).tolist() == list(range(len(characters)))
    assert data.decode(data.encode("Shall I compare thee")) == "Shall I compare thee"
