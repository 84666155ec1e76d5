"""Plain expert parallelism by the oracle of one process with all experts, and by its bytes."""

import expert_cases as cases
import pytest
import torch.distributed as dist

from mathlib import launch
from mathlib.parallel.plain import experts


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_losses_and_weights_after_every_step_are_those_of_one_process(ranks):
    """With all experts on every rank, and over two, three or four of them."""
    assert not cases.wrong(ranks)


def test_with_a_part_left_out_they_are_apart():
    wanted = cases.by_one("six", 2, "SGD")

    def run():
        start, N = experts.ExpertParallel.__init__, dist.get_world_size()

        def mixed(self, *given):  # experts averaged over all ranks, as if everybody had the same
            start(self, *given)
            self.own = set()

        def replicas(self, *given):  # divided by the number of ranks that have them
            start(self, *given)
            for p in self.own:
                p.register_hook(lambda g: g * N)

        def alone(ctx, gradient):  # what an expert says of a row does not go back
            return experts.all_to_all(gradient * 0, *ctx.back), None, None, None

        def own_visits(shares, visits):
            return len(visits) * (visits / visits.sum()).to(shares) @ shares.mean(0)

        faults = [(experts.ExpertParallel, "__init__", f) for f in (mixed, replicas)]
        faults += [
            (experts.AllToAll, "backward", staticmethod(alone)),
            (experts, "balance", own_visits),
        ]
        return cases.broken("six", 2, wanted, faults)

    far = [max(found) for found in zip(*launch.run(run, 2), strict=True)]
    assert min(far) > 1e-6 and len(far) == 4, far


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_bytes_are_those_of_the_formula_and_of_the_system(ranks):
    """Loads balanced, as the formula has it, and the visits that one process counts."""
    ways = [(n, P, even) for N, P, n in cases.DEGREES if ranks == N for even in (True, False)]
    by_rank = launch.run(lambda: [cases.sent(*way) for way in ways], ranks)
    for (name, P, even), found in zip(ways, zip(*by_rank, strict=True), strict=True):
        program, system = (sum(count) for count in zip(*found, strict=True))
        wanted = cases.predicted(name, ranks, P, even)
        assert program == pytest.approx(wanted, rel=1e-12), (name, P, even)
        assert system == pytest.approx(program, rel=1e-12), (name, P, even)
