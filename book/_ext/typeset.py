"""Formulas are typeset while the book is built: pages hold the result and need neither script nor
third party.
"""

import shutil
import socket
import subprocess
import time
from pathlib import Path

from ahead import node
from sphinx.application import Sphinx
from sphinxcontrib import katex


def start_server(rundir: Path, timeout: float) -> tuple[subprocess.Popen, socket.socket]:
    """Start node and connect to it.

    The package's own function connects as soon as it sees the socket's file. On a busy machine that
    is sometimes before node listens: then it gives up, and leaves node running.
    """
    server, path = katex.KaTeXServer, rundir / "katex.sock"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = subprocess.Popen(server.build_command(socket=path), cwd=rundir, **pipes)
    until = time.monotonic() + timeout
    while time.monotonic() < until and process.poll() is None:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(str(path))
            return process, connection
        except (FileNotFoundError, ConnectionRefusedError):
            connection.close()
            time.sleep(0.01)
    process.kill()
    process.wait()
    raise server.timeout_error(timeout)


def copy_fonts(app: Sphinx) -> None:
    """KaTeX's style sheet and fonts, in the version that typeset the formulas."""
    if app.builder.format != "html":
        return
    source, target = (
        Path(app.confdir) / "book/live/node_modules/katex/dist",
        Path(app.outdir) / "_static/katex",
    )
    target.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source / "katex.min.css", target)
    shutil.copytree(
        source / "fonts",
        target / "fonts",
        dirs_exist_ok=True,
        ignore=shutil.ignore_patterns("*.ttf", "*.woff"),
    )


def setup(app: Sphinx) -> dict:
    katex.NODEJS_BINARY = node()
    katex.KaTeXServer.start_server_process = start_server
    katex.STARTUP_TIMEOUT = 60
    katex.KATEX_DEFAULT_OPTIONS = {
        "throwOnError": True,
        "strict": "ignore",
    }  # a formula in error stops the build
    app.connect("builder-inited", copy_fonts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
