"""What the prover's tests start with."""

import pytest

from mathlib.prover import case, layers, modular, program


@pytest.fixture
def twice(monkeypatch):
    """Numbers modulo p^2 instead of p: f(w + p e) = f(w) + p f'(w) e, a derivative without a limit.

    Returns p.
    """
    p = 2**61 - 1
    for module in (modular, case, layers, program):
        monkeypatch.setattr(module, "PRIME", p * p)
    return p
