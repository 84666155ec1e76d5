"""Every order by its name, and every one can be executed."""

import pytest

from mathlib.checks import InputError
from mathlib.schedule import check, orders


@pytest.mark.parametrize("name", orders.ORDERS)
@pytest.mark.parametrize(("p", "m"), [(2, 4), (4, 8), (4, 24), (6, 12)])
def test_every_order_can_be_executed(name, p, m) -> None:
    schedule = orders.make(name, stages=p, micro_batches=m)
    assert schedule.name == name and (schedule.stages, schedule.micro_batches) == (p, m)
    check.validate(schedule)
    check.validate(schedule, posted=check.receives_to_post(schedule))


def test_options_reach_the_order() -> None:
    assert orders.make("breadth-first", stages=2, micro_batches=3, chunks=4).model_chunks == 8
    assert orders.make("2bw", stages=2, micro_batches=6, accumulate=3).accumulate == 3


def test_a_name_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match="order = '1f1': did you mean 1f1b"):
        orders.make("1f1", stages=2, micro_batches=2)
