"""Is a layout right? One training step on whole numbers modulo a prime, over simulated ranks.

    from mathlib.layout import Layout
    from mathlib.prover.case import case
    from mathlib.prover.program import Program
    from mathlib.prover.prove import prove

    one = case(Layout(tensor=2, data=2, zero=1))
    prove(one).equal                                 # True

A program of your own overrides what a rank decides, as the faults do:

    class Mine(Program):
        def summed_over(self, p):
            return []                                # no gradient is summed over tensor ranks

    str(prove(one, Mine).first)                      # gradient of layers.1.key_norm (rank 0, ...)
"""
