"""The small GPT whose steps the sections time, and its batch."""

from mathlib.model import data, gpt
from mathlib.specs import Model

SEQUENCES, CONTEXT = 4, 128


def shape(layers: int = 8, width: int = 256) -> Model:
    vocab = len(data.vocabulary())
    return gpt.small(layers=layers, width=width, heads=8, context=CONTEXT, vocab=vocab)
