"""Plan a run: every layout of a model on a cluster, ranked, and one of them taken apart."""

from dataclasses import dataclass, replace
from functools import lru_cache
from html import escape
from string import ascii_letters, digits
from typing import Any

from mathlib import specs
from mathlib.checks import InputError
from mathlib.from_config import from_config
from mathlib.from_config.files import parsed
from mathlib.memory.reserve import find_reserve
from mathlib.plan import planner, step
from mathlib.plan.adapted import PROGRAM, Adapters
from mathlib.plan.calibration import find_rates
from mathlib.plan.machine import Host, host_of
from mathlib.plan.room import find_keeps
from mathlib.plan.wording import (
    at_risk,
    axes_of,
    enough_devices,
    kept_beside,
    kept_words,
    of_peak,
    runs_of,
    would_do,
)
from mathlib.show import says
from mathlib.show.experiments import Choice, Line, Named, Range, Text, doubling, experiment, tell
from mathlib.show.planned import Plan, files, formulas, mfu, pictures, rows_table, words
from mathlib.show.tables import html_table
from mathlib.specs import Model

MODELS = (  # that a reader will ask for at first
    *("gpt2-xl", "llama3.2-1b", "llama2-7b", "mistral-7b", "llama3-8b", "llama2-13b"),
    *("qwen2.5-32b", "mixtral-8x7b", "llama2-70b", "llama3-70b", "gpt3-175b", "llama3-405b"),
)
KNOWN = specs.titled("models", specs.table("models"))
CLUSTERS = (
    *("p3dn.24xlarge", "p4d.24xlarge", "dgx-a100", "p4de.24xlarge", "dgx-h100", "p5.48xlarge"),
    *("p5en.48xlarge", "dgx-b200", "nd-mi300x-v5"),
)
PROGRAMS = (  # rows of calibrations.toml
    ("Megatron-LM, Megatron Core", "megatron-core"),
    ("Megatron Core, TP communication not hidden", "megatron-core-plain"),
    ("PyTorch FSDP, compiled (torchtitan)", "fsdp"),
    ("PyTorch FSDP, not compiled", "fsdp-eager"),
    ("PyTorch with LoRA, frozen weights in 16 bits", "lora"),
    ("PyTorch with QLoRA, 4 bits whole on each GPU", "qlora"),
    ("PyTorch with QLoRA, 4 bits in shards", "qlora-sharded"),
    ("DeepSpeed", "deepspeed"),
    ("Megatron-DeepSpeed", "megatron-deepspeed"),
    ("Megatron-DeepSpeed with ZeRO", "megatron-deepspeed-zero"),
    ("Nanotron", "nanotron"),
    ("InternEvo", "internevo"),
    ("LLM Foundry, Composer", "composer"),
    ("JAX on GPUs (MaxText, Levanter)", "jax"),
    ("JAX on TPUs (MaxText)", "tpu"),
    ("Aleph Alpha's trainer, FlashAttention and RMSNorm kernel", "megatron-flash"),
    ("Aleph Alpha's trainer, FlashAttention alone", "megatron-flash-norms"),
    ("Megatron-LM of 2021", "megatron-2021"),
)
TUNED = {"lora": "16", "qlora": "4", "qlora-sharded": "4 sharded"}  # bits of frozen matrices
PRECISIONS = (("bf16 or fp16", "half"), ("fp8", "fp8"), ("fp4", "fp4"))
OWN = "own"
RECIPES = (
    ("as the program keeps them", OWN),
    ("bf16, gradients in fp32", "mixed-adam-fp32-gradients"),
    ("bf16, gradients in bf16", "mixed-adam"),
    ("bf16, Adam in 8 bits", "mixed-adam-8bit"),
)
RISKS = (("3%", 0.03), ("5%", 0.05), ("10%", 0.1), ("20%", 0.2), ("50%", 0.5), ("any", 1.0))
HOST = (("nothing", "no"), ("states and activations, if it pays", "yes"))
LETTERS = ascii_letters + digits + "=,_- "  # of axes and their values
ROWS = 10


def places() -> tuple[tuple[str, str], ...]:
    """All clusters, each with its device; and devices that no cluster has, in assumed nodes."""
    found = [specs.find_cluster(name) for name in specs.table("clusters")]
    known = {nodes.device for nodes in found}
    named = [(f"{specs.find_device(c.device).title}, {c.title}", c.name) for c in found]
    others = [specs.assumed_cluster(n) for n in specs.table("devices") if n not in known]
    return (*named, *((nodes.title, nodes.name) for nodes in others))


def nodes_of(name: str) -> specs.Cluster:
    """A cluster by its name, or assumed nodes of a device."""
    known = name in specs.table("clusters")
    return specs.find_cluster(name) if known else specs.assumed_cluster(name)


@lru_cache(8)
def read(config: str) -> Model:
    """The model of a pasted config.json."""
    return from_config(parsed(config, "config.json"))


@dataclass(frozen=True)
class Asked:
    """What a plan is looked for, as `mathlib plan` takes it."""

    model: Model
    cluster: str
    devices: int
    sequences: int
    tokens: int
    program: str
    precision: str
    recipe: str | None  # None: the program's own
    risk: float  # of running out of memory, at most
    only: str
    most: str
    host: bool  # whether states and activations may wait there
    adapters: Adapters | None = None  # None: all weights are trained

    def machine(self) -> step.Machine:
        """What the layouts meet."""
        how = self.program, self.precision, self.host, self.adapters
        return machine(self.model, self.cluster, self.tokens, *how)

    def how(self, on: step.Machine) -> dict[str, Any]:
        """The same as options of a search."""
        return {
            "sequences": self.sequences,
            "reserve": find_reserve(self.program).of(on.device.room),
            "program": self.program,
            "recipe": self.recipe,
            "risk": self.risk if self.risk < 1 else None,
            "only": axes_of(self.only),
            "at_most": axes_of(self.most),
            "tell": _far,
        }


@lru_cache(2)
def machine(
    model: Model,
    cluster: str,
    tokens: int,
    program: str,
    precision: str,
    host: bool,
    adapters: Adapters | None = None,
) -> step.Machine:
    """What remembers all that it was asked, also with other devices, sequences and risks."""
    if adapters and host:
        raise InputError("host = 'yes': with adapters expected 'no', as none of theirs is counted")
    nodes = nodes_of(cluster)
    rates = find_rates(nodes.device, program, precision=precision)
    there = _host(nodes) if host else None
    return step.machine(model, nodes, rates, host=there, tokens=tokens, adapters=adapters)


@lru_cache(8)
def ranked(asked: Asked) -> Plan:
    """The quickest layouts on a cluster. Whoever chooses a row asks again."""
    on = asked.machine()
    how = asked.how(on) | {"most": ROWS, "variants": False}
    found = planner.search(on, devices=asked.devices, **how)
    room = on.filled(asked.recipe, find_keeps(asked.program))
    return Plan(on, room, asked.program, found, tuple(found.choices))


@lru_cache(8)
def enough(asked: Asked) -> str:
    """How many devices would do, where so many do not, in words."""
    plan = ranked(asked)
    return would_do(enough_devices(plan.on, plan.found, asked.devices, asked.how(plan.on)))


def _host(nodes: specs.Cluster) -> Host:
    """A device's share of the host's memory, where that is known."""
    if not nodes.host_memory:
        raise InputError(f"nobody told how large and quick the host's memory of {nodes.title} is")
    return host_of(nodes)


def _far(search: planner.Progress) -> None:
    """Says how far a search is."""
    tell(search.share, f"{search.tried:,} layouts")


@experiment(
    "plan",
    "Your model on your GPUs",
    Named("model", "Model", KNOWN, "llama3-8b", likely=MODELS),
    Named("cluster", "GPUs and their nodes", places(), "dgx-h100", likely=CLUSTERS),
    doubling("devices", "Number of GPUs", 1, 16384, 64),
    doubling("sequences", "Sequences a step", 1, 8192, 512),
    doubling("tokens", "Tokens of a sequence", 512, 131072, 8192),
    Text("config", "Instead of the model, its config.json", 20_000, '{"model_type": "llama", ...}'),
    Choice("program", "Program", PROGRAMS, "megatron-core"),
    Choice("precision", "Precision of matmuls", PRECISIONS, "half"),
    Choice("recipe", "Precision of states", RECIPES, OWN),
    Choice("risk", "Chance of running out of memory, at most", RISKS, 0.05, slider=True),
    Line("only", "Only layouts with", LETTERS, 120, "", ("zero=3",), True, "zero=3,recompute=none"),
    Line("most", "Layouts with at most", LETTERS, 120, "", ("tensor=1",), True, "tensor=4"),
    Choice("host", "May wait in the host's memory", HOST, "no"),
    doubling("rank", "Rank of adapters, with LoRA or QLoRA", 1, 1024, 16),
    Range("row", "Row of the table", 1, ROWS, 1, 1),
    code=(ranked,),
    main=5,
    above=True,
    long=True,
)
def plan(
    model: str, config: str, program: str, recipe: str, host: str, rank: int, row: int, **rest: Any
) -> str:
    beside = Adapters(rank, bits=TUNED[program]) if program in TUNED else None
    rest |= {"program": PROGRAM if beside else program, "adapters": beside}
    try:
        chosen = read(config) if config else specs.find_model(model)
        own = None if recipe == OWN else recipe
        asked = Asked(chosen, recipe=own, host=host == "yes", **rest)
        plan = ranked(asked)
    except InputError as refusal:  # said here: other settings to offer would be searched through
        return f'<p class="mlx-say mlx-refused">{escape(f"Not possible: {refusal}.")}</p>'
    if not plan.found:
        return _nothing_fits(asked, plan)
    shown = replace(plan, n=min(row, len(plan.rows)))
    parts = (rows_table, pictures, formulas, files)
    return _said(asked, plan) + _unread(chosen) + "".join(part(shown) for part in parts)


def _on(on: step.Machine, devices: int) -> str:
    where = "one device" if devices == 1 else f"{devices:,} devices"
    return escape(f"{on.model.title} on {where} ({on.device.title})")


def _said(asked: Asked, plan: Plan) -> str:
    """The quickest layout and how sure that is, in words; what fits, and what is counted."""
    on, found = plan.on, plan.found
    best, between = found.choices[0], found.between
    sure = ""
    if between:
        low, high = says.time(between.low), says.time(between.high)
        sure = f" Of ten published {runs_of(on)} like it, eight would lie between {low} and {high}."
        sure += "" if best.offload == "none" else " None of these kept anything on the host."
    return (
        f'<p class="mlx-say">{_on(on, asked.devices)}: <b>{says.time(best.seconds)} a step</b>, '
        f"{mfu(on, best)} MFU{of_peak(on)}, with {escape(words(best.layout, best.offload))}."
        f"{sure}</p><p>{found.tried:,} layouts were tried, and {found.fitting:,} fit: "
        f"{at_risk(asked.risk)}. {_counted(asked)}</p>"
    )


def _counted(asked: Asked) -> str:
    """By whose conventions memory was counted."""
    if asked.adapters:
        return f"{escape(str(asked.adapters)).capitalize()}. Memory is {kept_beside(asked.recipe)}."
    kept = escape(kept_words(asked.program, asked.recipe), quote=False)
    return f"Memory is counted as {asked.program} fills it: {kept}."


def _unread(model: Model) -> str:
    """What a pasted config.json says without effect."""
    told = escape(", ".join(model.unread))
    return f"<p>No part of this: {told}.</p>" if told else ""


def _nothing_fits(asked: Asked, plan: Plan) -> str:
    """What fills the device, where no layout fits, and how many devices would do."""
    found, more = plan.found, f"<p>{escape(enough(asked))}.</p>"
    if not found.tried:
        kept = " and keeps to these axes" if asked.only or asked.most else ""
        return (
            f'<p class="mlx-say mlx-refused">{_on(plan.on, asked.devices)}: no layout divides this '
            f"batch{kept}; more sequences a step, or fewer GPUs.</p>{more}"
        )
    rows = [[name, f"{n:,}"] for name, n in sorted(found.full.items(), key=lambda one: -one[1])]
    return (
        f'<p class="mlx-say mlx-refused">{_on(plan.on, asked.devices)}: <b>none of {found.tried:,} '
        f"layouts fits</b>: {at_risk(asked.risk)}.</p>{more}"
        + html_table([["What fills the device most", "layouts"], *rows], "")
        + f"<p>{_counted(asked)}</p>"
    )
