"""python -m mathlib: the formulas from the command line.

Text becomes numbers here and nowhere else: 80GB, 300B tokens, 312 TFLOP/s are parsed on the way in.
Bad input is one line on stderr and exit code 2.  Modules are loaded when a command needs them, to
start quickly.
"""

import os
import sys
from argparse import (
    ArgumentParser,
    ArgumentTypeError,
    BooleanOptionalAction,
    RawDescriptionHelpFormatter,
)
from collections.abc import Callable, Sequence
from typing import NoReturn

from mathlib import units
from mathlib.checks import InputError
from mathlib.cli import commands

COMMANDS: dict[str, tuple[str, str]] = {
    "params": (
        "parameters of a model, by part",
        """
  mathlib params gpt2-xl
  mathlib params mixtral-8x7b --active
  mathlib params --layers 24 --width 1024
  mathlib params llama2-7b --kv-heads 8 --json""",
    ),
    "flops": (
        "FLOP of a training step, by part, and the time and cost of a run",
        """
  mathlib flops gpt2 --sequences 8 --causal
  mathlib flops gpt3-175b --recompute full --train 300B --device a100-80gb --devices 1024
  mathlib flops llama3-8b --tokens 32k --attention-backward 2.5""",
    ),
    "memory": (
        "bytes on one device while training: states, activations, logits",
        """
  mathlib memory llama2-7b --recipe mixed-adam --zero 3 --data 8
  mathlib memory gpt3-175b --tensor 8 --pipeline 16 --micro-batches 64 --sequence-parallel
  mathlib memory gpt2 --micro-batch 4 --memory 24GB""",
    ),
    "comm": (
        "bytes a rank sends, and how long that takes: a collective, or a training step",
        """
  mathlib comm all-reduce --payload 1GB --ranks 8 --bandwidth 300GB/s --latency 5us
  mathlib comm step llama2-7b --data 8 --zero 3 --micro-batches 4
  mathlib comm step gpt3-175b --tensor 8 --pipeline 8 --data 16 --micro-batches 32""",
    ),
    "groups": (
        "which ranks share a tensor, a stage, a replica",
        """
  mathlib groups --world 16 --tensor 2 --pipeline 4
  mathlib groups --world 16 --tensor 2 --pipeline 2 --order deepspeed
  mathlib groups --world 32 --tensor 2 --shard 8 --order sagemaker""",
    ),
    "models": (
        "models known by name",
        """
  mathlib models
  mathlib models llama
  mathlib models gpt2-xl --json""",
    ),
    "devices": (
        "devices known by name",
        """
  mathlib devices
  mathlib devices h100""",
    ),
    "where": (
        "where a formula stands: function, equation, run, experiment, tests, section",
        """
  mathlib where ring
  mathlib where "bytes a parameter\"""",
    ),
}


class Parser(ArgumentParser):
    """argparse that says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message} (--help shows examples)\n")


def amount(kind: str) -> Callable[[str], float]:
    """An argparse type: text with a unit of this kind, or a bare number in base units."""

    def parse(text: str) -> float:
        try:
            return units.parse("value", text, kind)
        except InputError as refused:
            raise ArgumentTypeError(str(refused).removeprefix("value = ")) from None

    return parse


NUMBER = amount("parameter")


def add_model(parser: ArgumentParser) -> None:
    parser.add_argument(
        "model", nargs="?", help="a name that `mathlib models` lists; the options below change it"
    )
    parser.add_argument(
        "--config", metavar="PATH", help="instead of a name: a config.json of Hugging Face's"
    )
    shape = parser.add_argument_group(
        "shape", "what is not given is GPT-2's: 50257 tokens, context 1024, heads of 64"
    )
    for name, what in commands.SHAPE.items():
        shape.add_argument(f"--{name.replace('_', '-')}", type=NUMBER, metavar="N", help=what)
    for name, what in commands.SWITCHES.items():
        shape.add_argument(f"--{name.replace('_', '-')}", action=BooleanOptionalAction, help=what)
    shape.add_argument(
        "--positions", metavar="KIND", help="learned, rotary, alibi, relative or none"
    )
    shape.add_argument(
        "--norm", metavar="KIND", help="layernorm, layernorm-no-bias, rmsnorm or none"
    )


def add_layout(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("layout", "devices = data x tensor x pipeline")
    for name, what in {
        "data": "replicas that see different data",
        "tensor": "devices that share every product",
        "pipeline": "stages",
        "chunks": "model chunks a stage holds (interleaving)",
        "shard": "ranks over which ZeRO shards, all of data if not given",
        "micro_batch": "sequences of a forward pass",
        "micro_batches": "micro-batches a step",
    }.items():
        group.add_argument(
            f"--{name.replace('_', '-')}",
            type=NUMBER,
            metavar="N",
            default=0 if name == "shard" else 1,
            help=what,
        )
    group.add_argument(
        "--zero", type=NUMBER, default=0, metavar="STAGE", help="ZeRO stage: 0, 1, 2 or 3"
    )
    group.add_argument(
        "--sequence-parallel", action="store_true", help="split what tensor leaves whole as well"
    )
    group.add_argument("--recompute", default="none", help="none, selective or full")


def add_name(parser: ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", help="part of a name; all if not given")


def add_params(parser: ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument("--active", action="store_true", help="only what one token meets")
    parser.add_argument("--embeddings", default="both", help="with --active: both, head or none")


def add_flops(parser: ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument(
        "--sequences", type=NUMBER, default=1, metavar="N", help="sequences of a step"
    )
    parser.add_argument(
        "--tokens",
        type=amount("token"),
        help="tokens of a sequence, the model's context if not given",
    )
    parser.add_argument(
        "--causal", action="store_true", help="count only the pairs a causal mask keeps"
    )
    parser.add_argument(
        "--attention-backward", type=NUMBER, default=2, metavar="X", help="2; FlashAttention 2.5"
    )
    parser.add_argument("--recompute", default="none", help="none, selective or full")
    parser.add_argument(
        "--convention", default="counted", help="of selective recomputation: counted or korthikanti"
    )
    run = parser.add_argument_group("a whole run")
    run.add_argument(
        "--train", type=amount("token"), metavar="TOKENS", help="tokens of the run, such as 300B"
    )
    run.add_argument("--device", help="a name that `mathlib devices` lists")
    run.add_argument("--devices", type=NUMBER, metavar="N", help="how many of them")
    run.add_argument("--dtype", default="bf16", help="number type whose peak counts")
    run.add_argument(
        "--utilization",
        type=NUMBER,
        default=0.4,
        metavar="SHARE",
        help="of the peak, 0.4 if not given",
    )
    run.add_argument("--price", type=NUMBER, metavar="MONEY", help="of one device-hour")


def add_comm(parser: ArgumentParser) -> None:
    parser.add_argument(
        "collective",
        help="all-reduce, reduce-scatter, all-gather, all-to-all, broadcast, ... or step",
    )
    parser.add_argument(
        "--payload", type=amount("byte"), help="bytes of the whole tensor, such as 1GB"
    )
    parser.add_argument("--ranks", type=NUMBER, metavar="N")
    parser.add_argument(
        "--algorithm",
        default="",
        help="ring, tree, halving-doubling, naive; the usual if not given",
    )
    parser.add_argument(
        "--bandwidth", type=amount("byte/s"), help="of a rank's link, one way: 300GB/s, 400Gbit/s"
    )
    parser.add_argument(
        "--latency", type=amount("second"), default=0, help="of a message, such as 5us"
    )
    add_model(parser)
    add_layout(parser)


def add_groups(parser: ArgumentParser) -> None:
    parser.add_argument("--world", type=NUMBER, required=True, metavar="N", help="ranks in all")
    for name in ("tensor", "pipeline", "context", "expert", "shard"):
        parser.add_argument(
            f"--{name}", type=NUMBER, default=1, metavar="N", help=f"{name}-parallel degree"
        )
    parser.add_argument(
        "--order",
        default="tp-cp-ep-dp-pp",
        help="axes, fastest first (Megatron's are tp-cp-ep-dp-pp), or deepspeed or sagemaker",
    )


def add_memory(parser: ArgumentParser) -> None:
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


def add_where(parser: ArgumentParser) -> None:
    parser.add_argument("words", nargs="+", help="words of its name, sentence, chapter or equation")


def build() -> Parser:
    parser = Parser(
        prog="mathlib",
        description="The arithmetic of training transformers.",
        epilog="mathlib COMMAND --help shows examples. Run as: python -m mathlib COMMAND",
    )
    subparsers = parser.add_subparsers(
        dest="command", metavar="COMMAND", required=True, parser_class=Parser
    )
    add = {
        "params": add_params,
        "flops": add_flops,
        "memory": add_memory,
        "comm": add_comm,
        "groups": add_groups,
        "where": add_where,
    }
    for name, (what, examples) in COMMANDS.items():
        sub = subparsers.add_parser(
            name,
            help=what,
            description=what[0].upper() + what[1:] + ".",
            epilog=f"examples:{examples}",
            formatter_class=RawDescriptionHelpFormatter,
        )
        add.get(name, add_name)(sub)
        if name in ("params", "memory", "comm"):
            sub.add_argument(
                "--depth",
                type=NUMBER,
                default=2,
                metavar="N",
                help="levels of parts in the table, 2",
            )
        sub.add_argument("--json", action="store_true", help="machine-readable, units named")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0, or 2 for bad input, 130 when interrupted, 141 when nobody reads on."""
    try:
        args = build().parse_args(arguments)
        getattr(commands, f"{args.command}_command")(args)
        sys.stdout.flush()
        return 0
    except InputError as refused:
        print(f"mathlib: error: {refused}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
        )  # or Python complains when it flushes at exit
        return 141
