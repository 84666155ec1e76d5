"""mathlib comm, mathlib groups: what ranks send, and which ranks share what."""

from argparse import ArgumentParser
from collections.abc import Mapping
from math import prod
from typing import Any

from mathlib import units
from mathlib.checks import InputError, positive
from mathlib.cli.amounts import NUMBER, amount, rate
from mathlib.cli.options import (
    add_depth,
    add_layout,
    add_model,
    add_tokens,
    layout_of,
    model_of,
)
from mathlib.cli.registry import command
from mathlib.cli.text import Fact, answer, counted, facts_dict, facts_table, show, wrapped
from mathlib.cli.typed import Typed
from mathlib.parts import Parts
from mathlib.specs import Layout, Model, own_tokens

MOST_RANKS = 2**17  # a longer list helps nobody
Groups = dict[str, list[list[int]]]  # by axis


def comm_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "collective",
        help="all-reduce, reduce-scatter, all-gather, all-to-all, broadcast, ... or step",
    )
    add_collective(parser)
    add_model(parser)
    add_tokens(parser)
    add_layout(parser)
    add_depth(parser)


def add_collective(parser: ArgumentParser) -> None:
    """What a single collective takes; a step takes a model and a layout instead."""
    group = parser.add_argument_group("a collective, other than step")
    group.add_argument(
        "--payload",
        type=amount("byte"),
        metavar="SIZE",
        help="bytes of the whole tensor, such as 1GB",
    )
    group.add_argument("--ranks", type=NUMBER, metavar="N", help="ranks that take part")
    group.add_argument(
        "--algorithm",
        default="",
        metavar="NAME",
        help="ring, tree, halving-doubling, naive; the usual if not given",
    )
    group.add_argument(
        "--bandwidth",
        type=rate,
        metavar="RATE",
        help="of a rank's link, one way: 300GB/s, 400Gbit/s",
    )
    group.add_argument(
        "--latency",
        type=amount("second"),
        default=0,
        metavar="TIME",
        help="of a message, such as 5us",
    )


@command(
    "comm",
    "bytes a rank sends, and how long that takes: a collective, or a training step",
    "comm all-reduce --payload 1GB --ranks 8 --bandwidth 300GB/s --latency 5us",
    "comm step llama2-7b --data 8 --zero 3 --micro-batches 4",
    "comm step gpt3-175b --tensor 8 --pipeline 8 --data 16 --micro-batches 32",
    options=comm_options,
)
def comm_command(args: Typed) -> None:
    """A collective; or a step, for which the model and the layout count."""
    from mathlib.traffic import comm

    if args.collective == "step":
        return step_answer(args)
    for name in ("payload", "ranks"):
        if getattr(args, name) is None:
            raise InputError(f"--{name}: needed (--payload 1GB --ranks 8)")
    given = {"payload": args.payload, "ranks": args.ranks, "algorithm": args.algorithm}
    facts: list[Fact] = [("a rank sends", comm.sent(args.collective, **given), "byte")]
    busiest = comm.traffic(args.collective, **given).busiest
    if busiest > facts[0][1]:  # from or to a root: the first line is a mean
        facts = [("a rank sends, on average", *facts[0][1:]), ("the busiest", busiest, "byte")]
    title = f"{args.collective} of {units.show(args.payload, 'byte')} over {args.ranks} ranks"
    if args.bandwidth is not None:
        parts = comm.time(args.collective, **given, bandwidth=args.bandwidth, latency=args.latency)
        facts += [(name, parts.amount(name), "second") for name in parts]
        facts.append(("time", parts.total, "second"))
    show(args, f"{title}\n\n{facts_table(facts)}", facts_dict(facts))


def step_answer(args: Typed) -> None:
    """A training step's bytes by kind of parallelism, for a rank of the first pipeline stage."""
    from mathlib.memory import states

    model = model_of(args)
    lay = layout_of(args, model)
    own = states.stage_parameters(model, lay, 0)
    parts = step_bytes(model, lay, own, args.tokens)
    facts: list[Fact] = [
        ("devices", lay.world, ""),
        ("tokens of a sequence", int(args.tokens or model.context), "token"),
        ("tokens of a step", lay.sequences * int(args.tokens or model.context), "token"),
        ("parameters of a rank", own.total, "parameter"),
    ]
    if args.bandwidth is not None:
        seconds = parts.total / positive("bandwidth", args.bandwidth)
        facts.append(("time at that bandwidth, nothing hidden", seconds, "second"))
    answer(args, parts, facts)


def step_bytes(model: Model, lay: Layout, own: Parts, tokens: int | None) -> Parts:
    """What a rank of the first stage sends, by kind; `own` are its parameters."""
    from mathlib.traffic import volumes

    s = own_tokens(tokens or model.context, lay.context)
    passes: dict[str, Any] = {"micro_batch": lay.micro_batch, "micro_batches": lay.micro_batches}
    layers = lay.layers_of_stage(model.layers)
    common = passes | {"layers": layers, "recompute": lay.recompute}
    kinds = {
        "tensor": volumes.tensor_parallel(
            model,
            tensor=lay.tensor,
            tokens=s,
            **common,
            sequence_parallel=lay.sequence_parallel,
        ),
        "pipeline": volumes.pipeline_parallel(
            model, pipeline=lay.pipeline, chunks=lay.chunks, tokens=s, **passes
        ),
    }
    whole: dict[str, Any] = {"tokens": tokens, "tensor": lay.tensor, "context": lay.context}
    if lay.context > 1:
        kinds["context"] = volumes.context_parallel(model, **whole, **common)
    if lay.expert > 1:
        kinds["expert"] = volumes.expert_parallel(model, expert=lay.expert, **whole, **common)
    kinds |= _data_bytes(lay, own)
    title = f"sent by a rank of the first stage in a step of {model.title}"
    return Parts(title, "byte", kinds)


def _data_bytes(lay: Layout, own: Parts) -> dict[str, Parts]:
    """Gradients and weights; experts have ranks of their own where they are distributed."""
    from mathlib.traffic import volumes

    how: dict[str, Any] = {"stage": lay.zero, "micro_batches": lay.micro_batches}
    experts = own.amount("experts") if lay.expert > 1 else 0
    kinds = {}
    if experts:  # their ranks are fewer
        kinds["data, experts"] = volumes.zero(
            parameters=experts, data=lay.expert_replicas, shard=lay.expert_shard, **how
        )
    rest = own.total - experts
    kinds["data"] = volumes.zero(parameters=rest, data=lay.replicas, shard=lay.shard, **how)
    return kinds


def groups_options(parser: ArgumentParser) -> None:
    parser.add_argument("--world", type=NUMBER, required=True, metavar="N", help="ranks in all")
    for name in ("tensor", "pipeline", "context", "expert"):
        option = "--context-parallel" if name == "context" else f"--{name}"
        parser.add_argument(
            option, type=NUMBER, default=1, metavar="N", help=f"{name}-parallel degree"
        )
    parser.add_argument(
        "--shard", type=NUMBER, default=1, metavar="N", help="with --order sagemaker: its degree"
    )
    parser.add_argument(
        "--order",
        default="tp-cp-ep-dp-pp",
        metavar="AXES",
        help="fastest first (Megatron's are tp-cp-ep-dp-pp), or deepspeed or sagemaker",
    )


@command(
    "groups",
    "which ranks share a tensor, a stage, a replica",
    "groups --world 16 --tensor 2 --pipeline 4",
    "groups --world 16 --tensor 2 --pipeline 2 --order deepspeed",
    "groups --world 32 --tensor 2 --shard 8 --order sagemaker",
    options=groups_options,
)
def groups_command(args: Typed) -> None:
    if args.world > MOST_RANKS:
        raise InputError(f"--world {args.world:g}: expected at most {MOST_RANKS:,} ranks to list")
    sizes, groups = groups_of(args)
    blocks = [
        f"{axis}: {counted(len(found), 'group')} of {len(found[0])}\n"
        + "\n".join(f"  {group}" for group in found)
        for axis, found in groups.items()
        if len(found[0]) > 1
    ]
    alone = [axis for axis, found in groups.items() if len(found[0]) == 1]
    title = f"{prod(sizes.values())} ranks: " + " x ".join(
        f"{axis} {size}" for axis, size in sizes.items()
    )
    whose = ""
    if sizes.get("ep", 1) > 1:
        whose = "; grid of the experts, 'dense' is what differs for all other layers"
    if alone:
        blocks.append(f"{', '.join(alone)}: every rank for itself")
    text = "\n\n".join([f"{title} (fastest first{whose})", *blocks])
    show(args, wrapped(text), {"unit": "rank", "sizes": dict(sizes), "groups": groups})


def groups_of(args: Typed) -> tuple[Mapping[str, int], Groups]:
    """Size of each axis, and its groups."""
    from mathlib.traffic import mesh

    world, tensor = args.world, args.tensor
    if args.order == "sagemaker":
        grid = mesh.sagemaker(world=world, tensor=tensor, shard=args.shard)
        return grid.sizes, {axis: grid.groups(axis) for axis in grid.sizes}
    if args.order == "deepspeed":
        data = mesh.megatron(world=world, tp=tensor, pp=args.pipeline).sizes["dp"]
        grid = mesh.deepspeed(("pipe", "data", "model"), (args.pipeline, data, tensor))
        return grid.sizes, {axis: grid.groups(axis) for axis in grid.sizes}
    degrees = {"tp": tensor, "pp": args.pipeline, "cp": args.context_parallel, "ep": args.expert}
    grid = mesh.megatron(world=world, **degrees, order=args.order)
    groups = {axis: grid.groups(axis) for axis in grid.sizes}
    if grid.sizes.get("ep", 1) == 1:
        return grid.sizes, groups
    # the other layers have a grid of their own, with more data parallelism
    dense = mesh.megatron(world=world, **degrees | {"ep": 1}, order=args.order)
    others = {axis: dense.groups(axis) for axis in dense.sizes if axis != "ep"}
    differ = {f"dense {axis}": found for axis, found in others.items() if found != groups[axis]}
    return grid.sizes, groups | differ
