"""mathlib time: seconds of a training step by part, on a cluster, with the interval they lie in."""

from argparse import ArgumentParser
from typing import TYPE_CHECKING, Any

from mathlib import specs
from mathlib.checks import InputError, one_of
from mathlib.cli import adapting, days
from mathlib.cli.days import add_run
from mathlib.cli.hosts import HOST, add_host, host_of, judged, waits
from mathlib.cli.memory import recipe_named
from mathlib.cli.options import (
    add_layout,
    add_model,
    add_reserve,
    add_tokens,
    layout_of,
    model_of,
    named,
    reserve_of,
)
from mathlib.cli.registry import command
from mathlib.cli.text import Fact, answer
from mathlib.cli.typed import Typed
from mathlib.records import fields, replace
from mathlib.specs import Cluster, Layout, Model
from mathlib.units import parse

if TYPE_CHECKING:  # loaded when a command needs it
    from mathlib.plan.calibration import Rates
    from mathlib.plan.machine import Machine


def time_options(parser: ArgumentParser) -> None:
    add_model(parser)
    add_tokens(parser)
    add_machine(parser)
    add_layout(parser)
    add_host(parser).add_argument(
        "--offload",
        default="none",
        metavar="WHAT",
        help="that waits in the host's memory: none, states, activations or both; none if not "
        "given",
    )
    adapting.add_adapters(parser)
    add_reserve(parser)
    parser.add_argument(
        "--recipe", metavar="NAME", help="copies of a parameter; the program's own if not given"
    )
    add_run(parser)


def add_machine(parser: ArgumentParser) -> None:
    """Where it runs, and by which program."""
    group = parser.add_argument_group("machine")
    group.add_argument(
        "--cluster",
        metavar="NAME",
        help="a name that `mathlib clusters` lists, or your own .toml with device, "
        "devices_per_node and node_bandwidth, such as 400Gbit/s",
    )
    group.add_argument(
        "--device",
        metavar="NAME",
        help="instead: the first cluster that is made of this device; where none is, 8 in a node "
        "with 50 GB/s of network each",
    )
    group.add_argument(
        "--program",
        default="megatron-core",
        metavar="NAME",
        help="whose habits count, megatron-core, fsdp, deepspeed, ...; megatron-core if not given",
    )
    group.add_argument(
        "--precision",
        default="half",
        metavar="KIND",
        help="of the matmuls: half, fp8 or fp4; half if not given",
    )


def cluster_of(args: Typed) -> Cluster:
    """The nodes that were named, or those of the device that was."""
    if args.cluster and args.device:
        raise InputError(f"--cluster {args.cluster}: has its devices; leave --device out")
    if args.cluster:
        if args.cluster.endswith(".toml"):
            return own_cluster(args.cluster)
        return specs.find_cluster(named("clusters", "cluster", args.cluster))
    if not args.device:
        raise InputError("--cluster: needed (--cluster p5.48xlarge, or --device h100-sxm)")
    return nodes_of(named("devices", "device", args.device))


def nodes_of(device: str) -> Cluster:
    """The first cluster that is made of a device, or one that is assumed."""
    rows = specs.table("clusters")
    found = next((name for name in rows if rows[name]["device"] == device), "")
    return specs.find_cluster(found) if found else specs.assumed_cluster(device)


def own_cluster(path: str) -> Cluster:
    """Somebody's nodes, from a TOML file with the fields of clusters.toml; rates may be text."""
    from pathlib import Path

    from mathlib.from_config.files import toml

    row = toml(path, f"--cluster {path}")
    kinds = {"link": "byte/s", "bandwidth": "byte/s", "memory": "byte"}
    for name, value in row.items():
        kind = kinds.get(name.rpartition("_")[2])
        if isinstance(value, str) and kind:
            row[name] = parse(name, value, kind)
    known = [one.name for one in fields(Cluster) if one.name != "name"]
    for name in row:
        one_of("field", name, known)
    for name in ("device", "devices_per_node", "node_bandwidth"):
        if name not in row:
            raise InputError(f"--cluster {path}: expected {name}, as `mathlib clusters` shows it")
    row["device"] = named("devices", "device", str(row["device"]))
    return Cluster(**{"name": Path(path).stem} | row)


def machine_of(args: Typed, model: Model) -> "Machine":
    """The model on the cluster, as quick as the program was found to be."""
    from mathlib.plan.calibration import find_rates
    from mathlib.plan.step import machine

    cluster, own = cluster_of(args), adapting.adapters_of(args)
    if own:
        adapting.set_program(args)
    rates = find_rates(cluster.device, args.program, precision=args.precision)
    host = host_of(args, cluster) if args.offload not in (False, "none") else None
    on = machine(model, cluster, _as_launched(args, rates), tokens=args.tokens, host=host)
    how: dict[str, Any] = {"attention": args.attention or "flash", "dropout": bool(args.dropout)}
    return replace(on, **how, adapters=own)


def _as_launched(args: Typed, rates: "Rates") -> "Rates":
    """What flags of Megatron-LM leave in sight of what its runs with all of them hide, of gradients
    and weights a half each; and whether attention is one kernel.
    """
    changes: dict[str, Any] = {"fused": False} if args.attention == "standard" else {}
    if args.program == "megatron-core":
        if args.tp_comm_overlap is False:
            changes["tensor_hidden"] = 0.0
        halves = 2 - (args.overlap_param_gather is False)
        halves *= args.overlap_grad_reduce is not False
        changes["data_hidden"] = rates.data_hidden * halves / 2
    return replace(rates, **changes)


def _memory(args: Typed, on: "Machine", lay: Layout) -> tuple[str, list[Fact]]:
    """Whether device and host have room, and what they hold; the chance that it is too much, with
    as much left free as `mathlib plan` leaves.
    """
    from mathlib.memory.fit import fits
    from mathlib.plan.adapted import NEEDS
    from mathlib.plan.calibration import out_of_memory
    from mathlib.plan.room import find_keeps
    from mathlib.plan.work import OFFLOAD

    recipe = None if args.recipe is None else recipe_named(args.recipe)
    room, away = on.filled(recipe, find_keeps(args.program)), OFFLOAD[args.offload]
    held = sum(room.parts(lay, away))
    verdict = fits(held, on.device, reserve=reserve_of(args, on.device.room, args.program))
    needs = NEEDS if on.adapters else args.program
    risk = out_of_memory(needed=held, memory=verdict.memory, program=needs)
    told = f"{verdict}; {risk:.0%} of runs predicted like it are too much"
    facts: list[Fact] = [
        ("memory of the fullest device", held, "byte"),
        ("chance that it is too much", risk, ""),
    ]
    if not on.host:
        return told, facts
    node = min(lay.world, on.host.devices)
    there = {HOST: on.host.memory * on.host.devices}
    told, waiting = judged(told, waits(room, lay, away, ()), there, node)
    return told, facts + waiting


def counted_as(program: str, keeps: str) -> str:
    """By whose conventions memory was counted, and where others are used."""
    other = "`mathlib memory` without --program counts PyTorch's own operations instead"
    return f"memory counted as {program} fills it: {keeps}\n{other}"


def memory_words(args: Typed) -> str:
    """The same of what was typed."""
    from mathlib.memory.precision import recipe
    from mathlib.plan.wording import kept_words

    if args.lora is not None:
        return adapting.keeps_words(args)
    told = counted_as(args.program, kept_words(args.program, args.recipe))
    if args.recipe and recipe(recipe_named(args.recipe)).elsewhere:
        told += "\ntime counts an update like Adam's, without the matmuls of a whole matrix's"
    return told


@command(
    "time",
    "seconds of a training step by part, MFU, where measured runs lie, and whether it fits",
    "time llama3-8b --cluster p5.48xlarge --data 8 --zero 3 --micro-batches 16",
    "time gpt3-175b --device a100-80gb --tensor 8 --pipeline 8 --data 16 --micro-batches 24",
    "time llama2-7b --cluster dgx-a100 --data 64 --zero 3 --program fsdp --train 2T",
    "time llama2-13b --cluster dgx-a100 --data 8 --zero 2 --offload states",
    "time llama3-8b --cluster dgx-a100 --data 8 --lora 16 --recompute full --micro-batches 8",
    options=time_options,
)
def time_command(args: Typed) -> None:
    from mathlib.plan import step
    from mathlib.plan.wording import of_peak
    from mathlib.plan.work import UNTIMED

    if args.offload in UNTIMED:
        told = "how long a step takes then is not modelled; `mathlib memory` says whether it fits"
        raise InputError(f"--offload {args.offload}: {told}")
    model = model_of(args)
    lay, on = layout_of(args, model, uneven=True), machine_of(args, model)
    away = {"offload": args.offload}
    parts = step.step(on, lay, **away)
    parts.title += f" of {on.cluster.title}, {args.program}"
    parts.title += f", {on.adapters}" if on.adapters else ""
    if args.offload != "none":
        what = "states and activations" if args.offload == "both" else args.offload
        parts.title += f", {what} on the host, as in no run that was fitted"
    tokens = lay.sequences * on.tokens
    between = step.interval(on, lay, **away)
    facts: list[Fact] = [
        ("devices", lay.world, ""),
        ("tokens of a sequence", on.tokens, "token"),
        ("tokens of a step", tokens, "token"),
        ("tokens a second of a device", tokens / parts.total / lay.world, "token"),
        (f"MFU{of_peak(on)}", step.utilization(on, lay, **away), ""),
        (f"HFU{of_peak(on)}", step.utilization(on, lay, executed=True, **away), ""),
        ("80% interval, from", between.low, "second"),
        ("80% interval, to", between.high, "second"),
    ]
    verdict, held = _memory(args, on, lay)
    facts += held
    if run := days.run_of(args, on, devices=lay.world, tokens=tokens, seconds=parts.total):
        facts += days.facts(run, between.low / parts.total, between.high / parts.total)
    keeps = memory_words(args)
    answer(args, parts, facts, verdict=verdict, keeps=keeps)
