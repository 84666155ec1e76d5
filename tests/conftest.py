"""What holds for all tests: hypothesis tries the same cases every time, and ranks get a test's
functions by value, since they need them and not pytest and the rest of the test's module.
"""

import cloudpickle
import pytest
from hypothesis import settings

# Thousands of cases on a busy machine: a slow case is no failure.
settings.register_profile("book", deadline=None, derandomize=True)
settings.load_profile("book")


@pytest.fixture(autouse=True, scope="module")
def functions_by_value(request):
    cloudpickle.register_pickle_by_value(request.module)
    yield
    cloudpickle.unregister_pickle_by_value(request.module)
