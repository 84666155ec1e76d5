"""What the tests of the pipeline share, in a module that ranks can import.

The batch is awkward on purpose: micro-batches of unequal size, and targets that are masked here and
there, most of them in the first sequences.
"""

from functools import cache

import torch
import torch.distributed as dist
from patience import PATIENCE

from mathlib import launch
from mathlib.meters import live, wire
from mathlib.model import data, gpt, oracle
from mathlib.parallel.pipeline import model_chunks
from mathlib.parallel.pipeline.runtime import Pipeline
from mathlib.parallel.plain import pipeline

SEQUENCES, CONTEXT, STEPS = 10, 8, 3
SHAPE = {"width": 16, "heads": 4, "context": CONTEXT, "vocab": len(data.vocabulary())}


def shape(layers=4, **changes):
    return gpt.small(layers=layers, **SHAPE | changes)


def batch(step, sequences=SEQUENCES, masked=0.9, context=CONTEXT):
    """Sequences, of whose targets the first ones are masked with this chance, the last ones not."""
    tokens, targets = data.batch(sequences, context, step)
    draw = torch.Generator().manual_seed(step)
    share = torch.linspace(masked, 0.0, sequences)[:, None]
    left_out = torch.rand(targets.shape, generator=draw) < share
    return tokens, targets.masked_fill(left_out, -100)


def uneven(layers, chunks):
    """Layers of chunks that differ by one, the larger ones first."""
    return [part.tolist() for part in torch.arange(layers).tensor_split(chunks)]


@cache
def by_one(model, optimizer, steps=STEPS, **options):
    """Each step's weights of one process, by name."""
    whole = gpt.GPT(model, **options).double()
    made = oracle.OPTIMIZERS[optimizer](whole.parameters())
    names, sizes = zip(*((n, p.numel()) for n, p in whole.named_parameters()), strict=True)
    rows = oracle.one_process(whole, map(batch, range(steps)), made)
    return [dict(zip(names, row.split(sizes), strict=True)) for row in rows]


class Plain(pipeline.Pipeline):
    """The plain one in the words of the sturdy one."""

    replica, clock, most_under_way = 0, None, 0

    def __init__(self, chunks, schedule, make, *, width, ranks):
        super().__init__(chunks, schedule, width)
        self.rows = [list(range(schedule.stages))]
        self.optimizer = make(model_chunks.named(chunks).values())

    def run(self, *given, counted=None):
        return {0: super().run(*(s if torch.is_tensor(s) else torch.cat(s) for s in given))}

    def forward(self, *given):
        made = super().forward(*given)
        self.most_under_way = max(self.most_under_way, len(self.in_flight))
        return made

    def step(self):
        self.optimizer.step()
        self.optimizer.zero_grad()

    def weights(self):
        return {name: p.detach() for name, p in model_chunks.named(self.chunks).items()}


def make(model, schedule, optimizer, *, ranks=None, build=None, plain=False, **options):
    """This rank's pipeline, in 64 bits."""
    rows = ranks or [list(range(dist.get_world_size()))]
    stage = next(row.index(dist.get_rank()) for row in rows if dist.get_rank() in row)
    cut = uneven(model.layers, schedule.model_chunks)
    chunks = model_chunks.build(model, schedule, stage, layers=cut, **build or {})
    chunks = {c: chunk.double() for c, chunk in chunks.items()}
    make = oracle.OPTIMIZERS[optimizer]
    kind = Plain if plain else Pipeline
    return kind(chunks, schedule, make, width=model.width, ranks=ranks, **options)


def by_ranks(model, schedule, optimizer, steps=STEPS, parts=1, **options):
    """Each step's weights of this rank, by name, and the loss that it saw."""
    pipe, history = make(model, schedule, optimizer, **options), []
    for step in range(steps):
        mine = [t.tensor_split(len(pipe.rows))[pipe.replica] for t in batch(step)]
        whole = int((batch(step)[1] != -100).sum())
        loss = 0.0
        for part in zip(*(t.tensor_split(parts) for t in mine), strict=True):
            loss += sum(pipe.run(*part, counted=whole if parts > 1 else None).values())
        if schedule.weights == "flush":
            pipe.step()
        history.append(({name: p.flatten().clone() for name, p in pipe.weights().items()}, loss))
    return history


def run_all(cases):
    """Several (model, schedule, optimizer, options) in one launch."""
    return [by_ranks(*case, **options) for *case, options in cases]


def apart(found, wanted):
    """How far any weight on any rank is from one process, after any step."""
    return oracle.distance(
        (
            mine[name] - one[name]
            for history in found
            for (mine, _), one in zip(history, wanted, strict=True)
            for name in mine
        ),
        torch.zeros(()),
    )


def check(ranks, cases):
    """Every case's weights against those of one process, all cases in one launch."""
    found = launch.run(run_all, ranks, cases, timeout=PATIENCE)
    for (model, schedule, optimizer, _), *histories in zip(cases, *found, strict=True):
        wanted = by_one(model, optimizer)
        assert apart(histories, wanted) < oracle.EQUAL, (schedule.name, optimizer)
        names = {name for history in histories for name in history[0][0]}
        assert names == set(wanted[0]), "somebody was left out"


def equal_micro_batches(m, sequences=1):
    """m micro-batches of as many sequences each, all tokens counted, each in memory of its own."""
    return [[t.clone() for t in side.split(sequences)] for side in batch(0, m * sequences, 0.0)]


def measured(model, schedule, **options):
    """One run, counted: clock, messages, bytes of the program; without a clock, whose numbers
    travel too, bytes alive and those of the system.
    """
    pipe, more = make(model, schedule, "SGD", **options), {}
    given = equal_micro_batches(schedule.micro_batches)
    if not pipe.clock:  # connections are opened by the first run
        with live.live(torch.nn.ModuleList(pipe.chunks.values())) as meter:
            for tensor in sum(given, []):
                meter.follow(tensor, "temporary")  # the batch's own, no activation
            pipe.run(*given)
        more["held"] = max((row["activations"] for row in meter.timeline().rows), default=0)
    with wire.tcp() as system, wire.counted() as program:
        pipe.run(*given)
    return more | {
        "clock": pipe.clock and [(begin, end) for _, begin, end in pipe.clock.done],
        "under way": pipe.most_under_way,
        "messages": program.messages,
        "bytes": program.sent,
        "to": program.to,
        "predicted on the wire": program.on_wire,
        "on the wire": system.sent,
    }


def all_measured(cases):
    """Several (model, schedule, options) in one launch."""
    return [measured(*case, **options) for *case, options in cases]
