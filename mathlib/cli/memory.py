"""mathlib memory: what one device holds while training."""

from argparse import ArgumentParser, BooleanOptionalAction
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from mathlib.checks import InputError
from mathlib.cli.amounts import NUMBER
from mathlib.cli.options import (
    add_depth,
    add_device,
    add_layout,
    add_model,
    add_tokens,
    device_of,
    layout_of,
    model_of,
    named,
)
from mathlib.cli.registry import command
from mathlib.cli.text import Fact, answer
from mathlib.cli.typed import Typed
from mathlib.specs import Layout, Model, table
from mathlib.units import show as shown


def memory_options(parser: ArgumentParser) -> None:
    add_model(parser)
    add_tokens(parser)
    add_layout(parser)
    add_saving(parser)
    parser.add_argument(
        "--pipeline-stage",
        type=NUMBER,
        metavar="N",
        help="a stage, counted from 0; the fullest if not given",
    )
    add_device(parser)
    add_depth(parser)


def add_saving(parser: ArgumentParser) -> None:
    """What a program keeps of a parameter and of an activation."""
    parser.add_argument(
        "--recipe",
        default="mixed-adam",
        metavar="NAME",
        help="copies of a parameter, by a name that `mathlib recipes` lists; mixed-adam if not "
        "given",
    )
    parser.add_argument(
        "--attention", metavar="KIND", help="standard or flash; the model's own if not given"
    )
    parser.add_argument(
        "--dropout",
        action=BooleanOptionalAction,
        help="keep dropout's masks, or none; as the model was trained if not given",
    )


def saving_of(args: Typed, model: Model) -> dict[str, Any]:
    """The same as the library's options."""
    recipe = recipe_named(args.recipe)
    how = {"recipe": recipe, "attention": args.attention, "dropout": args.dropout}
    return how | ({} if args.tokens is None else {"tokens": args.tokens})


def recipe_named(text: str) -> str:
    """A recipe that states can be counted by without the shapes of the matrices."""
    rows = table("recipes")
    told = "; `mathlib recipes` lists all, with their bytes"
    if text.lower() == "adamw":
        raise InputError(f"--recipe {text}: keeps what Adam keeps; mixed-adam is the usual{told}")
    name = named("recipes", "recipe", text)
    if rows[name].get("second_moment") == "factored":
        raise InputError(
            f"--recipe {text}: its states depend on the shape of each matrix, which this command "
            f"does not go through{told}"
        )
    return name


@command(
    "memory",
    "bytes on one device while training: states, activations, logits",
    "memory llama2-7b --zero 3 --data 8",
    "memory gpt3-175b --tensor 8 --pipeline 16 --micro-batches 64 --sequence-parallel",
    "memory gpt2 --micro-batch 4 --memory 24GB",
    'memory gpt3-175b --megatron "--tensor-model-parallel-size 8 --pipeline-model-parallel-size 8"',
    options=memory_options,
)
def memory_command(args: Typed) -> None:
    from mathlib.memory import fit

    model = model_of(args)
    lay, how = layout_of(args, model, uneven=True), saving_of(args, model)
    parts = fit.training(model, lay, stage=args.pipeline_stage, **how)
    facts: list[Fact] = [
        ("devices", lay.world, ""),
        ("micro-batches", lay.micro_batches, ""),
        ("tokens of a sequence", int(args.tokens or model.context), "token"),
        ("tokens of a step", lay.sequences * int(args.tokens or model.context), "token"),
    ]
    there, keeps = device_of(args), counted_as(model, how["recipe"])
    if there is None:
        return answer(args, parts, facts, keeps=keeps)
    verdict = fit.fits(parts, there)
    facts += [
        ("room", verdict.memory, "byte"),
        ("left", verdict.memory - verdict.needed, "byte"),
    ]
    ways = [] if verdict else list(ways_out(model, lay, verdict.memory, how))
    answer(args, parts, facts, verdict=str(verdict), ways=ways, keeps=keeps)


def counted_as(model: Model, recipe: str) -> str:
    """By whose conventions memory was counted, and where others are used."""
    gate = ", a gate's product not fused" if model.gated else ""
    other = "`mathlib plan`, `time` and `fit` count the kernels and copies of a --program"
    return f"memory counted as PyTorch's own operations fill it: {recipe}{gate}\n{other}"


def ways_out(model: Model, lay: Layout, memory: float, how: dict[str, Any]) -> Iterator[str]:
    """What each single change would need, of as many devices and sequences."""
    from mathlib.memory import fit

    for words, change in _changes(lay):
        try:
            needed = fit.training(model, replace(lay, **change), **how).total
        except InputError:
            continue
        fits = "fits" if needed <= memory else "still too much"
        yield f"with {words}: {shown(needed, 'byte')}, {fits}"


def _changes(lay: Layout) -> Iterator[tuple[str, dict[str, Any]]]:
    """Single changes that make room, the cheap ones first."""
    if lay.world == 1:
        yield "--zero 3 --data 8 (8 devices)", {"zero": 3, "data": 8, "shard": 0}
        yield "--tensor 8 (8 devices)", {"tensor": 8}
    if lay.replicas > 1:
        for zero in range(lay.zero + 1, 4):
            yield f"--zero {zero}", {"zero": zero}
    if lay.micro_batch > 1 and lay.micro_batch % 2 == 0:
        half = {"micro_batch": lay.micro_batch // 2, "micro_batches": lay.micro_batches * 2}
        words = f"--micro-batch {half['micro_batch']} --micro-batches {half['micro_batches']}"
        yield words, half
    if lay.tensor > 1 and not lay.sequence_parallel:
        yield "--sequence-parallel", {"sequence_parallel": True}
    if lay.recompute != "full":
        yield "--recompute full", {"recompute": "full"}
    for axis in ("tensor", "pipeline"):
        if lay.data % 2 == 0:
            size, m = getattr(lay, axis) * 2, lay.micro_batches * 2
            change = {axis: size, "data": lay.data // 2, "shard": 0, "micro_batches": m}
            yield f"--{axis} {size} --data {lay.data // 2} --micro-batches {m}", change
