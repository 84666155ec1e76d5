"""Every argument of every public formula: what is no value of it is refused, by name."""

import inspect
import math
import re
import types

from formulas import FUNCTIONS, accepted_types, called

from mathlib.checks import InputError

ZERO_IS_FINE = {
    "behind",
    "accumulate",
    "ahead",
    "draft_time",
    "past",
    "round_size",
    "block",
    "batch_tokens",
    "bucket_bytes",
    "buffer_bytes",
    "communication",
    "compute",
    "first",
    "first_bucket",
    "gradient_bytes",
    "gradients",
    "head",
    "index",
    "inference_tokens",
    "latency",
    "late",
    "least",
    "layers",
    "logits_bytes",
    "message",
    "micro_batch_tokens",
    "micro_batches",
    "needed",
    "outside",
    "overlap",
    "pattern",
    "payload",
    "prefetch",
    "rank",
    "rank_tokens",
    "reserve",
    "second_block",
    "shard",
    "source",
    "stage",
    "time_between_failures",
    "storage_bandwidth",
    "time_behind",
    "time_per_failure",
    ("bubble.idle", "weight"),
    ("compressed.break_even", "less"),
    ("compressed.break_even", "hidden"),
    ("compressed.utilization", "sending"),
    ("partition.by_time", "embedding"),
    ("partition.stage_times", "embedding"),
    ("goodput.time_for", "time_per_save"),
    ("goodput.time_if_waits_are_safe", "time_per_save"),
    ("goodput.shares", "time_between_saves"),
    ("interruptions.played_out", "time_per_save"),
    ("rent.paid", "device_time_between_withdrawals"),
    ("cost.intensity", "co2"),
    "seed",
    "spread",
    "zero",
    ("expert_load.dropped", "room"),
    ("expert_load.drawn", "skew"),
    ("volumes.expert_parallel", "capacity"),
    ("smddp.sort_buffer", "gather_input"),
    ("cost.co2_kg", "kg_per_kwh"),
    ("cost.price", "price_per_hour"),
    ("roofline.attainable", "intensity"),
    ("roofline.in_turn", "flop"),
    ("roofline.in_turn", "moved"),
    ("roofline.seconds", "flop"),
    ("roofline.seconds", "moved"),
    ("roofline.time", "launch"),
    ("units.pf_days", "flop"),
    "tolerance",
}  # 0 layers, shards, blocks: take the default
NO_NUMBER = [-1, math.nan, math.inf, -math.inf, 10**400, True, "7", [1], 1j]
FREE = {  # an argument that no check can refuse by its name, and why
    "activation": "passed on",
    "batch": "passed on",
    "changes": "passed on",
    "options": "passed on",
    "axes": "several of them",
    ("comm.ring_steps", "chunks"): "anything that can be divided",
    "shapes": "each is refused by what it holds",
    "mesh": "checked when it is made",
    "run_": "comes from the data",
    "binary": "of units.show, which prints",
    "digits": "of units.show, which prints",
    ("units.parse", "name"): "the word that a refusal uses",
    ("units.parse", "value"): "text is parsed; tests/base/test_units.py",
    ("units.show", "value"): "prints what it is given",
    ("bits.encode", "value"): "infinity is a number here; tests/memory/test_bits.py",
    ("bits.rounded", "value"): "infinity is a number here; tests/memory/test_bits.py",
    ("bits.spacing", "value"): "infinity is a number here; tests/memory/test_bits.py",
    ("rounded_sums.add_up", "start"): "below zero is fine; tests/memory/test_rounded_sums.py",
    ("rounded_sums.chance_up", "value"): "below zero is fine; tests/memory/test_rounded_sums.py",
    ("rounded_sums.neighbours", "value"): "below zero is fine; tests/memory/test_rounded_sums.py",
    ("rounding.chain", "n"): "checked by rounding.error",
    ("rounding.pairs", "n"): "checked by rounding.error",
}
SAID_AS = {  # a refusal speaks of what is looked up
    ("interruptions.find_record", "name"): "record",
    ("vendors.find_measured", "name"): "measured",
    ("vendors.gap", "first"): "measured",
    ("vendors.gap", "second"): "measured",
    ("reported.find_run", "name"): "run",
    ("conventions.find_convention", "name"): "convention",
    ("specs.find_cluster", "name"): "cluster",
    ("specs.find_device", "name"): "device",
    ("specs.find_model", "name"): "model",
    ("specs.table", "kind"): "table",
    ("specs.titled", "kind"): "table",
    ("mesh.embedding_groups", "pipeline"): "axis",
}
ARGUMENTS = [
    (which, name)
    for which, function in FUNCTIONS.items()
    for name in inspect.signature(function).parameters
    if name not in FREE and (which, name) not in FREE
]


def bad_values(which: str, name: str) -> list[object]:
    """Values that are none, for the types that the argument's hint names."""
    kinds = accepted_types(which, name)
    if kinds & {int, float}:
        bad = [value for value in NO_NUMBER if not (isinstance(value, str) and str in kinds)]
        if name not in ZERO_IS_FINE and (which, name) not in ZERO_IS_FINE:
            bad.append(0)
        bad += [2.7] if int in kinds and float not in kinds else []
    elif bool in kinds:
        bad = ["yes", 2]
    elif str in kinds:
        bad = ["no such thing", 3, True]
    else:
        bad = ["no such thing", 3, [None]]
    return bad if types.NoneType in kinds else [*bad, None]


def test_the_formulas_are_found():
    assert len(FUNCTIONS) > 100 and len(ARGUMENTS) > 300


def test_the_examples_are_good():
    for which in FUNCTIONS:
        called(which)
        assert FUNCTIONS[which].__doc__


def answer(which: str, name: str, value: object) -> str:
    """How a formula refuses, or what else comes of it."""
    try:
        return f"it returned {called(which, **{name: value})}"
    except InputError as refused:
        word = SAID_AS.get((which, name), name)
        return "" if re.search(word, str(refused)) else str(refused)
    except Exception as error:
        return repr(error)


def test_a_bad_argument_is_refused_by_name():
    tried = [(*one, value) for one in ARGUMENTS for value in bad_values(*one)]
    wrong = [(*one, said) for one in tried if (said := answer(*one))]
    assert not wrong
