"""Two emulated hosts, network namespaces joined by a cable where root may make them, else two
agents of torchrun on the loopback; and a script started on both.
"""

import contextlib
import os
import socket
import subprocess
import sys

from patience import PATIENCE
from processes import ENVIRONMENT

TWO_RANKS_EACH = ["--nnodes", "2", "--nproc-per-node", "2", "--node-rank", "{rank}"]
TWO_RANKS_EACH += ["--master-addr", "{address}", "--master-port", "{port}"]


def call(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)


@contextlib.contextmanager
def two_network_namespaces():
    """Two hosts with nothing in common but a cable: yields (command prefix, environment) of each,
    address, port.
    """
    names = [f"host{side}-{os.getpid()}" for side in "ab"]
    ends = [f"v{side}{os.getpid()}" for side in "ab"]  # an interface's name has at most 15 letters
    try:
        for name in names:
            call("ip", "netns", "add", name)
        cable = f"link add {ends[0]} netns {names[0]} type veth peer {ends[1]} netns {names[1]}"
        call("ip", *cable.split())
        for number, (name, end) in enumerate(zip(names, ends, strict=True), 1):
            call("ip", "-n", name, "addr", "add", f"10.77.0.{number}/24", "dev", end)
            for device in (end, "lo"):
                call("ip", "-n", name, "link", "set", device, "up")
        enter = [["ip", "netns", "exec", name] for name in names]
        yield [(enter[n], {"GLOO_SOCKET_IFNAME": ends[n]}) for n in range(2)], "10.77.0.1", "29400"
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


@contextlib.contextmanager
def two_agents_on_loopback():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    yield [([], {"GLOO_SOCKET_IFNAME": "lo"})] * 2, "127.0.0.1", str(port)


def torchrun(hosts, words: list[str]) -> list[str]:
    """Start an agent on each host and return what both printed. `words` may name {rank}, {address}
    and {port}.
    """
    prefixes, address, port = hosts
    agents = []
    for number, (prefix, extra) in enumerate(prefixes):
        given = [word.format(rank=number, address=address, port=port) for word in words]
        command = [*prefix, sys.executable, "-m", "torch.distributed.run", *given]
        environment = ENVIRONMENT | extra | {"OMP_NUM_THREADS": "1"}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        agents.append(subprocess.Popen(command, env=environment, **pipes))
    try:
        outputs = [agent.communicate(timeout=PATIENCE)[0] for agent in agents]
    finally:
        for agent in agents:
            agent.terminate()  # an agent that is asked to leave takes its ranks along
            agent.wait(PATIENCE)
    assert [agent.returncode for agent in agents] == [0, 0], "\n".join(outputs)
    return outputs
