"""What a gather and a scatter send from node to node, counted on the cable between two emulated
hosts.
"""

import contextlib
import json
import subprocess

import pytest
from hosts import TWO_RANKS_EACH, torchrun, two_network_namespaces

from mathlib.traffic import hierarchical

PIECE = 2_000_000  # bytes of a rank's piece
# A full segment of TCP takes 1,448 bytes of 1,514 on the cable, and is acknowledged by 66 at most.
ON_TOP = (1514 + 66) / 1448
SCRIPT = """
import json, os, sys
from pathlib import Path
import torch, torch.distributed as dist
from mathlib import launch
from mathlib.parallel.zero import flat_shards, hierarchical_gather

def on_the_cable():
    lines = Path("/proc/net/dev").read_text().splitlines()[2:]
    rows = dict(line.split(":") for line in lines)
    return sum(int(row.split()[8]) for name, row in rows.items() if name.strip() != "lo")

def sent():
    ways = {
        "all_gather ring": flat_shards.all_gather,
        "all_gather between nodes first": hierarchical_gather.by_nodes(dist.group.WORLD, 2),
        "reduce_scatter all-to-all": flat_shards.Scattering,
        "reduce_scatter inside nodes first": hierarchical_gather.scatter_by_nodes(
            dist.group.WORLD, 2
        ),
    }
    piece = torch.full([int(sys.argv[2]) // 4], float(dist.get_rank()))
    row = torch.empty(4 * len(piece))
    found = {}
    for name in [*ways, *ways]:  # the first time, connections are made
        whole = torch.arange(4.0).repeat_interleave(len(piece))
        row.copy_(whole if name.startswith("reduce") else torch.zeros(()))
        dist.barrier()
        before = on_the_cable()
        dist.barrier()
        if name.startswith("reduce"):
            assert torch.equal(ways[name](row, None).wait(row.dtype), 4 * piece)
        else:
            ways[name](row, piece, None).wait()
            assert torch.equal(row, whole)
        dist.barrier()
        found[name] = on_the_cable() - before
    return found

if __name__ == "__main__":
    rows = launch.run(sent, 4)
    if os.environ["RANK"] in ("0", "2"):
        Path(sys.argv[1] + os.environ["GROUP_RANK"]).write_text(json.dumps(rows))
"""


def test_the_cable_between_two_hosts_counts_what_the_formula_says(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    script = [str(tmp_path / "script.py"), str(tmp_path / "node"), str(PIECE)]
    with contextlib.ExitStack() as stack:
        try:
            hosts = stack.enter_context(two_network_namespaces())
        except (OSError, subprocess.CalledProcessError):
            pytest.skip("network namespaces need root and iproute2")
        torchrun(hosts, [*TWO_RANKS_EACH, *script])
    for node in range(2):
        ranks = json.loads((tmp_path / f"node{node}").read_text())
        for name, counted in ranks[2 * node].items():
            collective, _, order = name.partition(" ")
            formula = getattr(hierarchical, collective)(
                payload=4 * PIECE, ranks=4, ranks_per_node=2, order=order
            )
            assert 1 <= counted / formula["to other nodes"] <= ON_TOP, (node, name)
