"""Write the algorithm yourself: ranks, tensors and puzzles that a program is graded by.

    from mathlib.workshop.grade import graded

    print(graded("ring", text))                      # right, or what is wrong, in words

A program is a coroutine that every rank runs:

    async def program(me, gradient):
        await me.send((me.rank + 1) % me.size, gradient)
        return gradient + await me.receive((me.rank - 1) % me.size)
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mathlib.workshop.notebook import Task


def workshop(name: str) -> "Task":
    """A puzzle in a notebook: the last line of a cell shows its task, `.grade(my_program)` grades.

    workshop("ring").grade(my_ring)
    """
    from mathlib.workshop.notebook import Task  # only a notebook needs its pictures

    return Task(name)
