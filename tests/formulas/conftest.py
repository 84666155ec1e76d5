"""Thousands of cases on a busy machine: no case is a failure because it was slow, and the cases are the same every time."""

from hypothesis import settings

settings.register_profile("formulas", deadline=None, derandomize=True)
settings.load_profile("formulas")
