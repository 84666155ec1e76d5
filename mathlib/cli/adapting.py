"""Options of fine-tuning with adapters: what is trained, and how frozen weights are kept."""

from argparse import ArgumentParser
from typing import TYPE_CHECKING

from mathlib.checks import InputError, one_of
from mathlib.cli.amounts import NUMBER
from mathlib.cli.typed import Typed

if TYPE_CHECKING:  # loaded when a command needs it
    from mathlib.plan.adapted import Adapters

SHORT = {"q": "query", "k": "key", "v": "value", "o": "output"}
NAMES = SHORT | {f"{short}_proj": name for short, name in SHORT.items()}
NAMES |= {f"{name}_proj": name for name in ("gate", "up", "down")}
BITS = {"whole": "4", "sharded": "4 sharded"}


def matrices(text: str) -> tuple[str, ...]:
    """Matrices by the library's names, or as checkpoints and people call them."""
    return tuple(NAMES.get(one.strip(), one.strip()) for one in text.split(","))


def add_adapters(parser: ArgumentParser) -> None:
    """Fine-tuning of small matrices beside frozen ones."""
    group = parser.add_argument_group("adapters")
    group.add_argument(
        "--lora", type=NUMBER, metavar="RANK", help="trains adapters of this rank, and no weight"
    )
    group.add_argument(
        "--on",
        type=matrices,
        metavar="NAMES",
        help="the matrices that have adapters, such as q,v; all of a layer if not given",
    )
    group.add_argument(
        "--qlora",
        nargs="?",
        const="whole",
        metavar="KIND",
        help="with --lora: matrices of the layers in 4 bits; under ZeRO 3 whole on each device, as "
        "FSDP leaves them, or sharded, as 16-bit numbers",
    )


def adapters_of(args: Typed) -> "Adapters | None":
    """What was typed, if anything."""
    if not args.knows("lora") or args.lora is None:
        return None
    from mathlib.plan.adapted import TARGETS, Adapters

    bits = "16" if args.qlora is None else BITS[one_of("qlora", args.qlora, BITS)]
    return Adapters(args.lora, args.on or TARGETS, bits)


def set_program(args: Typed) -> None:
    """Adapters run as PyTorch runs them without a compiler, with nothing outside the device."""
    from mathlib.plan.adapted import PROGRAM

    args.default("program", PROGRAM)
    for name, wanted in (("program", PROGRAM), ("offload", "none")):
        if (value := args.value(name)) not in (wanted, False):
            told = "" if value is True else f" {value}"
            raise InputError(
                f"--{name}{told}: with --lora expected {wanted}; time and memory of adapters are "
                "held against runs of that kind alone"
            )


def keeps_words(args: Typed) -> str:
    """By whose conventions the memory of adapters was counted."""
    from mathlib.plan.wording import kept_beside

    return f"memory {kept_beside(args.recipe)}"
