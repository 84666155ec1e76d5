"""Write the algorithm yourself: ranks, tensors and puzzles that a program is graded by.

    from mathlib.workshop.grade import graded

    print(graded("ring", text))                      # right, or what is wrong, in words

A program is a coroutine that every rank runs:

    async def program(me, gradient):
        await me.send((me.rank + 1) % me.size, gradient)
        return gradient + await me.receive((me.rank - 1) % me.size)
"""
