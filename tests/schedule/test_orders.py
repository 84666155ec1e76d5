"""Every order by its name, and every one can be executed."""

import pytest

from mathlib.checks import InputError
from mathlib.schedule import check, orders


@pytest.mark.parametrize("name", orders.ORDERS)
def test_every_order_can_be_executed(name) -> None:
    schedule = orders.make(name, stages=2, micro_batches=4)
    assert schedule.name == name
    check.validate(schedule)


def test_a_name_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match="order = '1f1': did you mean 1f1b"):
        orders.make("1f1", stages=2, micro_batches=2)
