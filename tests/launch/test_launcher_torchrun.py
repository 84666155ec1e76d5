"""The same script under torchrun on two hosts: the ranks are there already, and `run` joins
them.
"""

import contextlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hosts import TWO_RANKS_EACH, torchrun, two_agents_on_loopback, two_network_namespaces
from processes import ENVIRONMENT

from mathlib import launch
from mathlib.checks import InputError

ROOT = Path(__file__).parents[2]
SCRIPT = """
import json, os, sys, time
import torch, torch.distributed as dist
from mathlib import launch

def census(scale):
    x = torch.tensor([float(dist.get_rank())])
    dist.all_reduce(x)
    return dist.get_rank(), os.environ["GROUP_RANK"], os.environ["LOCAL_RANK"], x.item() * scale

if __name__ == "__main__":
    first = launch.run(census, 4, 10)
    # who comes early must not meet what others left of the first run
    time.sleep(0.3 * int(os.environ["RANK"]))
    rows = first, launch.run(census, None, scale=100)
    open(sys.argv[1] + os.environ["RANK"], "w").write(json.dumps(rows))
"""


@pytest.fixture
def hosts():
    with contextlib.ExitStack() as stack:
        try:
            found = stack.enter_context(two_network_namespaces())
        except (OSError, subprocess.CalledProcessError):  # not root, or no such tool
            found = stack.enter_context(two_agents_on_loopback())
        yield found


def test_two_hosts_return_the_same_list_to_every_rank(hosts, tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    torchrun(hosts, [*TWO_RANKS_EACH, str(tmp_path / "script.py"), str(tmp_path / "rank")])
    said = [json.loads((tmp_path / f"rank{rank}").read_text()) for rank in range(4)]
    rows = [[rank, str(rank // 2), str(rank % 2)] for rank in range(4)]
    assert said == [[[row + [60.0] for row in rows], [row + [600.0] for row in rows]]] * 4


def test_torchrun_decides_how_many_ranks_there_are(monkeypatch):
    for name, value in {"MASTER_ADDR": "127.0.0.1", "RANK": "0", "WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match="world_size = 3: torchrun started 2 processes"):
        launch.run(print, 3)


def test_the_page_that_tells_how_to_run_it_on_many_machines_is_right(hosts, tmp_path):
    """Its script, started by its command with this test's address, and one rank on each host."""
    page = (ROOT / "book" / "how-to-run.md").read_text("utf-8")
    (tmp_path / "mean.py").write_text(re.search(r"```python\n(# mean\.py\n.+?)```", page, re.S)[1])
    page = page.replace("\\\n", " ")  # one command on two lines
    words = re.search(r"^\.venv/bin/torchrun (.+ mean\.py)$", page, re.M)[1].split()
    for option, value in (
        ("--node-rank", "{rank}"),
        ("--master-addr", "{address}"),
        ("--master-port", "{port}"),
        ("--nproc-per-node", "1"),
    ):
        words[words.index(option) + 1] = value
    outputs = torchrun(hosts, [*words[:-1], str(tmp_path / "mean.py")])
    assert [output.count(str([0.5] * 2)) for output in outputs] == [1, 0], "\n".join(outputs)


NESTED = """
from mathlib import launch
launch.run(lambda: launch.run(print, None, "never"), 1)
"""


def test_a_run_inside_a_rank_of_torchrun_is_refused(tmp_path):
    (tmp_path / "script.py").write_text(NESTED)
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "1"]
    done = subprocess.run(
        [*words, str(tmp_path / "script.py")],
        env=ENVIRONMENT | {"GLOO_SOCKET_IFNAME": "lo"},
        capture_output=True,
        text=True,
    )
    assert "launch.run inside rank 0 of a run: this process is a rank already" in done.stderr
    assert "never" not in done.stdout
