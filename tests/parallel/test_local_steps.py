"""The sturdy local steps: the plain file's weights, those that one process moves by hand, the
bytes of the formula, what is refused, and a run that is saved and resumed.
"""

import pytest
import sharding
import torch
import torch.distributed as dist
from local_replicas import STEPS, by_hand

from mathlib import launch
from mathlib.checks import InputError
from mathlib.meters import wire
from mathlib.model import oracle
from mathlib.parallel import local_steps
from mathlib.parallel.plain import local_sgd
from mathlib.traffic import compressed

DILOCO = {"rate": 0.7, "momentum": 0.9}
CASES = [
    {"steps": 3},
    {"steps": 2, **DILOCO},
    {"steps": 4, "fragments": 2, **DILOCO},
    {"steps": 3, "fragments": 3, "late": 2, "own": 0.25, **DILOCO},
]


def part(step):
    x, y = sharding.odd_batch(step)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    return x.chunk(ranks)[rank], y.chunk(ranks)[rank]


def trained(name, options, plain=False, frozen=False):
    """This rank's weights after each step, and how many parameters each fragment has."""
    model = sharding.build("odd", dist.get_rank())
    if frozen:
        next(model.parameters()).requires_grad_(False)
    if plain:
        outer = local_sgd.nesterov if options.get("momentum") else local_sgd.mean
        way = local_sgd.LocalSteps(
            model, oracle.OPTIMIZERS[name], outer=outer, steps=options["steps"]
        )
    else:
        live = [p for p in model.parameters() if p.requires_grad]
        way = local_steps.LocalSteps(model, oracle.OPTIMIZERS[name](live), **options)
    history = []
    for step in range(STEPS):
        sharding.mse(model, *part(step)).backward()
        way.step()
        history.append(oracle.flat_weights(model).clone())
    return history, [len(f.parameters) for f in way.fragments]


def far(a, b):
    return oracle.distance([torch.cat(a)], torch.cat(b))


@pytest.mark.parametrize("name", oracle.OPTIMIZERS)
def test_one_fragment_is_the_plain_file(name):
    for options in CASES[:2]:
        found = launch.run(trained, 3, name, options)
        wanted = launch.run(trained, 3, name, options, plain=True)
        for (ours, _), (theirs, _) in zip(found, wanted, strict=True):
            assert far(ours, theirs) < oracle.EQUAL
        alone = launch.run(trained, 3, name, {"steps": STEPS + 1}, plain=True)
        assert far(found[0][0], alone[0][0]) > 1e-6, "without a meeting"


@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize("name", oracle.OPTIMIZERS)
def test_weights_after_every_step_are_those_by_hand(name, ranks):
    for options in CASES:
        found = launch.run(trained, ranks, name, options)
        wanted = by_hand(name, found[0][1], ranks, **options)
        for (ours, _), theirs in zip(found, wanted, strict=True):
            assert far(ours, theirs) < oracle.EQUAL, options


def test_a_frozen_parameter_stays_and_belongs_to_no_fragment():
    history, sizes = launch.run(trained, 2, "SGD", CASES[2], frozen=True)[0]
    first = next(sharding.build("odd", 0).parameters())
    assert torch.equal(history[-1][: first.numel()], first.detach().flatten())
    live = [p for p in sharding.build("odd", 0).parameters() if p.requires_grad]
    assert sum(sizes) == len(live) - 1 and min(sizes) > 0


def sends(H, F):
    """In each step of the second round."""
    model = sharding.build("gpt", 0)
    inner = torch.optim.SGD(model.parameters(), lr=0.1)
    way = local_steps.LocalSteps(model, inner, steps=H, fragments=F)
    found = []
    for step in range(2 * H):
        oracle.loss(model, *sharding.PROBLEMS["gpt"][1](step)).backward()
        with wire.sent() as counted:
            way.step()
        found.append((counted.program, counted.system))
    return found[H:], [sum(p.nbytes for p in f.parameters) for f in way.fragments]


@pytest.mark.parametrize("F", [1, 2])
def test_bytes_are_those_of_the_formula(F, H=4, ranks=2):
    by_rank = launch.run(sends, ranks, H, F)
    sizes = by_rank[0][1]
    wanted = compressed.local_steps(payload=sum(sizes), ranks=ranks, steps=H, fragments=F)
    both = zip(*(rank[0] for rank in by_rank), strict=True)  # program and system of a step, by rank
    steps = [[sum(side) / ranks for side in zip(*step, strict=True)] for step in both]
    for side in zip(*steps, strict=True):
        assert sum(side) / H == pytest.approx(wanted["on average"], rel=1e-12)
        assert sum(n > 0 for n in side) == F
        assert wanted["at most"] <= max(side) * (1 + 1e-12) < 2 * wanted["at most"]


def resumed(stop):
    """The last weights of a run that is taken up after some steps by new objects."""
    options, saved = {"steps": 3, "fragments": 2, "late": 1, **DILOCO}, None
    model = sharding.build("odd", dist.get_rank())
    for begin, end in ((0, stop), (stop, STEPS)) if stop < STEPS else ((0, STEPS),):
        inner = oracle.OPTIMIZERS["Adam"](model.parameters())
        way = local_steps.LocalSteps(model, inner, **options)
        if saved:
            model.load_state_dict(saved[0])
            inner.load_state_dict(saved[1])
            way.load_state_dict(saved[2])
        for step in range(begin, end):
            sharding.mse(model, *part(step)).backward()
            way.step()
        if end < STEPS:
            state = {key: tensor.clone() for key, tensor in model.state_dict().items()}
            saved = state, inner.state_dict(), way.state_dict()
            model = sharding.build("odd", 7)
    return oracle.flat_weights(model)


def test_a_run_that_is_resumed_ends_with_the_same_weights():
    wanted = launch.run(resumed, 2, STEPS)
    for theirs, ours in zip(wanted, launch.run(resumed, 2, 5), strict=True):
        assert torch.equal(ours, theirs)
    with pytest.raises(launch.RankError, match=r"fragments \[0\] are in flight"):
        launch.run(resumed, 1, 4)


def refused(options):
    model = sharding.build("odd", 0)
    with pytest.raises(InputError) as refusal:
        local_steps.LocalSteps(model, torch.optim.SGD(model.parameters(), lr=0.1), **options)
    return str(refusal.value)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"steps": 0}, "steps = 0"),
        ({"steps": 2, "fragments": 3}, "fragments = 3: expected at most steps = 2"),
        ({"steps": 99, "fragments": 98}, "fragments = 98"),
        ({"steps": 2, "late": 2}, "late = 2: expected less than steps = 2"),
        ({"steps": 2, "own": 0.5}, "own = 0.5 with late = 0"),
        ({"steps": 2, "late": 1, "own": 1}, "own = 1: expected less than 1"),
        ({"steps": 2, "momentum": 1.0}, "momentum = 1.0: expected less than 1"),
        ({"steps": 2, "rate": 0}, "rate = 0"),
    ],
)
def test_what_does_not_go_together_is_refused(options, named):
    assert named in launch.run(refused, 1, options)[0]
