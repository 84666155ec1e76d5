"""Data parallelism, tensor parallelism and a pipeline on the same four ranks: bytes that a rank
sends, counted and by formula; seconds of a step over slow links, recorded and planned.

p stages · m micro_batches · D tokens of a step
"""

import json
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch import nn

from mathlib import launch, specs
from mathlib.compute import params
from mathlib.meters import wire
from mathlib.model import data, gpt, oracle
from mathlib.parallel.pipeline import model_chunks
from mathlib.parallel.plain import pipeline, tensor
from mathlib.schedule.simulate import simulate
from mathlib.schedule.times import Times
from mathlib.traffic import volumes
from mathlib.trials.pipeline import MICRO_BATCHES, STAGES, named

WIDE = gpt.small(layers=8, width=64, context=32, vocab=len(data.vocabulary()), tied=False)
P = sum(q.numel() for q in gpt.GPT(WIDE).parameters())
FEW, MANY, NUMBER = 16, 256, 4  # sequences; bytes
Sent = dict[tuple[str, int], float]  # by way and sequences


def _step(way: str) -> tuple[nn.Module, Any]:
    if way == "pipeline":
        chunks = model_chunks.build(WIDE, named("1f1b"), dist.get_rank())
        pipe = pipeline.Pipeline(chunks, named("1f1b"), WIDE.width)
        return nn.ModuleList(chunks.values()), pipe.run
    model: Any = gpt.GPT(WIDE)
    if way == "tensor":
        model = tensor.cut(model)
        return model, lambda *batch: oracle.loss(model, *batch).backward()
    outer = nn.parallel.DistributedDataParallel(model)
    return model, lambda *batch: oracle.loss(outer, *oracle.my_part(batch)).backward()


RUNS = [("data", FEW), ("tensor", FEW), ("pipeline", FEW), ("data", MANY), ("pipeline", MANY)]


def _sent() -> tuple[Sent, dict[str, float]]:
    found, share = Sent(), dict[str, float]()
    for way, sequences in RUNS:
        model, go = _step(way)
        go(*data.batch(FEW, WIDE.context))  # opens connections
        batch = data.batch(sequences, WIDE.context)
        with wire.tcp() as system:
            go(*batch)
        found[way, sequences] = system.sent
        share[way] = sum(q.numel() for q in model.parameters()) / P
    return found, share


def sent() -> tuple[Sent, dict[str, float]]:
    """Bytes that rank 1 sends in a step, counted by the system; its share of the parameters."""
    return launch.run(_sent, STAGES)[1]


def sends(way: str, sequences: int) -> float:
    """The same bytes by formula."""
    if way == "data":
        return volumes.zero(parameters=P, data=STAGES, gradient_bytes=NUMBER).total
    how: dict[str, Any] = {"micro_batch": sequences, "bytes_per_element": NUMBER}
    if way == "tensor":
        return volumes.tensor_parallel(WIDE, tensor=STAGES, **how).total
    return volumes.pipeline_parallel(WIDE, pipeline=STAGES, stage=1, **how).total


# Published models, in 16 bits

TRAINED = {  # tokens of a step, by the papers
    "gpt2-medium": 512 * 1024,  # "a larger batchsize of 512 is used", of 1,024 tokens
    "llama2-7b": 4 * 2**20,  # "4M tokens"
    "gpt3-175b": 3.2e6,  # "3.2M"
}


def passed(name: str, pipelines: int, stages: int = 8) -> float:
    """Bytes that a device sends in a step of the model's training, by pipelines side by side, whose
    replicas sum gradients, over those by data parallelism on as many devices.
    """
    model, total = specs.find_model(name), params.count(name).total
    batch = TRAINED[name] / model.context
    one = volumes.pipeline_parallel(model, pipeline=stages, stage=1).total * batch
    own = volumes.zero(parameters=total / stages, data=pipelines).total
    return (one / pipelines + own) / volumes.zero(parameters=total, data=stages * pipelines).total


# Over slow links

KINDS, LINKS = ("data", "data, hidden", "tensor", "pipeline"), (20e6, 3e6, 1e6)
NAP = 0.05  # seconds: what a rank sleeps for a layer's forward, backward twice as long
RESULTS = Path(__file__).parents[2] / "bench" / "results"


def planned(way: str, link: float, m: int = MICRO_BATCHES) -> float:
    """Seconds of a step whose layers sleep, over a link of so many bytes a second; a stage of the
    pipeline waits until what it sends is through.
    """
    if way == "pipeline":
        size, nap = sends("pipeline", FEW) / 2 / m, NAP * MICRO_BATCHES / m
        times = Times(forward=nap, backward=2 * nap, size=size, bandwidth=link, blocking=True)
        return simulate(named("1f1b", m), times).total
    layers, sending = WIDE.layers, sends(way.partition(",")[0], FEW) / link
    if "hidden" in way:  # a layer's gradients leave when its backward is through
        back, leaving = 2 * NAP, sending / layers
        return layers * NAP + back + leaving + (layers - 1) * max(back, leaving)
    return 3 * layers * NAP + sending


def recorded(section: str = "links") -> tuple[list[dict[str, Any]], str]:
    """The rows that a bench kept last, and when."""
    every = [json.loads(file.read_text()) for file in sorted(RESULTS.glob("*-cores.json"))]
    last = [one for one in every if section in one["sections"]][-1]
    when = f"recorded on {last['date']}, {last['machine']['cores']} cores"
    return last["sections"][section], when


def took() -> dict[tuple[str, float], float]:
    """Seconds of the recorded steps, by way and link."""
    rows, _ = recorded()
    return {(row["ours"], row["bytes_per_second"]): row["ours_seconds"] for row in rows}


# Of a GPU's speed, what the way out of a node of H100s costs, from 8 devices to 16 (Ultra-Scale
# Playbook): tokens a second with tensor parallelism; shares with a pipeline of p - 1 and of 32
# micro-batches, in its figure on 1F1B, whose text says 14%
PLAYBOOK = {"tensor": 1 - 6246 / 10903, "pipeline": 0.149, "pipeline, m = 32": 0.324}
