"""mathlib memory: what one device holds while training."""

from argparse import ArgumentParser, BooleanOptionalAction, Namespace

from mathlib.cli.options import (
    NUMBER,
    add_depth,
    add_layout,
    add_model,
    amount,
    layout_of,
    model_of,
)
from mathlib.cli.registry import command
from mathlib.cli.text import Fact, answer


def memory_options(parser: ArgumentParser) -> None:
    add_model(parser)
    add_layout(parser)
    parser.add_argument(
        "--recipe",
        default="mixed-adam",
        help="copies of a parameter: mixed-adam, adam-fp32, sgd, ...",
    )
    parser.add_argument("--attention", help="standard or flash; default: the model's own")
    parser.add_argument(
        "--dropout",
        action=BooleanOptionalAction,
        help="keep dropout's masks; default: the model's own",
    )
    parser.add_argument(
        "--stage", type=NUMBER, metavar="N", help="pipeline stage, from 0; the fullest if not given"
    )
    parser.add_argument(
        "--memory", type=amount("byte"), help="of a device, such as 80GB: says whether it fits"
    )
    parser.add_argument("--device", help="the same by a name that `mathlib devices` lists")
    add_depth(parser)


@command(
    "memory",
    "bytes on one device while training: states, activations, logits",
    "memory llama2-7b --recipe mixed-adam --zero 3 --data 8",
    "memory gpt3-175b --tensor 8 --pipeline 16 --micro-batches 64 --sequence-parallel",
    "memory gpt2 --micro-batch 4 --memory 24GB",
    options=memory_options,
)
def memory_command(args: Namespace) -> None:
    from mathlib.memory import fit

    model, lay = model_of(args), layout_of(args)
    names = ("recipe", "stage", "attention", "dropout")
    parts = fit.training(model, lay, **{name: getattr(args, name) for name in names})
    facts: list[Fact] = [
        ("devices", lay.world, ""),
        ("tokens of a step", lay.sequences * model.context, "token"),
    ]
    room = args.device or args.memory
    if room is None:
        return answer(args, parts, facts)
    verdict = fit.fits(parts, room)
    facts += [
        ("room", verdict.memory, "byte"),
        ("left", verdict.memory - verdict.needed, "byte"),
    ]
    answer(args, parts, facts, verdict=str(verdict))
