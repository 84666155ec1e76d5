"""Sturdy expert parallelism by the oracle of one process with all experts, and by its bytes."""

import contextlib
from unittest import mock

import expert_cases as cases
import pytest
import torch
import torch.distributed as dist
from torch.distributed.nn import functional as of_torch

from mathlib import launch
from mathlib.checks import InputError
from mathlib.meters import wire
from mathlib.model import gpt, modern, oracle
from mathlib.parallel.experts import dispatch, expert_layer, expert_parallel, router
from mathlib.schedule import expert_load


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_losses_weights_and_biases_after_every_step_are_those_of_one_process(ranks):
    """Parts of a batch that are unequal, in which not all tokens count; experts whole or in parts,
    with room for all or not, their states sharded, gradients clipped.
    """
    assert not cases.sturdy_wrong(ranks)


def faults(way=expert_parallel.ExpertParallel):
    """What is switched off, and in which case of the oracle it must be seen."""
    choose, groups = router.choose, expert_parallel.groups

    def group_of_all(*degrees):
        real = groups(*degrees)
        return expert_layer.Groups(real.expert, real.tensor, real.sharing, None)

    def unmoved(self):
        return None

    def weighed(logits, bias, active, how):
        return choose(logits + bias, bias * 0, active, how)

    def last_first(self, capacity):
        late = self.number >= (self.many - capacity)[self.expert]
        one = (x[late] for x in (self.token, self.place, self.expert))
        return dispatch.Visits(*one, self.many.clamp(max=capacity))

    def own_only(x, group):
        return x.chunk(dist.get_world_size(group), 1)[dist.get_rank(group)].contiguous()

    return {
        "experts' group": ("dropless", expert_parallel, "groups", group_of_all),
        "the bias": ("biased", way, "move_bias", unmoved),
        "a bias that weighs": ("biased", expert_layer, "choose", weighed),
        "first come": ("dropping", dispatch.Visits, "within", last_first),
        "the sum of parts": ("parts", expert_layer, "scatter_forward", own_only),
        "the scale": ("sharded", torch.Tensor, "register_hook", lambda p, f: None),
        "the norm of others": ("clipped", way, "clip", lambda self, most: None),
        "the average": ("dropless", way, "average", unmoved),
    }


def test_with_a_part_left_out_they_are_apart():
    given = {name: (cases.STURDY[case[0]], "SGD") for name, case in faults().items()}
    wanted = {name: cases.whole_of(case) for name, case in given.items()}

    def run():
        found = {}
        for name, (_, where, attribute, new) in faults().items():
            with mock.patch.object(where, attribute, new):
                found[name] = cases.sturdy_apart(given[name], wanted[name][:2])
        return found

    far = {
        name: max(one[name] for one in found) for found in [launch.run(run, 4)] for name in given
    }
    assert len(far) == 8 and min(far.values()) > 1e-7, far


def test_the_all_to_all_of_torch_gives_the_same():
    """The witness: torch.distributed.nn's, which autograd knows as well."""

    def by_torch(x, give, take, group=None):
        y = x.new_empty(sum(take), *x.shape[1:])
        return of_torch.all_to_all_single(y, x, list(take), list(give), group=group)

    names = ("dropless", "dropping")
    given = [
        ((cases.STURDY[name], "SGD"), cases.whole_of((cases.STURDY[name], "SGD"))) for name in names
    ]

    def run():
        with mock.patch.object(dispatch, "all_to_all_both", by_torch):
            return [cases.sturdy_apart(*one) for one in given]

    assert max(map(max, launch.run(run, 4))) < oracle.EQUAL


def test_bytes_are_those_of_the_formula_and_of_the_system():
    """Exact and in boxes, experts whole and in parts."""
    by_rank = launch.run(lambda: [cases.sturdy_sent(*way) for way in cases.WIRED.values()], 4)
    for (name, way), found in zip(cases.WIRED.items(), zip(*by_rank, strict=True), strict=True):
        program, system = (sum(count) / 4 for count in zip(*found, strict=True))
        assert program == pytest.approx(cases.sturdy_predicted(*way), rel=1e-12), name
        short = 4 * (program - system)  # of few numbers gloo makes fewer messages
        assert short % (wire.ANNOUNCED + wire.READY) == 0 and abs(short) < 100 * 144, name


def clocks(e):
    """By a clock that every row of an expert moves on, and that waits at each all-to-all: when the
    forward is over, and the visits of each layer.
    """
    clock, exchanged = torch.zeros(1), dispatch.exchanged

    @contextlib.contextmanager
    def watch(rows):
        clock.add_(rows)
        yield

    def meeting(x, give, take, group):
        dist.all_reduce(clock, dist.ReduceOp.MAX, group=group)
        return exchanged(x, give, take, group)

    way, _ = cases.train((("eight", 4, e, 1, cases.SOFTMAX, 0.0, ""), "SGD"), watch)
    with mock.patch.object(dispatch, "exchanged", meeting):
        way.loss(*oracle.my_part(cases.tokens(0, 4)))
    return clock.item(), way.visits.tolist()


def test_a_layer_waits_for_the_rank_with_the_most_visits():
    (time, visits), *others = launch.run(clocks, 4, 4)
    loads = [expert_load.by_rank(visits=layer, expert=4) for layer in visits]
    assert time == sum(map(max, loads)) and {clock for clock, _ in others} == {time}
    assert sum(map(sum, loads)) == 2 * 3 * 4 * cases.MINE * cases.TOKENS
    assert expert_load.waiting(layers=loads) == pytest.approx(1 - sum(map(sum, loads)) / 4 / time)
    assert max(expert_load.imbalance(loads=one) for one in loads) > 1.05


def test_what_it_does_not_share_is_refused():
    def told():
        found, way = [], expert_parallel.ExpertParallel
        small = modern.Modern(cases.MODELS["parts"])

        def refusal(build):
            with pytest.raises(InputError) as error:
                build()
            found.append(str(error.value))

        refusal(lambda: way(gpt.GPT(gpt.small()), expert=1))
        refusal(lambda: way(modern.Modern(cases.MODELS["parts"].but(experts=None)), expert=1))
        refusal(lambda: way(small, expert=3))
        refusal(lambda: way(small, expert=1, expert_tensor=5))
        refusal(lambda: way(small, expert=2, expert_tensor=2))
        refusal(lambda: way(small, expert=2, capacity=-1))
        refusal(lambda: way(small, expert=2, routing="softmax"))
        refusal(lambda: router.Routing("softmin"))
        refusal(lambda: router.Routing(bias_rate=-1))
        trained = way(small, expert=1, expert_tensor=2)
        refusal(lambda: trained.sharded(oracle.OPTIMIZERS["SGD"], clip=1.0))
        given = torch.zeros(1 + dist.get_rank(), 3, dtype=torch.long)
        refusal(lambda: trained.loss(given, given))
        return found

    found, _ = launch.run(told, 2)
    wanted = [
        "model of type GPT: expected a Modern with experts",
        "model = 'llama3-8b': expected one with experts",
        "expert = 3: does not divide experts.routed = 8",
        "expert_tensor = 5: does not divide experts.width = 12",
        "expert * expert_tensor = 4: does not divide ranks = 2",
        "capacity = -1: expected a number, 0 or greater",
        "routing = 'softmax': expected",
        "score = 'softmin': did you mean softmax",
        "bias_rate = -1: expected a number, 0 or greater",
        "clip = 1.0: expected none, as two norms",
        "tokens: 3 on some and 6 on others of the ranks that have parts of the same experts",
    ]
    for refusal, beginning in zip(found, wanted, strict=True):
        assert refusal.startswith(beginning), refusal
