"""Models, devices and clusters by their names in data/*.toml, and what they are.

A model's own classes stand in architecture.py, a layout's in layout.py; both are specs, too.
"""

import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, TypeVar

from mathlib.architecture import (
    ATTENTION,
    NORMS,
    PARTS,
    POSITIONS,
    Experts,
    Latent,
    Model,
    Window,
)
from mathlib.checks import InputError, keep_title, listed, non_negative, one_of, positive, whole
from mathlib.layout import (
    RECOMPUTE,
    Layout,
    expert_degree,
    own_tokens,
    stage_layers,
    tensor_degree,
    uneven_layers,
)
from mathlib.records import dataclass, field

__all__ = [
    "ATTENTION",
    "NORMS",
    "POSITIONS",
    "RECOMPUTE",
    "TABLES",
    "Cluster",
    "Device",
    "Experts",
    "Latent",
    "Layout",
    "Model",
    "Window",
    "assumed_cluster",
    "expert_degree",
    "find_cluster",
    "find_device",
    "find_model",
    "own_tokens",
    "refuse_uncovered",
    "row_as",
    "stage_layers",
    "table",
    "tensor_degree",
    "uneven_layers",
]

T = TypeVar("T")
TABLES = (
    *("models", "devices", "clusters", "types", "recipes", "runs", "compressors", "sweeps"),
    *("nccl", "allreduces", "configurations", "rates", "pipelines", "calibrations"),
    *("scaling", "launches", "interruptions", "vendors", "keeps", "prices"),
    *("conventions", "printed", "allocated", "reserves"),
)
HEADER = re.compile(  # of a row, [name] or ["a name"], or of a table in it, [name.part]
    r'^\[(?:"(?P<quoted>[^"]+)"|(?P<bare>[\w-]+))(?:\.[^]]*)?\]\s*(?:#.*)?$', re.MULTILINE
)
NOT_COVERED = {  # names that begin so, and what stands in the way
    "an encoder-decoder": ("t5", "flan-t5", "mt5", "ul2", "bart", "mbart", "pegasus", "whisper"),
    "an encoder": ("bert", "roberta", "distilbert", "deberta", "electra", "albert", "modernbert"),
    "a state space model": ("mamba", "falcon_mamba", "falcon-mamba", "rwkv"),
    "a state space beside attention": (
        *("jamba", "bamba", "zamba", "falcon_h1", "falcon-h1", "nemotron_h", "nemotron-h"),
        *("granite-4.0-h", "granite4-h"),
    ),
    "linear attention": (
        *("qwen3_next", "qwen3-next", "qwen3_5", "qwen3.5", "kimi_linear", "kimi-linear"),
        *("minimax_text", "minimax-text", "minimax-01", "minimax-m1", "olmo_hybrid"),
    ),
    "attention to what an indexer picks": (
        *("deepseek_v32", "deepseek-v3.2", "glm_moe_dsa", "glm-5"),
    ),
    "a convolution in place of attention": ("lfm2",),
}


@dataclass(frozen=True)
class Device:
    """An accelerator as its data sheet describes it. Peaks are dense: never the figures with
    sparsity.
    """

    name: str
    peak: dict[str, float]  # FLOP/s by number type: fp32, tf32, fp16, bf16, fp8, fp4, int8
    memory: float  # bytes as sold, a round number
    memory_bandwidth: float  # bytes/s
    link_bandwidth: float  # bytes/s to its neighbours in the node, one direction
    power: float  # watts, as rated; 0: the maker publishes none
    reported_memory: float = 0  # bytes as the device itself reports them; 0: nobody told
    source: str = field(default="", compare=False)
    date: str = field(default="", compare=False)
    title: str = field(default="", compare=False)  # what people call it; "": the name

    def __post_init__(self) -> None:
        keep_title(self)
        for name in ("memory", "memory_bandwidth"):
            positive(name, getattr(self, name))
        for name in ("link_bandwidth", "power", "reported_memory"):
            non_negative(name, getattr(self, name))
        for kind, rate in self.peak.items():
            positive(f"peak.{kind}", rate)

    @property
    def half(self) -> float:
        """Dense peak for matmuls of 16-bit numbers: bf16, or fp16 where the device has no bf16."""
        return self.peak["bf16"] if "bf16" in self.peak else self.peak["fp16"]

    @property
    def room(self) -> float:
        """Bytes there are: as the device reports them, as sold where that is not known."""
        return self.reported_memory or self.memory

    def flops_per_second(self, dtype: str = "bf16") -> float:
        """Dense peak for a number type, in FLOP/s."""
        return self.peak[one_of("dtype", dtype, self.peak)]


@dataclass(frozen=True)
class Cluster:
    """Nodes of one kind of device."""

    name: str
    device: str  # a name in devices.toml
    devices_per_node: int
    node_bandwidth: float  # bytes/s out of one node, one direction, all its network cards together
    link_bandwidth: float = 0  # bytes/s between neighbours in a node, where not all of a device's
    host_memory: float = 0  # bytes of a node's host; this and the next two 0: nobody told
    host_link: float = 0  # bytes/s between a device and that memory, one direction, by data sheet
    host_bandwidth: float = 0  # bytes/s of that memory, by data sheet
    host_source: str = field(default="", compare=False)
    source: str = field(default="", compare=False)
    date: str = field(default="", compare=False)
    title: str = field(default="", compare=False)  # what people call it; "": the name

    def __post_init__(self) -> None:
        keep_title(self)
        whole("devices_per_node", self.devices_per_node)
        positive("node_bandwidth", self.node_bandwidth)
        for name in ("link_bandwidth", "host_memory", "host_link", "host_bandwidth"):
            non_negative(name, getattr(self, name))


class Rows(Mapping[str, dict[str, Any]]):
    """A data file's rows by name, each read when it is asked for: to read all of a file takes
    longer than anything else that a command does.
    """

    def __init__(self, text: str):
        self._read: dict[str, dict[str, Any]] = {}
        self._written: dict[str, str] = {}
        starts = list(HEADER.finditer(text))
        ends = [start.start() for start in starts[1:]] + [len(text)]
        for start, end in zip(starts, ends, strict=True):
            name = start["quoted"] or start["bare"]
            self._written[name] = self._written.get(name, "") + text[start.start() : end]

    def __getitem__(self, name: str) -> dict[str, Any]:
        if name not in self._read:
            self._read[name] = tomllib.loads(self._written[name])[name]
        return self._read[name]

    def __contains__(self, name: object) -> bool:
        return name in self._written

    def __iter__(self) -> Iterator[str]:
        return iter(self._written)

    def __len__(self) -> int:
        return len(self._written)


@cache
def table(kind: str) -> Rows:
    """One data file as it stands."""
    path = f"{os.path.dirname(__file__)}/data/{one_of('table', kind, TABLES)}.toml"  # noqa: PTH120
    with open(path, encoding="utf-8") as file:  # noqa: PTH123, pathlib takes as long to load as this
        return Rows(file.read())


def row_as(of: Callable[..., T], kind: str, name: str, *, called: str) -> T:
    """A row of a data file as the class that has its fields; `called`: a refusal's word for its
    name.
    """
    rows = table(kind)
    return of(name=name, **rows[one_of(called, name, rows)])


def _model_row(name: str) -> dict[str, Any]:
    """A row of models.toml; `like` names a row it differs from in the fields that follow."""
    row = dict(table("models")[one_of("model", name, table("models"))])
    parent = _model_row(row.pop("like")) if "like" in row else {}
    own = ("parameters", "title")
    return {field: value for field, value in parent.items() if field not in own} | row


def find_model(name: str | Model) -> Model:
    """A model by its name in models.toml; a Model is returned as it is, so that formulas take
    either.
    """
    if isinstance(name, Model):
        return name
    if isinstance(name, str) and name not in table("models"):
        refuse_uncovered("model", name)
    return _model(one_of("model", name, table("models")))


@cache
def _model(name: str) -> Model:
    row = _model_row(name)
    for part, kind in PARTS.items():
        if part in row:
            row[part] = kind(**row[part]) if row[part] else None
    return Model(name=name, **row)


def refuse_uncovered(argument: str, name: str) -> None:
    """Say of a T5, a BERT, a Mamba that no formula here is about them, instead of guessing."""
    for kind, names in NOT_COVERED.items():
        if name.lower().startswith(names):
            raise InputError(
                f"{argument} = {name!r}: {kind} is not covered; expected a decoder-only transformer"
            )


def find_device(name: str) -> Device:
    """A device by its name in devices.toml."""
    return _device(one_of("device", name, table("devices")))


@cache
def _device(name: str) -> Device:
    return Device(name=name, **table("devices")[name])


def titled(kind: str, names: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Rows of a data file for a menu: what each is called, and its name."""
    rows = table(kind)
    names = listed("names", names)
    return tuple((rows[one_of("names", n, rows)].get("title", n), n) for n in names)


def assumed_cluster(device: str) -> Cluster:
    """Nodes of a device of which clusters.toml has none: as many and as well connected as the H100
    of a DGX H100, which its title says.
    """
    like, own = find_cluster("dgx-h100"), find_device(device)
    n, rate = like.devices_per_node, like.node_bandwidth
    title = f"{own.title}, assumed {n} in a node with {rate / n / 1e9:g} GB/s of network each"
    return Cluster(device, device, n, rate, source="assumed", title=title)


def find_cluster(name: str) -> Cluster:
    """A cluster by its name in clusters.toml."""
    return row_as(Cluster, "clusters", name, called="cluster")
