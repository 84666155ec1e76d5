"""Options that several commands share, and the model and the layout that they describe."""

from argparse import ArgumentParser, BooleanOptionalAction
from typing import TYPE_CHECKING, Any

from mathlib import specs
from mathlib.checks import InputError, divides, non_negative
from mathlib.cli.amounts import NUMBER, length, room
from mathlib.cli.typed import Typed, spelled
from mathlib.layout import chunk_layers, spreads, tensor_degree
from mathlib.specs import Device, Layout, Model

if TYPE_CHECKING:
    from argparse import _ActionsContainer

SHAPE = {
    "layers": "layers",
    "width": "width of the residual stream",
    "heads": "query heads",
    "kv_heads": "key and value heads",
    "head_dim": "width of a head",
    "ffn_width": "width inside the MLP",
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
    "tensor": "devices that share every matmul",
    "pipeline": "pipeline stages",
    "chunks": "model chunks a stage holds (interleaving)",
    "expert": "devices over which the experts of a layer are distributed",
    "expert_tensor": "devices that share the matmuls of an expert; tensor's if not given",
    "shard": "ranks over which ZeRO shards; all of data x context if not given",
    "micro_batch": "sequences of a forward pass",
    "micro_batches": "micro-batches a step; as many as stages if not given",
}
SHAPES, FLAGS = "shape", "flags of other programs, as they are"  # titles in the help
SEQUENCE = 8192  # tokens at most where nobody says how many: a context of 131,072 is rarely meant
FROM_FLAGS = (  # of a model, where another program's flags say it
    *("experts", "attention", "dropout", "latent", "window", "query_key_norm"),
)
OVERLAPS = ("overlap_grad_reduce", "overlap_param_gather", "tp_comm_overlap")  # of a step, so too


def named(kind: str, option: str, text: str) -> str:
    """A name of a data file, however it is spelled; what comes near is told, and who lists all."""
    rows = specs.table(kind)
    if text in rows:
        return text
    short = text.lower()
    if short in rows:
        return short
    from difflib import get_close_matches  # only a refusal needs it

    inside = [name for name in rows if short in name]
    near = inside[:6] or get_close_matches(short, rows, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    of = option if option == "model" else spelled(option)
    raise InputError(f"{of} {text}: no such name; {hint}`mathlib {kind}` lists all {len(rows)}")


def add_model(parser: ArgumentParser) -> None:
    parser.add_argument(
        "model",
        nargs="?",
        help="a name that `mathlib models` lists, or a config.json of Hugging Face's",
    )
    parser.add_argument(
        "--config", "--model", metavar="PATH", dest="config", help="the same, as an option"
    )
    shape = parser.add_argument_group(
        SHAPES,
        "changes the model; of no model the rest is GPT-2's: 50257 tokens, context 1024, heads of "
        "64",
    )
    for name, what in SHAPE.items():
        kind = length if name == "context" else NUMBER
        shape.add_argument(spelled(name), type=kind, metavar="N", help=what)
    for name, what in SWITCHES.items():
        shape.add_argument(spelled(name), action=BooleanOptionalAction, help=what)
    for name, what in KINDS.items():
        shape.add_argument(spelled(name), metavar="KIND", help=what)
    add_launch(parser)


def add_tokens(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--tokens",
        "--seq",
        "--seq-length",
        dest="tokens",
        type=length,
        metavar="N",
        help="tokens of a sequence, 32k for 32,768; the model's context if not given, but at most "
        f"{SEQUENCE:,}",
    )


def model_of(args: Typed) -> Model:
    """The named model or that of a config.json, changed by the options; without either a GPT-2 of
    that shape.
    """
    names: tuple[str, ...] = (*SHAPE, *SWITCHES, *KINDS)
    names += tuple(name for name in FROM_FLAGS if name in args.read)
    changes = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    if args.model and args.config:
        raise InputError(f"--config {args.config}: expected without the model {args.model}")
    name = args.model or args.config
    if not name:
        return _of_pairs(_gpt2_of(changes))
    base = _of_usual_length(args, named_model(name))
    args.ignored += [key for key in base.unread if key not in args.ignored]
    if not changes:
        return base
    named = {"name": f"{base.name}, changed", "title": f"{base.title}, changed"}
    return _of_pairs(base.but(**changes, **named))


def _of_pairs(model: Model) -> Model:
    """A model whose heads rotary positions can turn."""
    if model.positions == "rotary" and model.head_dim % 2 and not model.latent:
        raise InputError(
            f"head_dim = {model.head_dim}: expected an even number, as rotary positions turn pairs"
        )
    return model


def _of_usual_length(args: Typed, model: Model) -> Model:
    """The model with sequences of at most SEQUENCE tokens, where nobody said how long they are."""
    said = args.value("tokens") is not None or args.value("context") is not None
    if said or model.context <= SEQUENCE:
        return model
    args.notes[:] = [
        f"sequences of {SEQUENCE:,} tokens; --tokens for others, up to {model.context:,}"
    ]
    return model.but(context=SEQUENCE, position_rows=model.position_rows)


def named_model(name: str) -> Model:
    """A model by its name or by its config.json."""
    if name in specs.table("models"):
        return specs.find_model(name)
    from os.path import isdir  # pathlib's raises where a name is too long for a file

    if name.endswith(".json") or "/" in name or isdir(name):  # noqa: PTH112
        from mathlib.from_config import from_config

        return from_config(name)
    specs.refuse_uncovered("model", name)
    return specs.find_model(named("models", "model", name))


def _gpt2_of(shape: dict[str, Any]) -> Model:
    """A GPT-2 of another shape; heads as wide as its own unless their number is given."""
    if not {"layers", "width"} <= set(shape):
        raise InputError(
            "model: expected a name that `mathlib models` lists, a config.json, or a shape "
            "(--layers 24 --width 1024)"
        )
    base, layers, width = specs.find_model("gpt2"), shape["layers"], shape["width"]
    if "heads" not in shape and width % base.head_dim:
        raise InputError(
            f"width = {width}: no multiple of {base.head_dim}, so --heads is needed too"
        )
    return base.but(**{"heads": width // base.head_dim} | shape, name=f"GPT of {layers} x {width}")


def add_layout(parser: ArgumentParser) -> None:
    group = parser.add_argument_group(
        "layout", "devices = data x context x tensor x pipeline, each of them 1 if not given"
    )
    for name, what in DEGREES.items():
        default = None if name in ("shard", "expert_tensor", "micro_batches") else 1
        group.add_argument(spelled(name), type=NUMBER, metavar="N", default=default, help=what)
    group.add_argument(
        "--context-parallel",
        type=NUMBER,
        metavar="N",
        default=1,
        help="devices that share every sequence",
    )
    group.add_argument(
        "--zero", type=NUMBER, default=0, metavar="STAGE", help="ZeRO stage: 0, 1, 2 or 3"
    )
    group.add_argument(
        "--sequence-parallel",
        action="store_true",
        help="split along the sequence what tensor leaves whole",
    )
    add_recompute(group)


def add_recompute(group: Any) -> None:
    """To a parser, or to a group of its options."""
    group.add_argument(
        "--recompute",
        default="none",
        metavar="KIND",
        help="none, selective or full; none if not given",
    )


def add_launch(parser: ArgumentParser) -> None:
    """Flags of other programs, read as they are; `mathlib.cli.launches` reads them."""
    group = parser.add_argument_group(FLAGS)
    group.add_argument(
        "--megatron",
        metavar="FLAGS",
        help='of Megatron-LM, in quotes: "--tensor-model-parallel-size 8 ..."',
    )
    parser.set_defaults(**dict.fromkeys((*FROM_FLAGS, *OVERLAPS)))  # of such flags alone
    group.add_argument("--deepspeed", metavar="PATH", help="DeepSpeed's JSON file")
    group.add_argument(
        "--torchrun",
        metavar="LINE",
        help="a line of torchrun, deepspeed or accelerate launch, in quotes",
    )
    group.add_argument("--accelerate", metavar="PATH", help="the YAML of `accelerate config`")
    group.add_argument("--torchtitan", metavar="PATH", help="torchtitan's TOML file")
    group.add_argument(
        "--bridge",
        metavar="FIELDS",
        help="of a Megatron-Bridge recipe, as key=value in quotes, or a file of them",
    )


def layout_of(args: Typed, model: Model, uneven: bool = False) -> Layout:
    """The layout that was typed; what of it has no effect is refused. `uneven`: stages need not
    have equally many layers.
    """
    names = ("data", "tensor", "pipeline", "chunks", "expert", "micro_batch")
    sizes: dict[str, Any] = {name: getattr(args, name) for name in names}
    sizes["context"] = args.context_parallel
    m = sizes["pipeline"] if args.micro_batches is None else args.micro_batches
    how: dict[str, Any] = {"zero": args.zero, "sequence_parallel": args.sequence_parallel}
    rest: dict[str, Any] = {"shard": args.shard or 0, "expert_tensor": args.expert_tensor or 0}
    lay = Layout(**sizes, **how, **rest, micro_batches=m, recompute=args.recompute)
    tensor_degree(model, lay.tensor)
    if uneven:
        chunk_layers(model.layers, lay.pipeline, lay.chunks)
    elif lay.chunks > 1:
        lay.layers_of_stage(model.layers)
    else:
        try:
            divides("pipeline", lay.pipeline, "layers", model.layers)
        except InputError as refusal:
            also = spreads(model.layers, lay.pipeline)
            words = "; `mathlib memory` and `time` give some stages a layer fewer" if also else ""
            raise InputError(f"{refusal}{words}") from None
    refuse_idle(args, lay, experts=bool(model.experts))
    return lay


def refuse_idle(args: Typed, lay: Layout, *, experts: bool) -> None:
    """Refuse what was typed and changes nothing in a layout; another program's flag is ignored."""
    for name, why in _idle(args, lay, experts).items():
        if name in args.given:
            raise InputError(f"{name} = {getattr(args, name)}: no effect {why}; leave it out")
        if name in args.read:
            args.ignored.append(args.read.pop(name))


def _idle(args: Typed, lay: Layout, experts: bool) -> dict[str, str]:
    """Options that change nothing in a layout, and why."""
    idle = {}
    if lay.zero and lay.replicas == 1:
        idle["zero"] = "on one replica, as there is nothing to shard over (--data 8)"
    if not lay.zero:
        idle["shard"] = "without ZeRO (--zero 1, 2 or 3)"
    if lay.tensor == 1:
        idle["sequence_parallel"] = "without tensor parallelism (--tensor 8)"
        idle["expert_tensor"] = "without tensor parallelism (--tensor 8)"
    if not experts:
        idle["expert_tensor"] = "on a model without experts"
    return {name: why for name, why in idle.items() if getattr(args, name)}


def add_device(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--memory",
        type=room,
        metavar="SIZE",
        help="of a device, such as 80GB or 80GiB: says whether it fits",
    )
    parser.add_argument(
        "--device", metavar="NAME", help="the same, by a name that `mathlib devices` lists"
    )


def add_reserve(where: "_ActionsContainer", usual: str = "4GB") -> None:
    where.add_argument(
        "--reserve",
        type=room,
        metavar="SIZE",
        help=f"left free for context, buffers and fragments; {usual} if not given",
    )


def reserve_of(args: Typed, memory: float, program: str = "usual") -> float:
    """Bytes of a device that stay free: those that were typed, or what the program needs."""
    if args.reserve is not None:
        return float(non_negative("reserve", args.reserve))
    from mathlib.memory.reserve import find_reserve

    return find_reserve(program).of(memory)


def device_of(args: Typed) -> Device | float | None:
    """Where it has to fit, if that was said."""
    if args.device and args.memory is not None:
        raise InputError(f"--device {args.device}: has a memory of its own; leave --memory out")
    if args.device:
        return specs.find_device(named("devices", "device", args.device))
    return None if args.memory is None else float(args.memory)


def add_dtype(where: "_ActionsContainer") -> None:
    where.add_argument(
        "--dtype",
        metavar="TYPE",
        help="number type whose peak counts; bf16, or fp16 of a device without, if not given",
    )


def peak_of(args: Typed, device: Device) -> float:
    """The dense peak that counts, FLOP/s."""
    return device.half if args.dtype is None else device.flops_per_second(args.dtype)


def add_depth(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--depth",
        type=NUMBER,
        default=2,
        metavar="N",
        help="levels of parts in the table; 2 if not given",
    )
