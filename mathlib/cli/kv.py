"""mathlib kv: the cache of keys and values, what it leaves room for, and how quickly it is read."""

from argparse import ArgumentParser, BooleanOptionalAction
from typing import Any

from mathlib.checks import InputError, positive
from mathlib.cli.amounts import NUMBER
from mathlib.cli.options import (
    add_device,
    add_model,
    add_reserve,
    add_tokens,
    device_of,
    model_of,
    reserve_of,
)
from mathlib.cli.registry import command
from mathlib.cli.text import Fact, answer, counted
from mathlib.cli.typed import Typed
from mathlib.specs import Device, Model


def kv_options(parser: ArgumentParser) -> None:
    add_model(parser)
    add_tokens(parser)
    parser.add_argument(
        "--sequences",
        type=NUMBER,
        default=1,
        metavar="N",
        help="sequences at once; 1 if not given",
    )
    parser.add_argument(
        "--bytes",
        type=NUMBER,
        default=2,
        metavar="N",
        help="of a number in the cache; 2 if not given",
    )
    parser.add_argument(
        "--weight-bytes",
        type=NUMBER,
        default=2,
        metavar="N",
        help="of a weight; 2 if not given",
    )
    parser.add_argument(
        "--tensor", type=NUMBER, default=1, metavar="N", help="devices that share the heads"
    )
    parser.add_argument(
        "--rolling",
        action=BooleanOptionalAction,
        default=True,
        help="keep the tokens of a sliding window alone, or all",
    )
    add_device(parser)
    add_reserve(parser, "a tenth, as vLLM leaves,")


@command(
    "kv",
    "bytes of the KV cache, the longest context, tokens a second",
    "kv llama3-70b --tokens 128k --sequences 4 --tensor 8 --device h100-sxm",
    "kv deepseek-v3 --tokens 32k",
    "kv llama2-7b --bytes 1 --memory 24GB",
    options=kv_options,
)
def kv_command(args: Typed) -> None:
    from mathlib.memory import inference

    model = model_of(args)
    how: dict[str, Any] = {
        "sequences": args.sequences,
        "bytes_per_element": args.bytes,
        "tensor": args.tensor,
        "rolling": args.rolling,
    }
    tokens = model.context if args.tokens is None else args.tokens
    cache = inference.kv_cache(model, tokens=tokens, **how)
    cache.title += f", {tokens:,} tokens of {counted(args.sequences, 'sequence')}, on each device"
    one = inference.kv_cache(model, tokens=1, **how | {"sequences": 1})
    facts: list[Fact] = [("first token of a sequence", one.total, "byte")]
    there = device_of(args)
    if there is None:
        return answer(args, cache, facts)
    verdict, more = _beside_weights(args, model, cache.total, there, how)
    answer(args, cache, facts + more, verdict=verdict)


def _beside_weights(
    args: Typed, model: Model, cache: float, there: Device | float, how: dict[str, Any]
) -> tuple[str, list[Fact]]:
    """Whether weights and cache fit, and the longest context that does."""
    from mathlib.compute import params
    from mathlib.memory import fit, inference

    weights = positive("weight_bytes", args.weight_bytes) * params.total(model) / args.tensor
    size = there.room if isinstance(there, Device) else there
    reserve = reserve_of(args, size, "vllm")
    verdict = fit.fits(weights + cache, there, reserve=reserve)
    facts: list[Fact] = [
        ("weights of a device", weights, "byte"),
        ("room", size, "byte"),
        ("left free for context, buffers and fragments", reserve, "byte"),
    ]
    free = verdict.memory - weights
    if free > 0:
        each = cache / args.sequences
        facts.append(("sequences at once, at most", int(free // each), ""))
        most = inference.tokens_within(model, size=free, **how)
        if most < float("inf"):
            facts.append(("longest context", int(most), "token"))
    if isinstance(there, Device):
        facts += _token_time(args, model, there)
    return str(verdict), facts


def _token_time(args: Typed, model: Model, device: Device) -> list[Fact]:
    """Seconds of a token at the end of such a context, and tokens a second; no message counted."""
    from mathlib.memory import decode_time

    sizes: dict[str, Any] = {"sequences": args.sequences, "tensor": args.tensor}
    sizes |= {"past": int(args.tokens or model.context) - 1}
    sizes |= {"bytes_per_parameter": args.weight_bytes, "bytes_per_element": args.bytes}
    try:
        step = decode_time.step(model, device, **sizes)
    except InputError:  # a window kept whole, which the time does not know
        return []
    each = decode_time.tokens_per_second(model, device, **sizes)
    return [
        ("next token, at least", step.total, "second"),
        ("tokens a second of a device, at most", each, "token"),
    ]
