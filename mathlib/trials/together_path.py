"""The decision path of `plan.simplest`, asked for jobs with H100s and for published ones.

A job: a model, GPUs, sequences of a step, tokens of a sequence.
"""

from functools import cache

from mathlib.layout import Layout
from mathlib.plan.calibration import find_rates
from mathlib.plan.machine import Machine, machine
from mathlib.plan.published_runs import Published, published
from mathlib.plan.search import search
from mathlib.plan.simplest import Step, decide, level
from mathlib.records import dataclass
from mathlib.specs import find_cluster, find_model
from mathlib.trials.together_published import predicted

MODELS = ("llama3.2-1b", "llama3-8b", "llama3-70b", "llama3-405b")
GPUS = (64, 8, 1024)
SEQUENCES, TOKENS = 512, 8192
CLUSTER = "dgx-h100"
AXES = ("data", "tensor", "context", "pipeline", "expert")
RUNS = (  # of published(), on H100s, from small to large
    "usp-1b-8-n-dp-64-tp-1-pp-1-mb-1-ga-4-z-1",
    "mpt-1b-2048-512-h100-80gb-amp-bf16-mb-12-ga-1",
    "maxtext-a3-llama2-7b-8",
    "nemo2407-llama3-8b-8",
    "bridge-25-11-gpt-oss-120b-h100-bf16-64-mb-4-t-1-p-4-c-1-v-1-e-8",
    "mpt-70b-2048-64-h100-80gb-amp-bf16-mb-8-ga-4",
    "fms-70b-h100",
    "mcore-llama-llama3-70b",
    "mcore-70b",
    "mcore-llama-llama3-405b",
)


def on(model: str, tokens: int = TOKENS) -> Machine:
    """A model on the book's H100s."""
    there = find_cluster(CLUSTER)
    return machine(find_model(model), there, find_rates(there.device), tokens=tokens)


@cache
def steps(
    model: str, gpus: int, sequences: int = SEQUENCES, tokens: int = TOKENS
) -> tuple[Step, ...]:
    """Down the path, level by level, to the one to take."""
    return tuple(decide(on(model, tokens), devices=gpus, sequences=sequences))


def said(layout: Layout) -> str:
    """A layout by the axes' initials: degrees above 1, and the stage of ZeRO."""
    degrees = {f"{axis[0].upper()}P": getattr(layout, axis) for axis in AXES}
    words = [f"{name} {n}" for name, n in degrees.items() if n > 1]
    return ", ".join([*words, *[f"ZeRO {layout.zero}"] * (layout.zero > 0)])


def answer(model: str, gpus: int) -> str:
    """What to take."""
    last = steps(model, gpus)[-1]
    return said(last.choice.layout) if last.choice else "does not fit"


def judged(step: Step) -> str:
    """What becomes of a level, in few words."""
    if step.choice is None:
        return "does not fit" if "fits" in step.why else "too few sequences"
    return f"{step.longer:.0%} longer" if round(step.longer, 2) else "the quickest"


@cache
def tried(model: str, gpus: int, zero_alone: bool = False) -> tuple[int, int]:
    """Layouts of a job, and how many of them fit."""
    alone = {"tensor": 1, "expert": 1, "pipeline": 1, "context": 1} if zero_alone else None
    found = search(on(model), devices=gpus, sequences=SEQUENCES, risk=0.05, at_most=alone)
    return found.tried, found.fitting


# Published jobs


@dataclass(frozen=True)
class Asked:
    """A published run, and what the path says of its job."""

    run: Published
    taken: Step  # the last of the path

    @property
    def agrees(self) -> bool:
        """Whether both are on one level."""
        return level(self.run.layout) == self.taken.level

    @property
    def longer(self) -> float:
        """How much longer the run's layout is predicted to take than the path's."""
        assert self.taken.choice
        return predicted(self.run) / self.taken.choice.seconds - 1


@cache
def asked(name: str) -> Asked:
    """The path for a published run's model, GPUs, batch and program."""
    run = next(one for one in published()[0] if one.name == name)
    rates = find_rates(run.device.name, run.program, precision=run.precision)
    there = Machine(run.model, run.device, run.cluster, rates, run.tokens)
    job = {"devices": run.layout.world, "sequences": run.layout.sequences}
    return Asked(run, decide(there, **job, program=run.program)[-1])
