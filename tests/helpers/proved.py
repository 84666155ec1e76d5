"""What the prover says of faults."""

from mathlib.prover import faults


def named_otherwise(axis):
    """Faults of an axis that the prover does not see first where they say so: wanted, found."""
    found = {
        name: (one.first, faults.first_of(one.proved()))
        for name, one in faults.every().items()
        if one.axis == axis
    }
    assert len(found) > 5
    return {name: both for name, both in found.items() if both[0] != both[1]}
