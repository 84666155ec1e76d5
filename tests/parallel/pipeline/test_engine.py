"""The engine leaves gradients, which add up over runs, and has no optimizer."""

import pipelines
import torch
import torch.distributed as dist

from mathlib import launch
from mathlib.model import gpt, oracle
from mathlib.parallel.pipeline import engine, model_chunks
from mathlib.schedule import orders

MODEL = pipelines.shape(layers=2, tied=False)


def gradients(loss):
    """After two runs with one number of tokens that count, by name."""
    schedule = orders.make("1f1b", stages=2, micro_batches=2)
    chunks = model_chunks.build(MODEL, schedule, dist.get_rank())
    chunks = {c: chunk.double() for c, chunk in chunks.items()}
    made = engine.Engine(chunks, schedule, width=MODEL.width, loss=loss)
    tokens, targets = pipelines.batch(0)
    counted = int((targets >= 0).sum())
    for part in (slice(0, 4), slice(4, None)):
        made.run(tokens[part], targets[part], counted)
    return {n: p.grad for n, p in model_chunks.named(chunks).items()}


def twice(scores, targets):
    return 2 * engine.summed_loss(scores, targets)


def test_gradients_of_several_runs_add_up_to_those_of_one_process():
    whole = gpt.GPT(MODEL).double()
    oracle.loss(whole, *pipelines.batch(0)).backward()
    for times, loss in ((1, engine.summed_loss), (2, twice)):
        found = {n: g for rank in launch.run(gradients, 2, loss) for n, g in rank.items()}
        wanted = dict(whole.named_parameters())
        assert found.keys() == wanted.keys()
        far = [(found[n] - times * p.grad).abs().max() for n, p in wanted.items()]
        assert torch.stack(far).max() < oracle.EQUAL
