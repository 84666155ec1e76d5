"""Runs that were published with their layouts, as the planner sees them, and what they measured.

b micro_batch · m micro_batches · p stages · t tensor · s tokens of a sequence
Taken from data/published: runs.csv has what the sources print, sweeps.csv the rest of four large
sweeps, sources.toml where, and what is taken for granted where they are silent.
"""

import csv
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from mathlib.checks import InputError, instance, listed
from mathlib.compute import flops
from mathlib.plan.room import Room, find_keeps
from mathlib.records import dataclass, replace
from mathlib.specs import Cluster, Device, Experts, Latent, Layout, Model, Window, find_device

HERE = Path(__file__).resolve().parents[1] / "data" / "published"
SPLIT = {"megatron-core", "megatron-core-plain", "fsdp", "nanotron"}  # sequence parallel if silent
DOMAIN = {"gb200": 72, "gb300": 72}  # devices that neighbours' links join
TPU_PODS = {"tpu-v5e": 256, "tpu-v6e": 256}
LATENT = Latent(kv_rank=512, query_rank=1536, rope_dim=64, nope_dim=128, value_dim=128)


@dataclass(frozen=True)
class Published:
    """One run: what it was, and what it took."""

    name: str
    source: str
    program: str
    model: Model
    device: Device
    cluster: Cluster
    layout: Layout
    tokens: int
    precision: str
    seconds: float  # of a step; 0: not measured
    memory: float  # bytes; 0: not measured
    fits: bool
    told: bool  # whether the source says enough of the layout to predict the time

    @property
    def same_but_layout(self) -> tuple[object, ...]:
        """Runs that are alike in this differ in nothing but their layouts."""
        lay, m = self.layout, self.model
        shape = (m.layers, m.width, m.vocab, self.tokens, lay.sequences, lay.world)
        return (self.source, *shape, self.precision, self.device.name)

    @property
    def needed(self) -> float:
        """Bytes on the fullest device, as the planner counts what its program keeps."""
        how: dict[str, Any] = {"keeps": find_keeps(self.program), "precision": self.precision}
        return Room(self.model, self.tokens, **how).total(self.layout)


def alike(runs: Iterable[Published]) -> list[list[Published]]:
    """Sets of runs that differ in nothing but their layouts.

    Chapter: planning
    """
    found = defaultdict(list)
    for run in listed("runs", runs):
        found[instance("runs", run, Published).same_but_layout].append(run)
    return list(found.values())


@cache
def _sources() -> dict[str, dict[str, dict]]:
    return tomllib.loads((HERE / "sources.toml").read_text("utf-8"))


@cache
def _device(name: str) -> Device:
    own = dict(_sources()["devices"].get(name, {}))
    if not own:
        return find_device(name)
    return replace(find_device(own.pop("like")), name=name, title=name, reported_memory=0, **own)


def _model_of(row: dict[str, str]) -> Model:
    """A model of the row's shape."""
    n = {key: int(float(row[key] or 0)) for key in COUNTS}
    mixture = None
    if n["experts"]:
        shared = n["shared_ffn"] // n["expert_ffn"] if n["shared_ffn"] else 0
        of = (n["experts"], n["top_k"], n["expert_ffn"])
        mixture = Experts(*of, shared=shared, dense_layers=n["dense_layers"])
    window = Window(n["window"], full_every=2 if n["window"] < 1000 else 6) if n["window"] else None
    return Model(
        row["model"],
        layers=n["layers"],
        width=n["width"],
        heads=n["heads"],
        kv_heads=n["kv_heads"],
        head_dim=n["head_dim"],
        ffn_width=n["ffn"] or 4 * n["width"],
        vocab=n["vocab"] or 128000,
        context=n["seq"] or 4096,
        gated=row["gated"] == "1",
        tied=row["tied"] == "1",
        positions="rotary",
        norm="rmsnorm" if row["gated"] == "1" else "layernorm",
        qkv_bias=row["gated"] == "0",
        output_bias=row["gated"] == "0",
        mlp_bias=row["gated"] == "0",
        dropout=False,
        attention="flash",
        latent=LATENT if row["mla"] == "1" else None,
        experts=mixture,
        window=window,
    )


COUNTS = (
    *("layers", "width", "heads", "kv_heads", "head_dim", "ffn", "vocab", "seq", "window"),
    *("experts", "top_k", "expert_ffn", "shared_ffn", "dense_layers"),
)


def _layout_of(row: dict[str, str], program: str) -> Layout:
    """The layout, where silent as sources.toml says."""
    n = {k: int(float(row[k] or 1)) for k in ("tensor", "context", "expert", "pipeline", "gpus")}
    t, among, p = n["tensor"], n["context"], n["pipeline"]
    if row["micro_batch"] and 0 < float(row["micro_batch"]) < 1:  # a piece of a sequence each
        among = round(1 / float(row["micro_batch"]))
    data = n["gpus"] // (t * among * p)
    b = max(1, int(float(row["micro_batch"] or 1)))
    m = max(1, round(float(row["batch"] or data * b) / (data * b)))
    v = int(row["chunks"] or 1)
    split = t > 1 and (row["split"] == "yes" or row["split"] == "" and program in SPLIT)
    one = n["expert"] > 1 and split
    return Layout(
        data=data,
        tensor=t,
        context=among,
        pipeline=p,
        chunks=v if p > 1 and m % p == 0 else 1,
        expert=n["expert"],
        expert_tensor=1 if one else 0,
        zero=int(row["zero"] or 0),
        shard=int(row["shard"] or 0),
        sequence_parallel=split,
        micro_batch=b,
        micro_batches=m,
        recompute=row["recompute"],
    )


def _step_seconds(row: dict[str, str], model: Model, layout: Layout, on: Device) -> float:
    """Seconds of a step from what is printed."""
    if not row["value"]:
        return 0.0
    value, s = float(row["value"]), model.context
    if row["metric"] == "step":
        return value
    if row["metric"] == "tokens":
        return layout.sequences * s / (value * layout.world)
    again = layout.recompute if row["counts"] == "hardware" else "none"
    causal = row["counts"] == "causal"
    done = flops.training(model, sequences=layout.sequences, causal=causal, recompute=again).total
    rate = value * 1e12 if row["metric"] == "tflops" else value / 100 * on.half
    return done / (rate * layout.world)


def _program_of(row: dict[str, str]) -> str:
    """The row of calibrations.toml; torch.compile and another kernel have rows of their own."""
    program = _sources()["sources"][row["source"]]["program"]
    if row["source"] == "narayanan-2" and row["zero"] == "3":
        return "deepspeed"
    if row["device"].startswith("tpu"):
        return "tpu"
    if program == "fsdp" and row["compiled"] == "0" and row["source"] in ("torchtitan", "torchao"):
        return "fsdp-eager"
    if program == "megatron-flash" and row["kernel"] == "0":
        return "megatron-flash-norms"
    return program


def _cluster_of(row: dict[str, str], on: Device) -> Cluster:
    each = 4 if row["device"] == "v100-32gb" else 8
    pod = TPU_PODS.get(on.name, 8960) if on.name.startswith("tpu") else 0
    node = DOMAIN.get(on.name, pod or each)
    out = _sources()["sources"][row["source"]]["node_bandwidth"] * node / each
    return Cluster(row["source"], row["device"], node, out)


def _read(row: dict[str, str]) -> Published:
    model, on, program = _model_of(row), _device(row["device"]), _program_of(row)
    layout = _layout_of(row, program)
    return Published(
        row["run"],
        row["source"],
        program,
        model,
        on,
        _cluster_of(row, on),
        layout,
        model.context,
        row["precision"],
        _step_seconds(row, model, layout, on),
        float(row["memory"] or 0),
        row["fits"] != "0",
        _told(row),
    )


def _told(row: dict[str, str]) -> bool:
    """Not without mesh, not a pipeline of unknown batch, not experts spread nobody knows how."""
    mesh = row["tensor"] or row["zero"]
    batch = row["batch"] or row["micro_batch"] or (row["pipeline"] or "1") == "1" and row["zero"]
    pipeline = row["batch"] or (row["pipeline"] or "1") == "1"
    experts = not row["experts"] or row["expert"] or row["device"].startswith("tpu")
    return bool(mesh and batch and pipeline and experts)


def _rows() -> Iterator[dict[str, str]]:
    with (HERE / "runs.csv").open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


@cache
def published() -> tuple[list[Published], list[tuple[str, str]]]:
    """The runs that a Layout can say, and the others with the reason.

    Chapter: planning
    """
    found, not_said = [], []
    for row in _rows():
        try:
            found.append(_read(row))
        except (InputError, ValueError) as why:
            not_said.append((row["run"], str(why)))
    return found, not_said


@cache
def sweeps() -> list[Published]:
    """Runs of large sweeps that no constant was fitted to: sweeps.csv has what differs from the
    first run of the same source and model in runs.csv. Left out are models that runs.csv lacks,
    attention that is not fused, and failures of which it is not told that memory was the cause: the
    Playbook's, and one of Aleph Alpha's.

    Chapter: planning
    """
    like: dict[tuple[str, str], dict[str, str]] = {}
    for row in _rows():
        like.setdefault((row["source"], row["model"]), row)
    with (HERE / "sweeps.csv").open(encoding="utf-8", newline="") as file:
        return [_read(like[row["source"], row["model"]] | row) for row in csv.DictReader(file)]
