"""mathlib roles: several models on the same devices, phase by phase."""

from argparse import ArgumentParser

from mathlib.cli.amounts import NUMBER
from mathlib.cli.memory import at_risk
from mathlib.cli.options import (
    add_depth,
    add_device,
    add_model,
    add_reserve,
    add_tokens,
    device_of,
    model_of,
    named,
    reserve_of,
)
from mathlib.cli.registry import command
from mathlib.cli.text import Fact, answer
from mathlib.cli.typed import Typed
from mathlib.specs import Device, find_model


def roles_options(parser: ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument(
        "--method", default="ppo", metavar="NAME", help="dpo, grpo or ppo; ppo if not given"
    )
    parser.add_argument(
        "--devices", type=NUMBER, default=8, metavar="N", help="that share all; 8 if not given"
    )
    parser.add_argument(
        "--scorer", metavar="NAME", help="the model of critic and reward; the same if not given"
    )
    add_tokens(parser)
    for name, words in (
        ("--micro-batch", "sequences of a forward pass, of DPO pairs; 1 if not given"),
        ("--sequences", "that a device writes at once; 1 if not given"),
        ("--write-tensor", "devices that share the weights to write with; 1 if not given"),
    ):
        parser.add_argument(name, type=NUMBER, default=1, metavar="N", help=words)
    parser.add_argument(
        "--recompute", default="full", metavar="KIND", help="none, selective or full; full"
    )
    parser.add_argument(
        "--offload", action="store_true", help="whoever rests is offloaded to host memory"
    )
    add_device(parser)
    add_reserve(parser)
    add_depth(parser)


@command(
    "roles",
    "bytes of preference tuning: policy, critic, reference, reward, by phase",
    "roles llama3-8b --method dpo --tokens 4096 --device h100-sxm",
    "roles llama3-8b --method ppo --devices 8 --tokens 2048 --sequences 64 --device a100-80gb",
    "roles llama3-70b --method grpo --devices 16 --write-tensor 8 --offload",
    options=roles_options,
)
def roles_command(args: Typed) -> None:
    from mathlib.memory import fit, preference

    model = model_of(args)
    found = preference.phases(
        model,
        method=args.method.lower(),
        devices=args.devices,
        scorer=find_model(named("models", "scorer", args.scorer)) if args.scorer else None,
        micro_batch=args.micro_batch,
        tokens=args.tokens,
        sequences=args.sequences,
        tensor=args.write_tensor,
        recompute=args.recompute,
        offload=args.offload,
    )
    fullest = max(found.values(), key=lambda phase: phase.total)
    fullest.title = f"{model.title}, {args.method} over {args.devices}: most while {fullest.title}"
    facts: list[Fact] = [(name, phase.total, "byte") for name, phase in found.items()]
    there = device_of(args)
    if there is None:
        return answer(args, fullest, facts)
    size = there.room if isinstance(there, Device) else there
    reserve = reserve_of(args, size)
    verdict = fit.fits(fullest, there, reserve=reserve)
    facts.append(("left free for context, buffers and fragments", reserve, "byte"))
    told, risk = at_risk(verdict, None, "pretraining runs")
    answer(args, fullest, facts + risk, verdict=told)
