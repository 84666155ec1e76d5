"""Every order by its name."""

from collections.abc import Callable

from mathlib.checks import one_of
from mathlib.schedule import flush, interleaved, zero_bubble
from mathlib.schedule.actions import Schedule

ORDERS: dict[str, Callable[..., Schedule]] = {
    "gpipe": flush.gpipe,
    "1f1b": flush.one_forward_one_backward,
    "interleaved": interleaved.interleaved,
    "breadth-first": interleaved.breadth_first,
    "pipedream": flush.pipedream,
    "2bw": flush.two_versions,
    "zb-h1": zero_bubble.zb_h1,
    "zb-h2": zero_bubble.zb_h2,
    "zb-v": zero_bubble.zb_v,
    "dualpipe": zero_bubble.dualpipe,
}


def make(order: str, **options: int) -> Schedule:
    """The schedule of an order's name: make("1f1b", stages=4, micro_batches=8).

    Chapter: pipeline
    """
    return ORDERS[one_of("order", order, ORDERS)](**options)
