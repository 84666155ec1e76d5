"""What waits outside the devices: in the memory of a node's host, or on its NVMe drives."""

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import TYPE_CHECKING

from mathlib.checks import InputError
from mathlib.cli.amounts import rate, room
from mathlib.cli.text import Fact
from mathlib.cli.typed import Typed
from mathlib.records import replace
from mathlib.specs import Cluster, Layout
from mathlib.units import show as shown

if TYPE_CHECKING:  # loaded when a command needs it
    from argparse import _ArgumentGroup

    from mathlib.plan.machine import Host
    from mathlib.plan.room import Room
    from mathlib.plan.work import Away

HOST, NVME = "host", "NVMe drives"
OPTION = {HOST: "--host-memory 512GB", NVME: "--nvme 2TB"}
KINDS = ("states", "parameters")  # that may wait on drives


def add_host(parser: ArgumentParser) -> "_ArgumentGroup":
    """The processors' memory in a node, where states and activations can wait."""
    group = parser.add_argument_group("host", "of a node; what `mathlib clusters` has if not given")
    group.add_argument("--host-memory", type=room, metavar="SIZE", help="of the processors")
    group.add_argument(
        "--host-link",
        type=rate,
        metavar="RATE",
        help="of one device to that memory, one direction, such as 63GB/s, by data sheet",
    )
    group.add_argument(
        "--host-bandwidth", type=rate, metavar="RATE", help="of that memory, by data sheet"
    )
    return group


def add_places(parser: ArgumentParser) -> None:
    """What waits, and how much either place holds."""
    group = parser.add_argument_group("host", "of a node; what `mathlib clusters` has if not given")
    group.add_argument(
        "--offload",
        default="none",
        metavar="WHAT",
        help="that waits in the host's memory: none, states, activations or both; parameters, that "
        "is weights, gradients and states; or all; none if not given",
    )
    group.add_argument("--host-memory", type=room, metavar="SIZE", help="of the processors")
    group.add_argument(
        "--nvme", type=room, metavar="SIZE", help="of drives, where all but activations waits then"
    )
    parser.set_defaults(on_nvme=None)  # of a DeepSpeed file alone


def host_of(args: Typed, cluster: Cluster) -> "Host":
    """A device's share of the host that was typed, or else of the cluster's own."""
    from mathlib.plan import machine

    names = ("host_memory", "host_link", "host_bandwidth")
    typed = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    told = replace(cluster, **typed)
    if missing := [f"--{name.replace('_', '-')}" for name in names if not getattr(told, name)]:
        flag = args.read.get("offload", "--offload")
        raise InputError(f"{flag}: of {cluster.title}'s host nobody told {', '.join(missing)}")
    return machine.host_of(told)


def waits(room: "Room", lay: Layout, away: "Away", on_nvme: tuple[str, ...]) -> dict[str, float]:
    """Bytes of a device that wait in each place."""
    of = [away._replace(kept=False, weights=False), away._replace(kept=False), away]
    states, both, every = (room.on_host(lay, (lay.zero, lay.shard), one) for one in of)
    found = {HOST: every - both, NVME: 0.0}
    for kind, size in zip(KINDS, (states, both - states), strict=True):
        found[NVME if kind in on_nvme else HOST] += size
    return {place: size for place, size in found.items() if size}


def judged(
    verdict: str, needs: Mapping[str, float], there: Mapping[str, float], node: int
) -> tuple[str, list[Fact]]:
    """A device's verdict with those on its node, of which so many devices are used: first what
    does not fit, or is not known to.
    """
    bad, good, facts = list[str](), list[str](), list[Fact]()
    for place, size in needs.items():
        facts.append((f"waits on the {place}", size, "byte"))
        has, each = there.get(place, 0.0), shown(size * node, "byte")
        if not has:
            bad.append(f"no verdict: {each} wait on the {place} of a node (say {OPTION[place]})")
            continue
        facts.append((f"a device's room on the {place}", has / node, "byte"))
        fits = "fits" if size * node <= has else "does not fit"
        told = f"{fits} the {place}: {each} of {shown(has, 'byte')}"
        told += f", for {node} devices" if node > 1 else ""
        (good if size * node <= has else bad).append(told)
    return "\n".join([*bad, verdict, *good]), facts
