"""What each command of `python -m mathlib` works out and prints: a table for people, JSON for
programs.

Arguments come parsed, in base units.  Every number goes out with its unit.
"""

from argparse import Namespace
from typing import Any

from mathlib import units
from mathlib.checks import InputError, divides, fraction, one_of, positive
from mathlib.cli.text import Fact, answer, facts_dict, facts_table, show, table
from mathlib.parts import Parts
from mathlib.specs import Layout, Model

MOST_RANKS = 2**17  # a longer list helps nobody
SHAPE = {
    "layers": "L",
    "width": "h, of the residual stream",
    "heads": "query heads",
    "kv_heads": "key and value heads",
    "head_dim": "width of a head",
    "ffn_width": "of the MLP",
    "vocab": "tokens the tokeniser knows",
    "padded_vocab": "rows of the embedding table",
    "context": "tokens of a training sequence",
}
SWITCHES = {
    "gated": "an MLP of three matrices (SwiGLU)",
    "tied": "the head reuses the embedding",
    "qkv_bias": "biases on queries, keys, values",
    "output_bias": "a bias on attention's output",
    "mlp_bias": "biases in the MLP",
}


def model_of(args: Namespace) -> Model:
    """The named model or that of a config.json, changed by the options; without either a GPT-2 of
    that shape.
    """
    from mathlib import specs

    names = (*SHAPE, *SWITCHES, "positions", "norm")
    changes = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    if args.model and args.config:
        raise InputError(f"config = {args.config!r}: expected without model = {args.model!r}")
    if args.model or args.config:
        base = specs.find_model(args.model) if args.model else config_of(args.config)
        if not changes:
            return base
        return base.but(**changes, name=f"{base.name}, changed", title=f"{base.title}, changed")
    if not {"layers", "width"} <= set(changes):
        raise InputError(
            "model: expected a name that `mathlib models` lists, a --config, or a shape (--layers "
            "24 --width 1024)"
        )
    width, base = changes["width"], specs.find_model("gpt2")
    if "heads" not in changes and width % base.head_dim:
        raise InputError(
            f"width = {width}: no multiple of {base.head_dim}, so --heads is needed too"
        )
    changes = {
        "heads": width // base.head_dim,
        "name": f"GPT of {changes['layers']} x {width}",
        **changes,
    }
    return base.but(**changes)


def config_of(path: str) -> Model:
    from mathlib.from_config import from_config

    return from_config(path)


def params_command(args: Namespace) -> None:
    from mathlib.compute import params

    model = model_of(args)
    parts = params.active(model, embeddings=args.embeddings) if args.active else params.count(model)
    facts: list[Fact] = [
        ("without embedding, positions, head", params.non_embedding(model), "parameter"),
        ("12 L h^2", params.shorthand(layers=model.layers, width=model.width), "parameter"),
    ]
    if model.experts and not args.active:
        facts.append(("active for one token", params.active(model).total, "parameter"))
    answer(args, parts, facts)


def flops_command(args: Namespace) -> None:
    from mathlib.compute import flops, params

    model = model_of(args)
    names = ("sequences", "tokens", "causal", "attention_backward", "recompute", "convention")
    parts = flops.training(model, **{name: getattr(args, name) for name in names})
    phases = [phase for phase in parts.values() if isinstance(phase, Parts)]
    rows = [("total", [phase.total for phase in phases])]
    rows[:0] = [
        (name, [phase.amount(name) if name in phase else 0 for phase in phases])
        for name in phases[0]
    ]
    cells = [
        (name, *[units.show(n, "FLOP") for n in row], f"{sum(row) / parts.total:.1%}")
        for name, row in rows
    ]
    tokens = args.sequences * (args.tokens or model.context)
    six = 6 * params.active(model).total
    facts: list[Fact] = [
        ("one step", parts.total, "FLOP"),
        ("tokens", tokens, "token"),
        ("per token", parts.total / tokens, "FLOP"),
        ("6N per token", six, "FLOP"),
        ("counted / 6N", parts.total / tokens / six, ""),
    ]
    facts += run_facts(args, parts.total / tokens)
    head = ("part", *parts, "share")
    parts.title += f", {'causal' if args.causal else 'full'} attention"
    answer(args, parts, facts, table(head, cells))


def run_facts(args: Namespace, per_token: float) -> list[Fact]:
    """Time and cost of a whole run, as far as the options say."""
    from mathlib import specs
    from mathlib.compute import cost

    if args.train is None:
        if args.devices is not None or args.device:
            raise InputError("train: needed for a time (--train 300B with --device and --devices)")
        return []
    flop = per_token * args.train
    facts: list[Fact] = [
        ("run", flop, "FLOP"),
        ("run in PF/s-days", units.pf_days(flop), "PF/s-days"),
    ]
    if args.devices is None and not args.device:
        return facts
    if args.devices is None or not args.device:
        raise InputError("device, devices: a time needs both (--device a100-80gb --devices 1024)")
    rate = specs.find_device(args.device).flops_per_second(args.dtype) * fraction(
        "utilization", args.utilization
    )
    seconds = cost.training_time(flop=flop, devices=args.devices, achieved=rate)
    hours = cost.device_hours(devices=args.devices, seconds=seconds)
    facts += [
        ("achieved by a device", rate, "FLOP/s"),
        ("time", seconds, "second"),
        ("device-hours", hours, "hours"),
    ]
    if args.price is not None:
        facts.append(("price", cost.price(device_hours=hours, price_per_hour=args.price), ""))
    return facts


def comm_command(args: Namespace) -> None:
    from mathlib.traffic import comm

    if args.collective == "step":
        return step_command(args)
    for name in ("payload", "ranks"):
        if getattr(args, name) is None:
            raise InputError(f"{name}: needed (--payload 1GB --ranks 8)")
    given = {"payload": args.payload, "ranks": args.ranks, "algorithm": args.algorithm}
    facts: list[Fact] = [("a rank sends", comm.sent(args.collective, **given), "byte")]
    busiest = comm.traffic(args.collective, **given).busiest
    if busiest > facts[0][1]:  # from or to a root: the first line is a mean
        facts = [("a rank sends, on average", *facts[0][1:]), ("the busiest", busiest, "byte")]
    title = f"{args.collective} of {units.show(args.payload, 'byte')} over {args.ranks} ranks"
    if args.bandwidth is not None:
        parts = comm.time(args.collective, **given, bandwidth=args.bandwidth, latency=args.latency)
        facts += [(name, parts.amount(name), "second") for name in parts] + [
            ("time", parts.total, "second")
        ]
    show(args, f"{title}\n\n{facts_table(facts)}", facts_dict(facts))


def layout_of(args: Namespace) -> Layout:
    from dataclasses import fields

    return Layout(**{field.name: getattr(args, field.name) for field in fields(Layout)})


def step_command(args: Namespace) -> None:
    """A training step's bytes by kind of parallelism, for a rank of the first pipeline stage."""
    from mathlib.compute import params
    from mathlib.traffic import volumes

    model, lay = model_of(args), layout_of(args)
    divides("tensor", lay.tensor, "heads", model.heads)
    common: dict[str, Any] = {"micro_batch": lay.micro_batch, "micro_batches": lay.micro_batches}
    weights = params.total(model) / (lay.tensor * lay.pipeline)
    tensor = volumes.tensor_parallel(
        model,
        tensor=lay.tensor,
        recompute=lay.recompute,
        **common,
        sequence_parallel=lay.sequence_parallel,
        layers=lay.layers_of_stage(model.layers),
    )
    pipeline = volumes.pipeline_parallel(model, pipeline=lay.pipeline, chunks=lay.chunks, **common)
    data = volumes.zero(
        parameters=weights,
        data=lay.data,
        stage=lay.zero,
        shard=lay.shard,
        micro_batches=lay.micro_batches,
    )
    parts = Parts(
        f"sent by a rank of the first stage in a step of {model.title}",
        "byte",
        {"tensor": tensor, "pipeline": pipeline, "data": data},
    )
    facts: list[Fact] = [
        ("devices", lay.world, ""),
        ("tokens of a step", lay.sequences * model.context, "token"),
        ("parameters of a rank, on average", weights, "parameter"),
    ]
    if args.bandwidth is not None:
        seconds = parts.total / positive("bandwidth", args.bandwidth)
        facts.append(("time at that bandwidth, nothing hidden", seconds, "second"))
    answer(args, parts, facts)


def memory_command(args: Namespace) -> None:
    from mathlib.memory import fit

    model, lay = model_of(args), layout_of(args)
    parts = fit.training(
        model,
        lay,
        recipe=args.recipe,
        stage=args.stage,
        attention=args.attention,
        dropout=args.dropout,
    )
    facts: list[Fact] = [
        ("devices", lay.world, ""),
        ("tokens of a step", lay.sequences * model.context, "token"),
    ]
    room = args.device or args.memory
    verdict = fit.fits(parts, room) if room is not None else None
    if verdict is not None:
        facts += [
            ("room", verdict.memory, "byte"),
            ("left", verdict.memory - verdict.needed, "byte"),
        ]
    answer(args, parts, facts, verdict="" if verdict is None else str(verdict))


def groups_command(args: Namespace) -> None:
    from mathlib.traffic import mesh

    if args.world > MOST_RANKS:
        raise InputError(f"world = {args.world:g}: expected at most {MOST_RANKS:,} ranks to list")
    degrees = {"tp": args.tensor, "pp": args.pipeline, "cp": args.context, "ep": args.expert}
    if args.order == "sagemaker":
        grid = mesh.sagemaker(world=args.world, tensor=args.tensor, shard=args.shard)
    elif args.order == "deepspeed":
        data = mesh.megatron(world=args.world, tp=args.tensor, pp=args.pipeline).sizes["dp"]
        grid = mesh.deepspeed(("pipe", "data", "model"), (args.pipeline, data, args.tensor))
    else:
        grid = mesh.megatron(world=args.world, **degrees, order=args.order)
    groups = {axis: grid.groups(axis) for axis in grid.sizes}
    experts = grid.sizes.get("ep", 1) > 1
    if experts:  # the other layers have a grid of their own, with more data parallelism
        dense = mesh.megatron(world=args.world, **degrees | {"ep": 1}, order=args.order)
        others = {axis: dense.groups(axis) for axis in dense.sizes if axis != "ep"}
        groups |= {f"dense {axis}": g for axis, g in others.items() if g != groups[axis]}
    blocks = [
        f"{axis}: {len(found)} group(s) of {len(found[0])}\n"
        + "\n".join(f"  {group}" for group in found)
        for axis, found in groups.items()
    ]
    title = f"{grid.world} ranks: " + " x ".join(
        f"{axis} {size}" for axis, size in grid.sizes.items()
    )
    whose = "; grid of the experts, 'dense' is what differs for all other layers" if experts else ""
    text = "\n\n".join([f"{title} (fastest first{whose})", *blocks])
    show(args, text, {"unit": "rank", "sizes": grid.sizes, "groups": groups})


def models_command(args: Namespace) -> None:
    from dataclasses import asdict

    from mathlib import specs
    from mathlib.compute import params

    names = [name for name in specs.table("models") if not args.name or args.name.lower() in name]
    if not names:
        one_of("name", args.name, specs.table("models"))
    found = [specs.find_model(name) for name in names]
    rows = [
        (
            m.name,
            m.title,
            f"{params.total(m):,}",
            m.layers,
            m.width,
            m.heads,
            m.kv_heads,
            m.ffn_width,
            m.padded_vocab,
            m.context,
            m.date,
        )
        for m in found
    ]
    head = (
        "model",
        "called",
        "parameters",
        "layers",
        "width",
        "heads",
        "kv heads",
        "ffn",
        "vocab",
        "context",
        "date",
    )
    text = table(head, rows)
    if len(found) == 1:
        text += f"\n\nsource: {found[0].source}"
    show(
        args,
        text,
        [
            asdict(m)
            | {"parameters": params.total(m), "published_parameters": m.parameters or None}
            for m in found
        ],
    )


def devices_command(args: Namespace) -> None:
    from dataclasses import asdict

    from mathlib import specs

    names = [name for name in specs.table("devices") if not args.name or args.name.lower() in name]
    if not names:
        one_of("name", args.name, specs.table("devices"))
    found = [specs.find_device(name) for name in names]
    kinds = [kind for kind in ("fp32", "fp16", "bf16", "fp8") if any(kind in d.peak for d in found)]
    rows = [
        (
            d.name,
            d.title,
            *[f"{d.peak[k] / 1e12:g}" if k in d.peak else "" for k in kinds],
            f"{d.memory / 1e9:g}",
            f"{d.reported_memory / 2**30:.1f}" if d.reported_memory else "",
            f"{d.memory_bandwidth / 1e9:g}",
            f"{d.link_bandwidth / 1e9:g}",
            f"{d.power:g}" if d.power else "",
        )
        for d in found
    ]
    peaks = [f"{kind} TFLOP/s" for kind in kinds]
    head = ("device", "called", *peaks, "GB", "GiB reported", "memory GB/s", "link GB/s", "W")
    text = (
        f"{table(head, rows)}\n\nPeaks are dense; GB as sold, GiB as the device reports them; link "
        "bandwidth is one direction."
    )
    if len(found) == 1:
        text += f"\nsource: {found[0].source}, {found[0].date}"
    kinds_of = {
        "peak": "FLOP/s",
        "memory": "byte",
        "reported_memory": "byte",
        "memory_bandwidth": "byte/s",
        "link_bandwidth": "byte/s",
    }
    show(args, text, {"units": kinds_of | {"power": "W"}, "devices": [asdict(d) for d in found]})


def where_command(args: Namespace) -> None:
    """The rows of book/map.md in which the words occur, a block each."""
    from mathlib.cli import where

    found = where.search(" ".join(args.words))
    blocks = []
    for row in found:
        lines = {
            "says": row["says"],
            "equation": row["equation"],
            "chapter": row["chapter"],
            "section": row["section"],
            "run": ", ".join(row["runs"]),
            "experiment": ", ".join(row["experiments"]),
            "tests": ", ".join(row["tests"]),
        }
        told = [f"  {name:<10}  {text}" for name, text in lines.items() if text]
        blocks.append("\n".join([row["function"], *told]))
    show(args, "\n\n".join(blocks), found)
