"""A tower, a projector and a text model over unequal stages, cut where the dynamic programme says
and elsewhere: what one process trains, with the bytes and the idle times of the formulas.
"""

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from patience import PATIENCE

from mathlib import launch
from mathlib.checks import InputError
from mathlib.compute import vision
from mathlib.meters import wire
from mathlib.model import oracle
from mathlib.model.seeing import Seeing
from mathlib.parallel.pipeline.towers import TowerPipeline
from mathlib.schedule import orders, partition
from mathlib.schedule.simulate import simulate
from mathlib.schedule.times import Times
from mathlib.specs import find_model

TOWER = vision.Tower(layers=4, width=16, heads=2, ffn_width=32, image=16, patch=4)
TEXT = find_model("llama3-8b").but(
    **{"name": "small", "layers": 4, "width": 24, "heads": 4, "kv_heads": 2, "head_dim": 6},
    **{"ffn_width": 64, "vocab": 40, "context": 24},
)
M, STEPS, SEQUENCES = 3, 2, 5  # micro-batches, of which two are larger
TIMES, PATCHES, HEAD = partition.work_with_tower(TOWER, TEXT, images=1)
ENDS = {"embedding": PATCHES, "head": HEAD}


def best(stages):
    return partition.by_time(times=TIMES, stages=stages, **ENDS)


def batch(step, many=SEQUENCES):
    """Images, tokens, and targets of which those of patches and some others do not count."""
    draw = torch.Generator().manual_seed(step)
    images = torch.randn(many, 3, 16, 16, generator=draw, dtype=torch.double)
    tokens = torch.randint(40, (many, TEXT.context), generator=draw)
    targets = tokens.roll(-1, 1)
    targets[:, : TOWER.patches - 1] = targets[:, -1] = oracle.NOT_COUNTED
    targets[0, -4:] = oracle.NOT_COUNTED
    return images, tokens, targets


def made(split, optimizer="SGD", order="1f1b", m=M, **options):
    schedule = orders.make(order, stages=dist.get_world_size(), micro_batches=m)
    how = {"stage": dist.get_rank(), "tokens": TEXT.context, "dtype": torch.double}
    make = oracle.OPTIMIZERS[optimizer]
    return TowerPipeline(TOWER, TEXT, split, schedule, make, **how, **options)


def by_ranks(cases):
    """Weights after each step, by name, and losses; `swapped`: another sequence's image."""
    found = []
    for split, optimizer, order, swapped in cases:
        pipe, history = made(split, optimizer, order), []
        for step in range(STEPS):
            images, *texts = batch(step)
            loss = sum(pipe.look(images.flip(0) if swapped else images, *texts).values())
            pipe.step()
            history.append(({n: p.clone() for n, p in pipe.weights().items()}, loss))
        found.append(history)
    return found


def by_one(optimizer):
    net = Seeing(TOWER, TEXT).double()
    make, history = oracle.OPTIMIZERS[optimizer](net.parameters()), []
    for step in range(STEPS):
        images, tokens, targets = batch(step)
        scores = net(images, tokens).flatten(0, 1)
        loss = F.cross_entropy(scores, targets.flatten(), ignore_index=oracle.NOT_COUNTED)
        loss.backward()
        make.step()
        make.zero_grad()
        history.append(({n: p.detach().clone() for n, p in net.named_parameters()}, loss.item()))
    return history


def apart(ranks, wanted):
    """How far weights and losses are from one process, after any step; names that somebody has."""
    far, names = 0.0, set()
    for step, (one, loss) in enumerate(wanted):
        far = max(far, abs(sum(history[step][1] for history in ranks) - loss))
        for weights, _ in (history[step] for history in ranks):
            names |= set(weights)
            far = max(far, *((p - one[n]).abs().max().item() for n, p in weights.items()))
    return far, names == set(wanted[0][0])


@pytest.mark.parametrize("ranks", [2, 3])
def test_stages_cut_where_the_programme_says_train_what_one_process_trains(ranks):
    inside, behind = {2: ([3, 5], [4, 4]), 3: ([2, 1, 5], [3, 3, 2])}[ranks]
    assert best(ranks) not in (inside, behind) and best(ranks)[0] >= TOWER.layers
    cases = [(best(ranks), optimizer, "1f1b", False) for optimizer in oracle.OPTIMIZERS]
    cases += [
        (cut, "Adam", order, False) for cut in (inside, behind) for order in ("gpipe", "1f1b")
    ]
    cases.append((best(ranks), "SGD", "1f1b", True))
    found = launch.run(by_ranks, ranks, cases, timeout=PATIENCE)
    wanted = {optimizer: by_one(optimizer) for optimizer in oracle.OPTIMIZERS}
    for (*case, swapped), *histories in zip(cases, *found, strict=True):
        far, everybody = apart(histories, wanted[case[1]])
        assert everybody, case
        assert (far > 1e-4) if swapped else (far < oracle.EQUAL), case


def counted(cases):
    """Bytes that this rank sends, in a run; and when its actions begin and end by the clock."""
    found = []
    for split, times in cases:
        given = batch(0, M)  # micro-batches of one sequence
        pipe = made(split)
        with wire.counted() as program:
            pipe.look(*given)
        clocked = made(split, clock=times)
        clocked.look(*given)
        found.append((program.sent, [(begin, end) for _, begin, end in clocked.clock.done]))
    return found


def times_of(split):
    """Whole numbers near the FLOP of each stage, so that sums have no rounding."""
    work = partition.stage_times(split, times=TIMES, **ENDS)
    forward = [float(round(one)) for one in work]
    return Times(forward=forward, backward=[2 * one for one in forward])


def test_bytes_and_idle_times_are_the_formulas():
    splits = [best(3), [3, 3, 2], [5, 2, 1], [2, 1, 5]]
    cases = [(split, times_of(split)) for split in splits]
    found = launch.run(counted, 3, cases, timeout=PATIENCE)
    schedule, grows = orders.make("1f1b", stages=3, micro_batches=M), []
    for (split, times), *ranks in zip(cases, *found, strict=True):
        passed = [rows * wide for rows, wide in partition.passed_with_tower(TOWER, TEXT, split)]
        behind, before = [*passed, 0], [0, *passed]
        line = simulate(schedule, times)
        for s, (sent, clock) in enumerate(ranks):
            assert sent == 8 * M * (behind[s] + before[s]), "activations on, gradients back"
            assert clock == list(zip(line.begins[s], line.ends[s], strict=True))
        more = (orders.make("1f1b", stages=3, micro_batches=m) for m in (24, 48))
        few, many = (max(map(max, simulate(one, times).ends)) for one in more)
        assert (many - few) / 24 == 3 * max(times.forward)
        grows.append(many - few)
    assert grows[0] < min(grows[1:]), "a further micro-batch takes least in the best cut"


def test_what_is_wrong_is_refused():
    def tried():
        pipe = made([4, 4], m=2)
        images, *texts = batch(0)
        with pytest.raises(InputError, match="images = 3: expected 5"):
            pipe.look(images[:3], *texts)
        with pytest.raises(InputError, match="expected 3, one for each part of the split"):
            made([4, 2, 2])
        with pytest.raises(InputError, match="'flush'"):
            made([4, 4], order="pipedream")

    launch.run(tried, 2, timeout=PATIENCE)
