"""Ranks get the test's functions by value: they need them, and not pytest and the rest of the
test's module.
"""

import cloudpickle
import pytest


@pytest.fixture(autouse=True, scope="module")
def functions_by_value(request):
    cloudpickle.register_pickle_by_value(request.module)
    yield
    cloudpickle.unregister_pickle_by_value(request.module)
