"""Formulas are typeset by a server that may be slow to come up."""

import sys

import pytest
import typeset
from sphinxcontrib.katex import KaTeXServer

SLOW = """
import socket, sys, time
here = socket.socket(socket.AF_UNIX)
here.bind(sys.argv[1])  # its file is there
time.sleep(0.3)
here.listen()
here.accept()[0].sendall(b"ready")
sys.stdin.read()
"""


@pytest.fixture
def server(monkeypatch):
    def answers(code):
        monkeypatch.setattr(
            KaTeXServer, "build_command", lambda socket: [sys.executable, "-c", code, str(socket)]
        )

    return answers


def test_a_server_that_does_not_listen_yet_is_waited_for(server, tmp_path):
    server(SLOW)
    process, connection = typeset.start_server(tmp_path, 60)
    assert connection.recv(5) == b"ready"
    connection.close()
    process.communicate()
    assert process.returncode == 0


def test_a_server_that_dies_ends_the_build_and_nothing_is_left(server, tmp_path):
    server("")
    with pytest.raises(KaTeXServer.timeout_error(1).__class__):
        typeset.start_server(tmp_path, 60)
