"""Two small models that know the sonnets: a writer, and the smaller one that drafts for it.

Their training takes some minutes, so its result is stored beside the corpus, in 16 bits. Made by
`python -m mathlib.model.writers`, which trains both again on one core.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import as_file, files
from pathlib import Path

import torch

from mathlib.model import data, gpt
from mathlib.specs import Model

STEPS, SEQUENCES, RATE, WARM = 2500, 8, 4e-3, 50
WRITER = gpt.small(layers=2, width=64, context=64, vocab=len(data.vocabulary()))
SHAPES = {"writer": WRITER, "draft": WRITER.but(name="draft", layers=1, width=32)}


def trained(shape: Model, steps: int = STEPS) -> gpt.GPT:
    """AdamW on windows of the sonnets: the rate rises for 50 steps and falls to zero at the end."""
    torch.manual_seed(0)
    model = gpt.GPT(shape)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1, (step + 1) / WARM) * (1 - step / steps)
        loss = model.loss(*data.batch(SEQUENCES, shape.context, step))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


@torch.no_grad()
def stored(name: str) -> gpt.GPT:
    """One of SHAPES with the weights that its training left."""
    model = gpt.GPT(SHAPES[name])
    with _file() as path:
        weights = torch.load(path, weights_only=True)[name]
    for key, weight in model.named_parameters():
        weight.copy_(weights[key])
    return model.eval()


@contextmanager
def _file() -> Iterator[Path]:
    with as_file(files("mathlib.model") / "writers.pt") as path:
        yield path


def main() -> None:
    torch.set_num_threads(1)
    made = {}
    for name, shape in SHAPES.items():
        made[name] = {k: w.detach().half() for k, w in trained(shape).named_parameters()}
    with _file() as path:
        torch.save(made, path)


if __name__ == "__main__":
    main()
