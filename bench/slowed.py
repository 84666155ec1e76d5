"""ZeRO and MiCS against PyTorch's own where the links are slow: what each sends decides then.

Between ranks of one machine a step is nearly all processor, whoever sends how much. Here the
kernel lets each connection send so many bytes a second, as a network between machines would.
"""

from collections.abc import Iterator

import rounds
from shapes import shape
from zero import CANDIDATES, PAIRS

from mathlib import launch
from mathlib.launch.slow_wires import wires
from mathlib.model import gpt
from mathlib.specs import Model

LINKS = (100e6, 25e6)  # bytes a second


def race(names: list[str], model: Model, link: float, count: int) -> rounds.Times:
    steps = {name: CANDIDATES[name](gpt.GPT(model)) for name in names}
    for step in steps.values():  # what connects in a first step has done so when the links slow
        step()
    with wires(bandwidth=link):
        return rounds.on_ranks(steps, rounds=count)


def rows(quick: bool) -> Iterator[dict]:
    for link in LINKS:
        for ours, theirs in PAIRS.items():
            ranks, count = 4 if ours == "MiCS" else 2, 2 if quick else 10
            names = [ours, theirs]
            times = launch.run(race, ranks, names, shape(), link, count, timeout=900)[0]
            label = f"GPT step, {ranks} ranks, links of {link / 1e6:.0f} MB/s"
            yield rounds.row(label, times, ours, theirs, ranks=ranks, bandwidth=link)
