"""Parameters, FLOP, and what they cost."""
