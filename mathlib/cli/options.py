"""Options that several commands share, and the model and the layout that they describe.

Text becomes numbers here and nowhere else: 80GB, 300B tokens, 312 TFLOP/s are parsed on the way in.
"""

from argparse import ArgumentParser, ArgumentTypeError, BooleanOptionalAction, Namespace
from collections.abc import Callable
from typing import Any

from mathlib import specs, units
from mathlib.checks import InputError
from mathlib.specs import Layout, Model

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
KINDS = {
    "positions": "learned, rotary, alibi, relative or none",
    "norm": "layernorm, layernorm-no-bias, rmsnorm or none",
}
DEGREES = {
    "data": "replicas that see different data",
    "tensor": "devices that share every product",
    "pipeline": "stages",
    "chunks": "model chunks a stage holds (interleaving)",
    "shard": "ranks over which ZeRO shards, all of data if not given",
    "micro_batch": "sequences of a forward pass",
    "micro_batches": "micro-batches a step",
}


def amount(kind: str) -> Callable[[str], float]:
    """An argparse type: text with a unit of this kind, or a bare number in base units."""

    def parse(text: str) -> float:
        try:
            return units.parse("value", text, kind)
        except InputError as refused:
            raise ArgumentTypeError(str(refused).removeprefix("value = ")) from None

    return parse


NUMBER = amount("parameter")


def spelled(name: str) -> str:
    """An option as it is typed: --kv-heads for kv_heads."""
    return f"--{name.replace('_', '-')}"


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
    for name, what in SHAPE.items():
        shape.add_argument(spelled(name), type=NUMBER, metavar="N", help=what)
    for name, what in SWITCHES.items():
        shape.add_argument(spelled(name), action=BooleanOptionalAction, help=what)
    for name, what in KINDS.items():
        shape.add_argument(spelled(name), metavar="KIND", help=what)


def model_of(args: Namespace) -> Model:
    """The named model or that of a config.json, changed by the options; without either a GPT-2 of
    that shape.
    """
    names = (*SHAPE, *SWITCHES, *KINDS)
    changes = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    if args.model and args.config:
        raise InputError(f"config = {args.config!r}: expected without model = {args.model!r}")
    if not args.model and not args.config:
        return _gpt2_of(changes)
    base = specs.find_model(args.model) if args.model else _model_in(args.config)
    if not changes:
        return base
    return base.but(**changes, name=f"{base.name}, changed", title=f"{base.title}, changed")


def _model_in(path: str) -> Model:
    from mathlib.from_config import from_config

    return from_config(path)


def _gpt2_of(shape: dict[str, Any]) -> Model:
    """A GPT-2 of another shape; heads as wide as its own unless their number is given."""
    if not {"layers", "width"} <= set(shape):
        raise InputError(
            "model: expected a name that `mathlib models` lists, a --config, or a shape (--layers "
            "24 --width 1024)"
        )
    base, layers, width = specs.find_model("gpt2"), shape["layers"], shape["width"]
    if "heads" not in shape and width % base.head_dim:
        raise InputError(
            f"width = {width}: no multiple of {base.head_dim}, so --heads is needed too"
        )
    return base.but(**{"heads": width // base.head_dim} | shape, name=f"GPT of {layers} x {width}")


def add_layout(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("layout", "devices = data x tensor x pipeline")
    for name, what in DEGREES.items():
        default = 0 if name == "shard" else 1
        group.add_argument(spelled(name), type=NUMBER, metavar="N", default=default, help=what)
    group.add_argument(
        "--zero", type=NUMBER, default=0, metavar="STAGE", help="ZeRO stage: 0, 1, 2 or 3"
    )
    group.add_argument(
        "--sequence-parallel", action="store_true", help="split what tensor leaves whole as well"
    )
    group.add_argument("--recompute", default="none", help="none, selective or full")


def layout_of(args: Namespace) -> Layout:
    names = (*DEGREES, "zero", "sequence_parallel", "recompute")
    return Layout(**{name: getattr(args, name) for name in names})


def add_depth(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--depth", type=NUMBER, default=2, metavar="N", help="levels of parts in the table, 2"
    )
