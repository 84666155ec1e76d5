"""What the tests of the command line start with."""

import pytest
from command_line import ended


@pytest.fixture
def run(capsys):
    """A command's exit code, and what it printed."""
    return lambda command: ended(command, capsys)
