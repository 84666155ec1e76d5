"""torch.distributed.pipelining beside our runtime: the same chunks, batch and loss; each schedule's
gradients, and what its stages did in which order.
"""

from functools import partial

import pipelines
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.pipelining import PipelineStage, schedules

from mathlib.model import gpt
from mathlib.parallel.pipeline import model_chunks
from mathlib.parallel.pipeline.runtime import Pipeline
from mathlib.schedule.actions import Action, Schedule, looped, v_shaped

# torch's class: chunks a stage, and whether they go there and back
THEIRS = {
    "ScheduleGPipe": (1, False),
    "Schedule1F1B": (1, False),
    "ScheduleLoopedBFS": (2, False),
    "ScheduleInterleaved1F1B": (2, False),
    "ScheduleInterleavedZeroBubble": (2, False),
    "ScheduleZBVZeroBubble": (2, True),
    "ScheduleDualPipeV": (2, True),
}
MODEL = pipelines.shape(layers=8, tied=False)  # torch leaves tied embeddings to its user


def batch(m):
    return pipelines.batch(0, 2 * m)


def gradients_of_one(m):
    """By one process on the whole batch, by name."""
    whole = gpt.GPT(MODEL).double()
    tokens, targets = batch(m)
    F.cross_entropy(whole(tokens).flatten(0, 1), targets.flatten()).backward()
    return {name: p.grad for name, p in whole.named_parameters()}


def part_of_the_mean(counted, scores, targets):
    summed = F.cross_entropy(scores.flatten(0, 1), targets.flatten(), reduction="sum")
    return summed / counted


def mean_of_one(scores, targets):
    """What torch's tutorial passes: every micro-batch its own mean."""
    return F.cross_entropy(scores.flatten(0, 1), targets.flatten())


def watch(stage, done):
    """Note what a stage is told to do, in the order in which it is."""

    def noted(call, kind):
        def instead(i, *given, **options):
            letter = "I" if kind == "B" and not options.get("full_backward", True) else kind
            done.append(Action(letter, i, stage.stage_index))
            return call(i, *given, **options)

        return instead

    for name, kind in (
        ("forward_one_chunk", "F"),
        ("backward_one_chunk", "B"),
        ("backward_weight_one_chunk", "W"),
    ):
        setattr(stage, name, noted(getattr(stage, name), kind))


def by_torch(name, m, mean=False):
    """(gradients by name, the actions in the order in which they were done)."""
    p, rank, device = dist.get_world_size(), dist.get_rank(), torch.device("cpu")
    v, back = THEIRS[name]
    placement = v_shaped(stages=p) if back else looped(stages=p, chunks=v)
    plan = Schedule("chunks", 1, [placement], [[] for _ in range(p)])
    chunks = model_chunks.build(MODEL, plan, rank)
    stages = [PipelineStage(k.double(), c, p * v, device) for c, k in chunks.items()]
    done = []
    for stage in stages:
        watch(stage, done)
    tokens, targets = batch(m)
    loss = mean_of_one if mean else partial(part_of_the_mean, int((targets != -100).sum()))
    kind = getattr(schedules, name)
    run = kind(stages[0] if v == 1 else stages, m, loss_fn=loss, scale_grads=mean)
    given = [tokens] if 0 in chunks else []
    run.step(*given, **({"target": targets} if p * v - 1 in chunks else {}))
    return {n: p.grad for n, p in model_chunks.named(chunks).items()}, done, placement


def by_us(schedule, m):
    """Our gradients for this schedule."""
    chunks = model_chunks.build(MODEL, schedule, dist.get_rank())
    chunks = {c: chunk.double() for c, chunk in chunks.items()}
    pipe = Pipeline(chunks, schedule, torch.optim.SGD, width=MODEL.width)
    pipe.run(*batch(m))
    return pipe.gradients()


def both(names, m):
    """For each of torch's schedules: its gradients and order, and what our runtime makes of the
    very list that torch executed.
    """
    found = {}
    for name in names:
        theirs, done, placement = by_torch(name, m)
        every = [None] * dist.get_world_size()
        dist.all_gather_object(every, done)
        ours = by_us(Schedule(name, m, [placement], every), m)
        found[name] = theirs, ours, every
    return found


def each_its_own_mean(m):
    return by_torch("Schedule1F1B", m, mean=True)[0]
