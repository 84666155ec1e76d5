"""Every argument of every public function of memory and communication: what is no value is refused,
by name.
"""

import importlib
import inspect
import math
import types
import typing

import pytest

from mathlib.checks import InputError
from mathlib.specs import Layout, Model

MODULES = [
    "memory.precision",
    "memory.states",
    "memory.fit",
    "memory.moments",
    "memory.inference",
    "memory.activations",
    "memory.estimators",
    "traffic.comm",
    "traffic.volumes",
    "traffic.mesh",
    "compute.batches",
]
MODEL = Model("small", layers=4, width=64, heads=4, vocab=100, context=32)
EXAMPLES: dict[str, object] = {
    "dtype": "bf16",
    "recipe": "mixed-adam",
    "base": "nf4",
    "shapes": [(4, 6)],
    "block": 64,
    "scale_bits": 8,
    "scale": "fp32",
    "rolling": True,
    "second_block": 256,
    "second_bits": 32,
    "model": MODEL,
    "layout": Layout(),
    "parameters": 1e9,
    "trainable": 1e6,
    "zero": 2,
    "shard": 4,
    "tensor": 2,
    "pipeline": 2,
    "data": 8,
    "stage": 1,
    "chunks": 2,
    "micro_batch": 2,
    "micro_batches": 4,
    "tokens": 16,
    "sequences": 2,
    "recompute": "full",
    "attention": "flash",
    "dropout": False,
    "bytes_per_element": 2,
    "fused_gate": True,
    "small_tensors": True,
    "autocast": True,
    "optimizer": "for-loop",
    "loss": "fused",
    "ddp_buckets": "copy",
    "accumulation": True,
    "sequence_parallel": True,
    "index": 1,
    "schedule": "gpipe",
    "logits_bytes": 4,
    "layers": 4,
    "width": 64,
    "elements": 12,
    "memory": 80e9,
    "needed": 1e9,
    "reserve": 1e9,
    "vary": "shard",
    "weights_only": True,
    "binary": True,
    "buffers": {"context": 1e9},
    "devices_per_node": 8,
    "nodes": 2,
    "offload": "none",
    "version": "code",
    "buffer_factor": 1.5,
    "largest_layer": 1e8,
    "zero_init": False,
    "distributed_optimizer": True,
    "buffer_bytes": 8.0,
    "size": 1e9,
    "collective": "all-reduce",
    "payload": 1e6,
    "ranks": 8,
    "algorithm": "tree",
    "bandwidth": 1e9,
    "latency": 1e-6,
    "levels": [4, 2],
    "bandwidths": [1e9, 1e8],
    "latencies": [1e-6, 1e-5],
    "seconds": 1.0,
    "bus_bandwidth": 1e9,
    "regather": True,
    "large_group": True,
    "scatter_gather": True,
    "weight_bytes": 2,
    "gradient_bytes": 4,
    "stage_one": "all-reduce",
    "each_micro_batch": False,
    "keep_gathered": True,
    "quantised_weights": False,
    "node_copy": False,
    "quantised_gradients": False,
    "warm_up": 0.2,
    "bits": 1,
    "full_bits": 16,
    "flops_per_second": 1e14,
    "compute": 1.0,
    "communication": 2.0,
    "overlap": 0.5,
    "world": 16,
    "tp": 2,
    "pp": 2,
    "cp": 1,
    "ep": 2,
    "order": "tp-cp-ep-dp-pp",
    "axes": ["a", "b"],
    "dims": [2, 4],
    "first": 0,
    "second": "tree",
    "pieces": [1, 2, 3],
    "rank": 0,
    "context": 2,
    "per_replica": 2,
}
OWN: dict[str, dict[str, object]] = {
    "activations.stage": {
        "stage": 0,
        "layout": Layout(tensor=2, recompute="selective"),
        "schedule": "1f1b",
    },
    "activations.ends_in_flight": {"schedule": "1f1b"},
    "activations.layers_of": {"stage": 0},
    "activations.layer": {"recompute": "none"},
    "states.stage_parameters": {"stage": 0},
    "fit.training": {"stage": 0},
    "moments.moments": {"stage": 0},
    "comm.bus_factor": {"ranks": 8},
    "fit.smallest": {"layout": Layout(data=4)},
    "comm.crossover": {"first": "ring"},
    "comm.faster": {"first": "ring"},
    "mesh.hierarchical_groups": {"ranks": 8},
    "batches.scheduled_tokens": {"schedule": [(4, 2)]},
    "precision.bytes_per_parameter": {"recipe": "adafactor"},
    "estimators.deepspeed_zero2": {"offload": "optimizer"},
}
ZERO_IS_FINE = {
    "latency",
    "overlap",
    "compute",
    "communication",
    "payload",
    "buffer_bytes",
    "reserve",
    "needed",
    "logits_bytes",
    "block",
    "second_block",
    "stage",
    "index",
    "zero",
    "first",
    "layers",
    "micro_batches",
    "shard",
    "rank",
}  # 0 layers, shards, blocks: take the default
NO_NUMBER = [-1, math.nan, math.inf, -math.inf, 10**400, True, "7", [1], 1j]
SKIPPED = {"pieces", "shapes", "changes", "activation", "options", "batch", "coordinates", "mesh"}


def public_functions() -> typing.Iterator[tuple[str, typing.Any]]:
    for module in MODULES:
        found = importlib.import_module(f"mathlib.{module}")
        for name, function in inspect.getmembers(found, inspect.isfunction):
            if not name.startswith("_") and function.__module__ == found.__name__:
                yield f"{module.split('.')[-1]}.{name}", function


FUNCTIONS = {
    which: function
    for which, function in public_functions()
    if which not in ("mesh.embedding_groups",)
}
ARGUMENTS = [
    (which, name)
    for which, function in FUNCTIONS.items()
    for name in inspect.signature(function).parameters
    if name not in SKIPPED
]


def called(which: str, **changed: object) -> object:
    arguments, by_place = dict(changed), []
    for name, one in inspect.signature(FUNCTIONS[which]).parameters.items():
        if one.kind is one.VAR_KEYWORD:
            continue
        value = arguments.pop(name, OWN.get(which, {}).get(name, EXAMPLES[name]))
        if one.kind is one.POSITIONAL_OR_KEYWORD:
            by_place.append(value)
        else:
            arguments[name] = value
    if which == "batches.batch_tokens":
        arguments |= {"world": 16, "per_replica": 2}
    return FUNCTIONS[which](*by_place, **arguments)


def accepted_types(function: typing.Any, name: str) -> set[object]:
    kind = typing.get_type_hints(function)[name]
    kinds = (
        set(typing.get_args(kind))
        if typing.get_origin(kind) in (types.UnionType, typing.Union)
        else {kind}
    )
    return {typing.get_origin(one) or one for one in kinds}


@pytest.mark.parametrize("which", FUNCTIONS)
def test_the_examples_are_good(which: str) -> None:
    called(which)
    assert FUNCTIONS[which].__doc__


@pytest.mark.parametrize(
    ("which", "name"), ARGUMENTS, ids=[f"{which}-{name}" for which, name in ARGUMENTS]
)
def test_a_bad_argument_is_refused_by_name(which: str, name: str) -> None:
    kinds = accepted_types(FUNCTIONS[which], name)
    bad: list[object] = ["no such thing", 3, None, True]
    if kinds & {int, float}:
        bad = [value for value in NO_NUMBER if not (isinstance(value, str) and str in kinds)]
        bad += ([] if name in ZERO_IS_FINE else [0]) + ([2.7] if int in kinds else [])
        bad += [] if types.NoneType in kinds else [None]
    elif bool in kinds:
        bad = ["yes", 2, None]
    elif str not in kinds:
        bad = ["no such thing", 3, [None], [0]]
    for value in bad:
        if value is None and types.NoneType in kinds:  # the model's own
            continue
        with pytest.raises(InputError, match=name):
            called(which, **{name: value})
