"""Every experiment of the book: importing this module declares them."""

from mathlib.show import (
    explore_autograd,
    explore_collectives,
    explore_compute,
    explore_memory,
    explore_overlap,
)

__all__ = [
    "explore_autograd",
    "explore_collectives",
    "explore_compute",
    "explore_memory",
    "explore_overlap",
]
