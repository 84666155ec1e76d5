"""Two roles: trainers are one process, writers have the newest weights, bytes are told."""

import pytest

from mathlib.model import oracle
from mathlib.trials import after_roles as roles


@pytest.mark.parametrize(("trainers", "writers"), [(3, 0), (2, 1)])
def test_both_placements_train_what_one_process_does(trainers, writers):
    found = roles.run(trainers, writers, "SGD")
    assert found.trainers < oracle.EQUAL and found.writers == 0
    assert found.program == found.system == roles.told(trainers, writers)


def test_a_writer_with_old_weights_is_seen():
    stale = roles.run(2, 1, "SGD", stale=True)
    assert min(stale.trainers, stale.writers) > 1e-4
    moved = roles.one_process(2, "SGD")
    assert oracle.distance([moved[1]], moved[0]) > 1e-4
