"""Every public function of the formulas, found by itself, with an example of each argument.

A new function needs no line here while its arguments' names are known; a test says which are not.
"""

import importlib
import inspect
import pkgutil
import types
import typing

import mathlib
from mathlib.compute.reported import find_run
from mathlib.compute.roofline import Operation
from mathlib.compute.vision import Tower
from mathlib.memory import kept
from mathlib.memory.saved_tensors import Saving
from mathlib.parts import Parts
from mathlib.plan.calibration import Rates
from mathlib.plan.gap import Run
from mathlib.plan.step import machine
from mathlib.schedule.cluster import Cluster
from mathlib.schedule.events import Send, Wait
from mathlib.schedule.flush import gpipe
from mathlib.schedule.times import Times
from mathlib.specs import Experts, Layout, Model, Window, find_cluster
from mathlib.traffic.mesh import megatron

ROOMS = ("compute", "memory", "traffic", "schedule", "plan")
BASE = ("layout", "specs", "units", "from_config.read")
MODEL = Model("small", layers=4, width=64, heads=4, vocab=100, context=32)
MACHINE = machine(MODEL, find_cluster("dgx-a100"), Rates())
RUN = Run(MACHINE, Layout(), 1.0)
EXAMPLES: dict[str, object] = {
    "signed": True,
    "sizes": [4.0, 2.0, 6.0],
    "lengths": [5, 9, 2],
    "tower": Tower(layers=2, width=48, heads=3, ffn_width=160, image=32, patch=8),
    "text_width": 64,
    "images": 2,
    "room": 16,
    "blocks": True,
    "step": 0.001,
    "start": 1.0,
    "rounding": "nearest",
    "dtype": "bf16",
    "host": "AMD",
    "recipe": "mixed-adam",
    "base": "nf4",
    "shapes": [(4, 6)],
    "block": 64,
    "scale_bits": 8,
    "scale": "fp32",
    "rolling": True,
    "magnitude": True,
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
    "bytes_per_parameter": 2,
    "acceptance": 0.8,
    "ahead": 4,
    "draft_time": 0.1,
    "device": "a100-80gb",
    "fused_gate": True,
    "expert_results": False,
    "small_tensors": True,
    "autocast": True,
    "separate": True,
    "optimizer": "for-loop",
    "loss": "fused",
    "ddp_buckets": "copy",
    "accumulation": True,
    "sequence_parallel": True,
    "index": 1,
    "schedule": "gpipe",
    "logits_bytes": 4,
    "loss_bytes": 4,
    "layers": 4,
    "backward": 0.1,
    "bucket": 1e6,
    "first_bucket": 1e5,
    "binary": True,
    "digits": 3,
    "n": 4,
    "stages": 2,
    "steps": 10,
    "time_between_failures": 1e9,
    "time_per_failure": 600.0,
    "time_between_saves": 3600.0,
    "time_per_save": 60.0,
    "time_behind": 60.0,
    "storage_bandwidth": 1e10,
    "method": "daly",
    "tensors": (4, 4, 1, 3),
    "config": {
        "model_type": "llama",
        "hidden_size": 64,
        "num_attention_heads": 4,
        "num_hidden_layers": 2,
        "intermediate_size": 128,
        "vocab_size": 100,
        "max_position_embeddings": 32,
    },
    "width": 64,
    "elements": 12,
    "bucket_bytes": 1e6,
    "in_flight": 2,
    "prefetch": 1,
    "keep_half": True,
    "forward": 0.05,
    "times": [1.0, 2.0, 3.0],
    "split": [2, 1],
    "flush": True,
    "weights": 1e6,
    "gradients": 1e6,
    "outside": 1e5,
    "head": 0.01,
    "cluster": "p4d.24xlarge",
    "rank_tokens": 4096,
    "batch_tokens": 0,
    "micro_batch_tokens": 2048,
    "messages": 4,
    "share": 0.5,
    "late": 1,
    "most": 64,
    "gather_input": 1e6,
    "instance": "ml.p4d.24xlarge",
    "scratch_buffer": 8192,
    "sort_buffer_bytes": 16384,
    "asked": "auto",
    "memory": 80e9,
    "needed": 1e9,
    "reserve": 1e9,
    "vary": "shard",
    "weights_only": True,
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
    "ranks_per_node": 4,
    "algorithm": "tree",
    "bandwidth": 1e9,
    "latency": 1e-6,
    "behind": 0.5,
    "levels": [4, 2],
    "bandwidths": [1e9, 1e8],
    "latencies": [1e-6, 1e-5],
    "link_bandwidth": 1e9,
    "node_bandwidth": 1e8,
    "protocol": "LL128",
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
    "rank": 0,
    "context": 2,
    "per_replica": 2,
    "past": 3,
    "causal": False,
    "attention_backward": 2.5,
    "frozen": False,
    "convention": "counted",
    "early_stop": True,
    "last_matmul": False,
    "total_tokens": 1e9,
    "multiplier": 6,
    "heads": 4,
    "head_dim": 16,
    "vocab": 100,
    "rows": 2,
    "inner": 3,
    "columns": 4,
    "flop": 1e20,
    "devices": 8,
    "peak": 312e12,
    "achieved": 150e12,
    "utilization": 0.5,
    "tokens_per_second": 1e4,
    "before": 2.0,
    "after": 1.0,
    "work": 2.0,
    "device_hours": 100.0,
    "watts": 400,
    "pue": 1.1,
    "energy_kwh": 50.0,
    "kg_per_kwh": 0.4,
    "price_per_hour": 2.0,
    "spot_price_per_hour": 1.0,
    "clock": 1e9,
    "fused_per_clock": 64,
    "cores": 100,
    "embedding": True,
    "logits": True,
    "softmax": True,
    "embeddings": "both",
    "targets": ("query", "value"),
    "without": ("head",),
    "window": Window(4),
    "pattern": 3,
    "fused": True,
    "way": "both",
    "intensity": 10.0,
    "moved": 1e9,
    "launch": 1e-5,
    "processors": 132,
    "operations": [Operation("up", "mlp", 1e9, 1e6)],
    "value": 1.5,
    "values": [1.0, 2.0],
    "overflow": "largest",
    "expert": 2,
    "policy": "matmuls",
    "points": 5,
    "limit": 1e6,
    "budget": 1e7,
    "bytes_per_second": 2e12,
    "every": 2,
    "keep": ("values",),
    "choice": kept.layer(MODEL, keep=("values",)),
    "program": "fsdp",
    "precision": "fp8",
    "rates": Rates(),
    "on": MACHINE,
    "executed": True,
    "fit": "muennighoff",
    "target_loss": 2.5,
    "inference_tokens": 1e12,
    "unique_tokens": 1e10,
    "device_time_between_failures": 1e9,
    "device_time_between_withdrawals": 1e8,
    "fails_while_down": False,
    "goodput": 0.9,
    "goodput_with_withdrawals": 0.8,
    "factor": 2,
    "failures": 10,
    "spread": 0.05,
    "chance": 0.01,
    "seed": 1,
    "co2": 100.0,
}
KEPT_TO = {"only": {"zero": 0}, "at_most": {"tensor": 4}}
SCHEDULE = gpipe(stages=2, micro_batches=4)
# Where a name means different things, and where a function needs more than one of them to fit.
OWN: dict[str, dict[str, object]] = {
    "inference.paged": {"tokens": [5, 9]},
    "activations.stage": {
        "stage": 0,
        "layout": Layout(tensor=2, recompute="selective"),
        "schedule": "1f1b",
    },
    "activations.ends_in_flight": {"schedule": "1f1b"},
    "activations.layers_of": {"stage": 0},
    "activations.layer": {"recompute": "none"},
    "activations.kept_by": {"how": Saving("flash")},
    "states.stage_parameters": {"stage": 0},
    "owners.by_way": {"way": "flat, dealt", "momentum": 2},
    "matrix_states.elsewhere": {"stage": 0, "recipe": "mixed-muon", "layout": Layout()},
    "matrix_updates.adapted_norms": {"rank": 8},
    "matrix_updates.share": {"batch_tokens": 4096},
    "packing.rows": {"way": "packed"},
    "packing.slots": {"way": "packed"},
    "packing.pairs": {"way": "packed"},
    "preference.phases": {
        "method": "ppo",
        "scorer": "llama3-8b",
        "recompute": "full",
        "offload": False,
    },
    **{
        f"adapters.{name}": {
            **{"model": "llama3-8b", "targets": ("query",), "recompute": "full"},
            **{"rank": 8, "adapter_bytes": 4, "quantised": True},
            **{"first": False, "fused_loss": False},
        }
        for name in ("layer", "activations", "training")
    },
    "adapters.sharded": {"model": "llama3-8b", "whole_bits": False, "rank": 8, "zero": 3},
    "preference.split": {"method": "ppo", "writers": 1},
    "fit.training": {"stage": 0},
    "one_device.moments": {"stage": 0},
    "comm.bus_factor": {"ranks": 8},
    "volumes.context_parallel": {"method": "ring"},
    "ring_order.places": {"order": "zigzag", "ranks": 4, "rank": 1, "tokens": 16},
    "ring_order.look": {"order": "zigzag", "rank": 1, "source": 0, "own": 4},
    "ring_order.scores": {"order": "plain", "rank": 1, "source": 0, "own": 4},
    "ring_order.step_scores": {"order": "plain", "ranks": 4, "tokens": 16},
    "expert_load.by_rank": {"visits": [3, 1, 2, 2], "expert": 2},
    "expert_load.imbalance": {"loads": [3, 1]},
    "expert_load.waiting": {"layers": [[3, 1], [2, 2]]},
    "expert_load.ranks_visited": {"experts": 8, "active": 2, "ranks": 4},
    "expert_time.ratio": {"ffn_width": 64, "expert": 2, "achieved": 4e14, "bandwidth": 5e10},
    "expert_load.dropped": {"visits": [3, 1, 2, 2], "room": 2.0},
    "expert_load.drawn": {"experts": 4, "active": 2, "skew": 1.0, "seed": 1},
    "events.run": {
        "programs": [[Send(1, 8.0)], [Wait(0)]],
        "cluster": Cluster((1, 1)),
        "shared_ports": False,
        "rendezvous": False,
        "record": False,
    },
    "comm.ring_steps": {"chunks": [1, 2, 3]},
    "programs.after": {"parts": [[[Wait(1)], []], [[], [Send(0, 8.0)]]]},
    "programs.pipeline": {"schedule": gpipe(stages=2, micro_batches=4), "times": Times()},
    "programs.work": {"seconds": [1.0, 2.0]},
    "programs.ring": {"members": [0, 1], "passes": "both", "element": 4},
    "programs.hierarchical": {"ranks": 4, "ranks_per_node": 2, "element": 4},
    "shares.by_speed": {"things": 8, "speeds": (1.0, 2.0)},
    "shares.slowest": {"counts": [3, 5], "speeds": (1.0, 2.0)},
    "waits.used": {"speeds": (1.0, 2.0)},
    "waits.some_slow": {"ranks": 8, "chance": 0.1},
    "waits.step": {"ranks": 8, "chance": 0.1, "times": 1.5},
    "waits.flushed": {"seconds": (1.0, 2.0), "micro_batches": 4},
    "shares.by_room": {"numbers": 8, "rooms": (1.0, 2.0)},
    "compressed.low_rank": {"rank": 2},
    "compressed.break_even": {"full": 4e9, "less": 1e9, "seconds": 0.1, "hidden": 0.5},
    "compressed.utilization": {"compute": 1.0, "sending": 2.0},
    "compressed.local_steps": {"fragments": 2},
    "compressed.largest": {"kept": 1e4, "number_bytes": 2},
    "compressed.coded": {"numbers": 1e6, "bits": 8},
    "ring_ends.ring_ends": {"costs": [1.0, 2.0], "begins": [0.0, 0.0], "steps": 2},
    "ring_ends.all_reduce_ends": {
        "cluster": Cluster((1, 1)),
        "begins": None,
        "hierarchical": True,
        "shared_ports": False,
    },
    "ring_time.timeline": {
        "order": "plain",
        "ranks": 4,
        "tokens": 16,
        "block": 1.0,
        "message": 0.1,
    },
    "ring_time.hidden_tokens": {"order": "zigzag", "achieved": 4e14, "bandwidth": 5e10},
    "ring_order.efficiency": {"order": "plain", "ranks": 4, "tokens": 16},
    "zero_rank.moments": {"layout": Layout(data=4, zero=2), "scatter": "all-to-all"},
    "degree.choose": {"layout": Layout(data=4)},
    "zero_rank.peak": {"layout": Layout(data=4, zero=3)},
    "comm.crossover": {"first": "ring"},
    "comm.faster": {"first": "ring"},
    "mesh.hierarchical_groups": {"ranks": 8},
    "precision.bytes_per_parameter": {"recipe": "adafactor"},
    "estimators.deepspeed_zero2": {"offload": "optimizer"},
    "params.lora": {"rank": 4},
    "roofline.rows_to_ridge": {"inner": 1024, "columns": 1024, "bandwidth": 2e12},
    "cost.utilization": {"seconds": 1e6},
    "scaling.errors": {"fit": "hoffmann-3"},
    "interruptions.find_record": {"name": "OPT-175B, 992 A100"},
    "vendors.find_measured": {"name": "Llama 3 8B, 8 MI300X"},
    "vendors.gap": {"first": "Llama 3 8B, 8 MI300X", "second": "Llama 3 8B, 8 H100"},
    "vendors.beside": {"device": "mi300x", "other": "h100-sxm"},
    "papers.palm_per_token": {"attention": "full"},
    "conventions.find_convention": {"name": "nemo"},
    "conventions.training_flop": {"convention": "nemo"},
    "conventions.counted": {"tokens_per_second": 1e4},
    "conventions.tokens_per_second": {"convention": "nemo", "rate": 4e14},
    "reported.find_run": {"name": "MT-NLG 530B, 3,360 A100"},
    "reported.utilizations": {"run_": find_run("MT-NLG 530B, 3,360 A100")},
    "specs.find_cluster": {"name": "dgx-h100"},
    "specs.find_device": {"name": "h100-sxm"},
    "specs.find_model": {"name": "gpt2"},
    "specs.table": {"kind": "models"},
    "specs.titled": {"kind": "models", "names": ["gpt2"]},
    "units.parse": {"name": "payload", "value": "2 GB", "kind": "byte"},
    "units.show": {"value": 2e9, "kind": "byte"},
    "sweeps.find_sweep": {"name": "13b-2k-32"},
    "ways.ways": {"node": 8, "sequences": 8, "devices": 4},
    "search.search": {
        "sequences": 8,
        "devices": 4,
        "risk": 0.5,
        "variants": False,
        "first": False,
        "tell": print,
    }
    | KEPT_TO,
    "planner.fewest": {"within": 1e3, "least_devices": 1, "most_devices": 8},
    "planner.longest": {"devices": 2, "multiple": 8, "most_tokens": 16},
    "planner.largest": {"devices": 2, "what": "sequences", "risk": 0.5} | KEPT_TO,
    "published_runs.alike": {"runs": []},
    "simplest.decide": {"sequences": 8, "devices": 4, "tolerance": 0.1, "risk": 0.5},
    "simplest.simplest": {"ways": [(Layout(), 1.0, "it")], "tolerance": 0.1},
    "sweeps.find_printed": {"name": "nemo-llama3-8b"},
    "rent.find_price": {"name": "hyperstack-h100-pcie"},
    "tensor_time.ring_bandwidth": {"cluster": find_cluster("dgx-a100")},
    "machine.host_of": {"cluster": find_cluster("dgx-a100")},
    "planner.why": {"other": Layout()},
    "planner.verdict": {"reserve": 0.0},
    "gap.between": {"mine": RUN, "other": RUN},
    "gap.changes": {"mine": RUN, "other": RUN},
    "machine.machine": {
        **{"cluster": find_cluster("dgx-a100"), "device": None, "host": None, "adapters": None}
    },
    "calibration.find_rates": {"device": "h100-sxm"},
    "calibration.out_of_memory": {"needed": 1e9, "memory": 80e9},
    "calibration.most_needed": {"memory": 80e9, "risk": 0.1},
    "calibration.interval": {"seconds": 1.0, "device": "h100-sxm", "least": 0.5},
    "calibration.reach": {"device": "h100-sxm"},
    "by_axis.by_axis": {"layout": Layout(tensor=2, data=2, pipeline=2), "gradient_bytes": 4},
    "mesh.of_layout": {"layout": Layout(tensor=2), "experts": True},
    "mesh.neighbours": {"size": 8, "stride": 2, "node": 8},
    "volumes.expert_parallel": {
        "model": MODEL.but(experts=Experts(8, 2, 64)),
        "expert_tensor": 2,
        "capacity": 1.25,
    },
    "mesh.embedding_groups": {"mesh": megatron(world=8, pp=2), "pipeline": "pp"},
    "rounding.error": {"order": "ring"},
    "hierarchical.all_gather": {"order": "ring"},
    "hierarchical.reduce_scatter": {"order": "ring"},
    "hierarchical.step": {"gather": "ring", "scatter": "ring"},
    "bits.block": {"scale": "bf16"},
    "nccl.time": {"split": True},
    "check.validate": {"schedule": SCHEDULE, "posted": 1},
    "check.receives_to_post": {"schedule": SCHEDULE},
    "check.tags_needed": {"schedule": SCHEDULE},
    "check.refuse_strangers": {"schedule": SCHEDULE},
    "simulate.simulate": {"schedule": SCHEDULE, "times": Times()},
    "simulate.until_stuck": {"schedule": SCHEDULE, "times": Times()},
    "bubble.idle": {"order": "zb-h1", "chunks": 1, "forward": 1.0, "backward": 2.0, "weight": 1.0},
    "bubble.pace": {"message": 0.5, "ahead": 1},
    "bubble.interleaved_step": {"message": 0.02},
    "bubble.held": {"order": "breadth-first"},
    "bubble.versions": {"order": "pipedream"},
    "partition.by_time": {"embedding": 0.01},
    "partition.by_device": {
        "times": [1.0, 2.0],
        "speeds": [1.0, 0.5],
        "rooms": [9.0, 9.0],
        "sizes": [1.0, 1.0],
        "kept": [1.0, 1.0],
    },
    "partition.passed_with_tower": {"model": "llama3-8b", "split": [4, 30], "tokens": 2048},
    "partition.stage_bytes": {"layout": Layout(pipeline=2), "split": [2, 2]},
    "partition.stage_times": {"embedding": 0.01},
    "orders.make": {"order": "1f1b"},
    "zero_bubble.dualpipe": {"stages": 2},
    "flush.one_forward_one_backward": {"ahead": 2},
    "interleaved.interleaved": {"round_size": 2, "ahead": 1},
    "flush.two_versions": {"accumulate": 2},
    "weights.versions": {"schedule": SCHEDULE},
    "weights.versions_kept": {"schedule": SCHEDULE},
    "bill.device_time": {"micro_batches": 4, "gradient_bytes": 1e9, "devices": 8},
}
INSIDE = {  # steps of the formulas beside them, which check what they are given
    "activations": "sequence_length",
    "calibration": "chance_over joined reach_in",
    "flops": "all_pairs head_dims",
    "layer_time": "layer_seconds pass_seconds",
    "one_device": "accumulates in_gib tensor_sizes update_kernel",
    "overlap": "seconds_of",
    "saved_tensors": "has_experts layer_tensors norm_bytes saving_of shares",
    "search": "axis_values bytes_at_risk bytes_left choice_of layout_of memory_of ways_within "
    "whole_devices",
    "states": "layer_parameters on_device",
    "step": "least_seconds seconds_of times_of",
    "ways": "families_of meshes_of of_mesh sharded",
    "wording": "",
}
STEPS = [f"{m}.{name}" for m, names in INSIDE.items() for name in names.split(" ")]
LEFT_OUT = dict.fromkeys(STEPS, "a step") | {  # and why
    "work.": "amounts for a search, which checks nothing; tests/plan/test_work.py",
    "autodiff": "steps of the engine, on matrices; tests/compute/test_autodiff.py",
    "zero_bubble.in_turn": "reads words that an order has made; tests/schedule/test_zero_bubble.py",
    "flush.alternate": "deals out two lists that an order has made; tests/schedule/test_flush.py",
    "specs.refuse_uncovered": "a refusal itself",
    "adapted.refuse_split": "a refusal itself",
    "specs.row_as": "called with a class; what finds a cluster, a run, a record is tried",
    "layout.tensor_degree": "called with a Model and a checked degree",
    "layout.expert_degree": "called with a Model and a Layout",
}
REST = {
    "orders.make": {"stages": 2, "micro_batches": 4},
}  # what goes through **keywords


def modules() -> list[types.ModuleType]:
    """The modules of formulas, and those of the house's own words that take a user's arguments."""
    names = [m.name for m in pkgutil.walk_packages(mathlib.__path__, "mathlib.") if not m.ispkg]
    rooms = tuple(f"mathlib.{room}." for room in ROOMS)
    base = {f"mathlib.{module}" for module in BASE}
    wanted = [name for name in names if name.startswith(rooms) or name in base]
    return [importlib.import_module(name) for name in wanted]


FUNCTIONS: dict[str, typing.Any] = {
    f"{module.__name__.rpartition('.')[2]}.{name}": function
    for module in modules()
    for name, function in inspect.getmembers(module, inspect.isroutine)
    if name[0] != "_" and getattr(function, "__module__", "") == module.__name__
}
for left_out in LEFT_OUT:
    for found in [which for which in FUNCTIONS if which.startswith(left_out)]:
        del FUNCTIONS[found]


def example(which: str, name: str) -> object:
    """A right value of an argument: the function's own, else that of its name."""
    own = OWN.get(which, {})
    assert name in own or name in EXAMPLES, (
        f"{which} takes {name}: add a right value for it to EXAMPLES of tests/helpers/formulas.py"
    )
    return own.get(name, EXAMPLES.get(name))


def called(which: str, **changed: object) -> typing.Any:
    """The function's answer to its examples, some of them changed."""
    arguments, by_place = REST.get(which, {}) | changed, []
    for name, one in inspect.signature(FUNCTIONS[which]).parameters.items():
        if one.kind in (one.VAR_KEYWORD, one.VAR_POSITIONAL):
            continue
        value = arguments.pop(name) if name in changed else example(which, name)
        if one.kind is one.POSITIONAL_OR_KEYWORD:
            by_place.append(value)
        else:
            arguments[name] = value
    return FUNCTIONS[which](*by_place, **arguments)


def accepted_types(which: str, name: str) -> set[object]:
    """The types of an argument's hint: {int, NoneType} of `int | None`, {list} of `list[int]`."""
    kind = typing.get_type_hints(FUNCTIONS[which])[name]
    union = typing.get_origin(kind) in (types.UnionType, typing.Union)
    kinds = set(typing.get_args(kind)) if union else {kind}
    return {typing.get_origin(one) or one for one in kinds}


def part_names(parts: Parts) -> set[str]:
    """The names of all parts, those inside of parts too."""
    return {name for _, name, _ in parts.rows()}
