"""The stored writers: what their training left, and that it is a training that learns."""

import torch

from mathlib.model import data, gpt, writers
from mathlib.model.decoding import generate


@torch.no_grad()
def losses():
    text = data.batch(32, 64, 10_000)
    return {name: writers.stored(name).loss(*text).item() for name in writers.SHAPES}


def test_the_writer_knows_the_sonnets_and_its_draft_half():
    known = losses()
    assert known["writer"] < 0.3 < 1 < known["draft"] < 1.6


def test_the_writer_writes_a_line_of_them():
    prompt = data.encode("My mistress' ")[None]
    written = data.decode(generate(writers.stored("writer"), prompt, 36)[0])
    assert written in data.text() and "nothing like the sun" in written


def test_training_is_what_lowers_the_loss():
    text, shape = data.batch(8, 64, 10_000), writers.SHAPES["draft"]
    fresh, learned = gpt.GPT(shape).loss(*text), writers.trained(shape, 80).loss(*text)
    assert learned.item() < fresh.item() - 0.5
