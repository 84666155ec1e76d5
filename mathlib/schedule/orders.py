"""Every order by its name."""

from collections.abc import Callable

from mathlib.checks import one_of
from mathlib.schedule import flush
from mathlib.schedule.actions import Schedule

ORDERS: dict[str, Callable[..., Schedule]] = {
    "gpipe": flush.gpipe,
    "1f1b": flush.one_forward_one_backward,
}


def make(order: str, **options: int) -> Schedule:
    """The schedule of an order's name: make("1f1b", stages=4, micro_batches=8).

    Chapter: pipeline
    """
    return ORDERS[one_of("order", order, ORDERS)](**options)
