"""Every schedule by one oracle: after each step, the stages together hold the weights of one
process.
"""

import pipelines
import pytest
from patience import PATIENCE
from torch.nn import functional

from mathlib import launch
from mathlib.checks import InputError
from mathlib.model import oracle
from mathlib.parallel.pipeline import runtime
from mathlib.parallel.pipeline.copies import Copies
from mathlib.parallel.pipeline.mail import Mail
from mathlib.schedule import orders
from mathlib.schedule.actions import Action, Schedule

MODEL = pipelines.shape()
LATE = ("pipedream", "2bw")  # not equal to one process: test_weight_versions.py


def order(name, stages, micro_batches=4):
    return orders.make(name, stages=stages, micro_batches=micro_batches)


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_weights_after_every_step_are_those_of_one_process(ranks):
    cases = [
        (MODEL, order(name, ranks, m), optimizer, {})
        for name in ("gpipe", "1f1b")
        for optimizer, m in (("SGD", 4), ("Adam", 4), ("SGD", 1))
    ]
    pipelines.check(ranks, cases)


DEEP = pipelines.shape(layers=8)  # for two chunks on each of four stages
RECOMPUTED = {"build": {"recompute": "full"}}


def test_chunks_split_backwards_and_both_directions_on_two_stages():
    cases = [(DEEP, order(name, 2), "SGD", {}) for name in orders.ORDERS if name not in LATE]
    cases += [(MODEL, order(name, 2), "Adam", RECOMPUTED) for name in ("1f1b", "zb-h1")]
    cases += [(MODEL, order("zb-v", 2), "Adam", {"parts": 2, "posted": 3})]
    cases += [(pipelines.shape(tied=False), order("interleaved", 2), "SGD", {})]
    cases += [(MODEL, order("1f1b", 2), "SGD", {"ranks": [[1, 0]]})]
    pipelines.check(2, cases)


@pytest.mark.parametrize(("ranks", "names"), [(3, ["interleaved", "zb-h2", "zb-v"])])
def test_so_on_three_stages(ranks, names):
    pipelines.check(ranks, [(DEEP, order(name, 3, 6), "SGD", {}) for name in names])


def test_so_on_four_stages_and_on_two_replicas_of_two():
    cases = [(DEEP, order(name, 4, 8), "SGD", {}) for name in ("interleaved", "zb-v", "dualpipe")]
    for rows in ([[0, 1], [2, 3]], [[3, 0], [1, 2]]):
        cases += [(MODEL, order(name, 2), "SGD", {"ranks": rows}) for name in ("1f1b", "dualpipe")]
    cases += [(MODEL, order("zb-h1", 2, 2), "Adam", {"ranks": [[0, 2], [1, 3]], "parts": 2})]
    pipelines.check(4, cases)


def test_one_layer_a_stage_and_no_rank_where_its_number_says():
    stages = 5
    placed = [[*range(2, stages), 1, 0]]
    case = (pipelines.shape(layers=stages), order("1f1b", stages, 6), "SGD", {"ranks": placed})
    pipelines.check(stages, [case])


def test_eight_stages_one_layer_each():
    pipelines.check(8, [(DEEP, order("1f1b", 8, 10), "SGD", {})])


def broken(schedule):
    """Without each part of the mechanism in turn: weights after a step."""
    whole = {name: getattr(owner, name) for owner, name in PARTS}
    found = {}
    for owner, name in PARTS:
        setattr(owner, name, INSTEAD[name](whole[name]))
        found[name] = pipelines.by_ranks(MODEL, schedule, "SGD", steps=1)
        setattr(owner, name, whole[name])
    return found


def unweighted(_):
    """Every micro-batch counts the same, however many tokens it has."""

    def loss(self, i, scores):
        targets = self.targets[i].flatten()
        found = functional.cross_entropy(scores.flatten(0, 1), targets) / len(self.targets)
        self.losses[i] = found.item()
        return found

    return loss


def late(take):
    """Stages see the message of nobody: a stale buffer."""

    def instead(self, action):
        given, time = take(self, action)
        return (given * 0.5 if given is not None else None), time

    return instead


PARTS = [(runtime.Pipeline, "_loss"), (Copies, "add_up"), (Mail, "take")]
INSTEAD = {"_loss": unweighted, "add_up": lambda _: lambda self: None, "take": late}


def test_without_a_part_of_the_mechanism_the_weights_are_apart():
    wanted = pipelines.by_one(MODEL, "SGD", steps=1)
    found = launch.run(broken, 2, order("1f1b", 2), timeout=PATIENCE)
    for _, name in PARTS:
        assert pipelines.apart([rank[name] for rank in found], wanted) > 1e-6, name


def refusals():
    """What is said of wrong inputs, on two ranks."""
    said, good = [], order("gpipe", 2)
    wrong = [[Action("F", 0, s), Action("X", 0, s)] for s in range(2)]
    for schedule, options in (
        (Schedule("wrong", 1, [(0, 1)], wrong), {}),
        (good, {"ranks": [[0, 1], [0, 1]]}),
        (order("gpipe", 4), {}),
    ):
        with pytest.raises(InputError) as refused:
            pipelines.make(MODEL, schedule, "SGD", **options)
        said.append(str(refused.value))
    pipe = pipelines.make(MODEL, good, "SGD")
    tokens, targets = pipelines.batch(0)
    for one, other in (
        (tokens[:3], targets[:3]),
        (tokens, targets[:, :-1]),
        ([tokens] * 3, [targets] * 3),
    ):
        with pytest.raises(InputError) as refused:
            pipe.run(one, other)
        said.append(str(refused.value))
    with pytest.raises(InputError) as refused:
        runtime.Pipeline({}, good, oracle.OPTIMIZERS["SGD"], width=16)
    return [*said, str(refused.value)]


def test_what_cannot_run_is_refused_by_name():
    for said in launch.run(refusals, 2, timeout=PATIENCE):
        unknown, twice, stages, few, shapes, number, chunks = said
        assert "X" in unknown and "expected F, B, I, W" in unknown
        assert twice.startswith("ranks = [[0, 1], [0, 1]]")
        assert stages.startswith("ranks = [[0, 1]]: expected rows of 4 stages")
        assert "tokens of 3 sequences" in few and "micro_batches = 4" in few
        assert "targets of micro-batch 0" in shapes
        assert "tokens = 3 micro-batches" in number
        assert chunks.startswith("chunks = []")
