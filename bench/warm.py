"""A process that has imported torch and pytest, and forks a fresh one from itself for each set of
tests that it is asked to run.

In comes a line of JSON: "tests", and "server": whether they may use the fork server of launch that
waits here. Out comes the number of the process that runs them, and when it has ended its exit code.
"""

import contextlib
import ctypes
import importlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

IMPORTED = ("pytest", "hypothesis", "cloudpickle", "torch", "torch._dynamo", "torch.distributed")
PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h


def fork_server() -> Any:
    """launch with a server that has started; the modules are forgotten, as a mutant may be in
    them.
    """
    forked = importlib.import_module("mathlib.launch.start").Forked
    forked._connect()
    for name in [name for name in sys.modules if name.partition(".")[0] == "mathlib"]:
        del sys.modules[name]
    return forked


def become_tests(tests: list[str], server: Any) -> NoReturn:
    """What the fork does: run the tests as `python -m pytest` would."""
    code = 3
    try:
        os.setsid()
        for number in range(3):
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
        if server:
            forked = importlib.import_module("mathlib.launch.start").Forked
            forked._control, forked._owner = server._control, os.getpid()
        pytest = importlib.import_module("pytest")
        code = pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests])
    finally:
        os._exit(code)


def clear_away(kept: int) -> None:
    """Kill whatever outlives its tests: it is a child of this process by now."""
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    while left := {int(word) for word in children.read_text().split()} - {kept}:
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def main() -> None:
    sys.path[0] = str(Path.cwd())
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = (
        "1"  # three seconds a start, and no test needs one
    )
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)  # orphans come here
    for name in IMPORTED:
        importlib.import_module(name)
    for name in importlib.import_module("_pytest.config").default_plugins:
        importlib.import_module(f"_pytest.{name}")
    server = None
    for line in sys.stdin:
        wanted = json.loads(line)
        if wanted["server"] and not server:
            server = fork_server()
        pid = os.fork()
        if not pid:
            become_tests(wanted["tests"], server if wanted["server"] else None)
        print(pid, flush=True)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        clear_away(server._server.pid if server else 0)
        print(code, flush=True)


if __name__ == "__main__":
    main()
