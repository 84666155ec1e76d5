"""Our all-reduces, each with the name of its formula."""

from mathlib.parallel import collectives as own

ALL_REDUCE = {
    "ring": (own.ring_all_reduce, "ring"),
    "tree": (own.tree_all_reduce, "tree"),
    "halving-doubling": (own.halving_doubling_all_reduce, "halving-doubling"),
}
