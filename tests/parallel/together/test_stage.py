"""A rank's part: named and placed in the whole model, and never more than it needs."""

import together_cases as cases
from together_cases import EXPERT, PIPELINE, SEQUENCE, TENSOR

from mathlib import launch
from mathlib.layout import Layout
from mathlib.meters import saved
from mathlib.parallel.together import stage
from mathlib.parallel.together.grid import Grid
from mathlib.schedule import orders

LAYOUT = Layout(**PIPELINE | TENSOR | SEQUENCE | EXPERT | {"expert_tensor": 1})


def placed():
    """Names with how many of their numbers are here; bytes of all, and the most while made."""
    schedule = orders.make("1f1b", stages=2, micro_batches=3)
    grid = Grid(LAYOUT)
    with saved.Storages(cases.torch.nn.Module()) as seen:
        mine = stage.build(cases.MODELS["shared"], LAYOUT, schedule, grid)
    found = {place.name: (p.numel(), place.shape) for p, place in mine.places.items()}
    (chunk,) = mine.chunks
    split = [set(mine.own(chunk, expert)) for expert in (False, True)]
    return grid.at["pp"], found, split, sum(p.nbytes for p in mine.places), seen.peak


def test_parts_have_the_names_of_the_whole_and_it_was_never_all_there():
    whole = {n: tuple(p.shape) for n, p in cases.whole("shared").named_parameters()}
    names, largest = set(), 4 * max(cases.torch.Size(s).numel() for s in whole.values())
    for at, found, (dense, experts), own, peak in launch.run(placed, 4):
        assert dense | experts == set(found) and not dense & experts
        assert len({name.split(".")[4] for name in experts}) == 2 * at  # the first is dense
        for name, (numbers, shape) in found.items():
            assert whole[name] == shape
            size = cases.torch.Size(shape).numel()
            alike = "norm" in name or "before" in name or "router" in name or name in experts
            assert numbers == size if alike else numbers < size
        assert own <= peak <= own + 3 * largest
        names |= set(found)
    assert names == set(whole)
