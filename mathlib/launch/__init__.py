"""Run one function on N ranks and get their results back: `from mathlib import launch`."""

from mathlib.launch.failure import RankError, RankTimeout
from mathlib.launch.launcher import run

__all__ = ["RankError", "RankTimeout", "run"]
