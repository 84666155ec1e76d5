"""Sequences of any length share blocks: same logits, no block twice, waste below a block each."""

import pytest
import torch
from small_decoders import KINDS, tiny

from mathlib.checks import InputError
from mathlib.memory import inference
from mathlib.model import gpt, modern
from mathlib.model.paging import Pages, Server

LENGTHS = {"long": 13, "short": 3, "middle": 8}
TOKENS = {
    name: torch.randint(97, (length + 6,), generator=torch.Generator().manual_seed(length)).tolist()
    for name, length in LENGTHS.items()
}


def build(kind):
    if kind == "gpt":
        return gpt.GPT(gpt.small(layers=2, width=32, context=24, vocab=97)).double()
    return modern.Modern(tiny()).double()


@pytest.mark.parametrize("kind", ["gpt", "grouped"])
def test_together_as_alone(kind):
    """They come one after the other, step together six times, one leaves, and one comes."""
    built = build(kind)
    server = Server(built, blocks=14, block=4)
    for name, length in LENGTHS.items():
        server.feed({name: TOKENS[name][:length]})
    for number in range(6):
        found = server.feed({n: [TOKENS[n][length + number]] for n, length in LENGTHS.items()})
    for name, tokens in TOKENS.items():
        assert torch.allclose(found[name], alone(built, tokens), atol=1e-10)
    server.pages.release("long")
    found = server.feed({"next": TOKENS["long"][:17]})["next"]
    assert torch.allclose(found, alone(built, TOKENS["long"][:17]), atol=1e-10)
    found = server.feed({"short": [5]})["short"]  # nobody wrote over its blocks
    assert torch.allclose(found, alone(built, [*TOKENS["short"], 5]), atol=1e-10)


@torch.no_grad()
def alone(built, tokens):
    return built(torch.tensor([tokens]))[0, -1]


def test_what_is_held_and_what_of_it_is_empty():
    pages = Pages(blocks=20, block=4)
    for name, tokens in TOKENS.items():
        pages.grow(name, len(tokens))
        for _ in range(5):
            pages.grow(name, 1)
    lengths = [len(tokens) + 5 for tokens in TOKENS.values()]
    wanted = inference.paged(tokens=lengths, block=4)
    assert pages.used == wanted["used"] == sum(lengths)
    assert pages.reserved == wanted.total and wanted["empty"] < 4 * len(lengths)
    every = [block for blocks in pages.table.values() for block in blocks]
    assert len(every) == len(set(every)) and not set(every) & set(pages.free)
    slots = torch.cat([pages.slots(name) for name in TOKENS])
    assert len(set(slots.tolist())) == len(slots) == pages.used


def test_blocks_come_back():
    pages = Pages(blocks=3, block=4)
    pages.grow("one", 9)
    with pytest.raises(InputError, match="two needs 1 blocks, 0 are free"):
        pages.grow("two", 1)
    assert pages.used == 9 and "two" not in pages.table
    pages.release("one")
    pages.grow("two", 12)
    assert pages.reserved == 12 and pages.used == 12


def test_other_caches_are_refused():
    for kind in ("latent", "windows"):
        with pytest.raises(InputError, match="pages are written for"):
            Server(modern.Modern(tiny(**KINDS[kind])), blocks=2, block=4)
