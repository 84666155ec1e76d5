"""Thousands of cases on a busy machine: a slow case is no failure, and every run tries the same
ones.
"""

from hypothesis import settings

settings.register_profile("formulas", deadline=None, derandomize=True)
settings.load_profile("formulas")
