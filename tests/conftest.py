"""What holds for all tests: hypothesis tries the same cases every time; ranks get a test's
functions by value, since they need them and not pytest and the rest of the test's module; and a run
whose time is not the test's matter may take a busy machine's. A process computes with one thread:
two workers with two each on two cores wait for each other most of the time.
"""

import os
import sys

import cloudpickle
import pytest
from hypothesis import settings
from patience import PATIENCE

from mathlib.launch import launcher

os.environ.setdefault("OMP_NUM_THREADS", "1")  # torch reads it when it is loaded
# As if not installed: grammars of addresses, which jsonschema prepares for a format that no
# notebook has, in 1.3 seconds.
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]

# Thousands of cases on a busy machine: a slow case is no failure.
settings.register_profile("book", deadline=None, derandomize=True)
settings.load_profile("book")
launcher.run.__kwdefaults__["timeout"] = PATIENCE


@pytest.fixture(autouse=True, scope="module")
def functions_by_value(request):
    cloudpickle.register_pickle_by_value(request.module)
    yield
    cloudpickle.unregister_pickle_by_value(request.module)
