"""Peaks of the phases of GRPO on two ranks that train, whose writers are themselves or two others:
measured beside the formula, in 32 bits.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist

from mathlib import launch
from mathlib.compute import params
from mathlib.memory import activations, preference
from mathlib.meters import saved
from mathlib.model import gpt
from mathlib.parallel.plain import grpo, script
from mathlib.specs import Layout

SHAPE = script.MODEL.but(layers=4, context=128)
TRAINERS, GROUP, PROMPT, REPLY = 2, 4, 8, 96
TOKENS = PROMPT + REPLY


@contextmanager
def _peak(found: dict[str, int], name: str, way: grpo.Together) -> Iterator[None]:
    """The most that is alive in a block, with what lives from step to step."""
    states = [t for of in way.zero.optimizer.state.values() for t in of.values()]
    with saved.Storages(way.model) as meter:
        for tensor in (*way.first.parameters(), *(f.shard for f in way.zero.flats), *states):
            meter.follow(tensor)
        yield
    found[name] = meter.peak


def _trained(writers: int, group: dist.ProcessGroup) -> dict[str, int]:
    """A step before, so that the optimizer has its states; then each phase."""
    rank, found = dist.get_rank(), dict[str, int]()
    kind, own = (grpo.Apart, (group,)) if writers else (grpo.Together, ())
    way = kind(gpt.GPT(SHAPE), torch.optim.Adam, script.vowels, *own)
    prompts, dice = (one[rank] for one in script.replies(TRAINERS, 0, T=REPLY))
    way.step(prompts, dice, GROUP)
    with _peak(found, "handing over" if writers else "writing", way):
        text = way.written(prompts, dice)
    with _peak(found, "scoring", way), torch.no_grad():
        grpo.chances(way.first, text, REPLY)
    earned = way.reward(text[:, -REPLY:]).view(-1, GROUP)
    with _peak(found, "training", way):
        grpo.loss(way.model, way.first, text, earned, REPLY).backward()
        way.zero.step()
    return found


def _wrote() -> dict[str, int]:
    way = grpo.Writer(gpt.GPT(SHAPE), TRAINERS)
    given = script.replies(TRAINERS, 0, T=REPLY)
    way.step(*given)
    with saved.Storages(way.model) as meter:
        way.step(*given)
    return {"writing": meter.peak}


def measured(writers: int = 0) -> list[dict[str, int]]:
    """Peaks of a rank that trains, and of one that writes if there are others for it."""

    def run() -> dict[str, int]:
        group = dist.new_group(range(TRAINERS))
        return _trained(writers, group) if dist.get_rank() < TRAINERS else _wrote()

    found = launch.run(run, TRAINERS + writers)
    return [found[0], *found[TRAINERS : TRAINERS + 1]]


def predicted() -> dict[str, dict[str, float]]:
    """The same by formula, together and apart; the frozen model is whole on each rank, and not
    sharded as the formulas have it.
    """
    whole = 4 * params.total(SHAPE)
    how: dict[str, Any] = {"devices": TRAINERS, "tokens": TOKENS, "sequences": GROUP}
    how |= {"recipe": "adam-fp32-kept", "bytes_per_element": 4}
    told = preference.phases(SHAPE, method="grpo", micro_batch=GROUP, **how)
    others = preference.apart(SHAPE, **how)
    more = whole - told["writing"].amount("reference at rest")
    rests = sum(told["writing"].amount(f"{role} at rest") for role in ("policy", "reference"))
    kept = activations.stage(
        SHAPE, Layout(micro_batch=GROUP), tokens=TOKENS - 1, bytes_per_element=4
    )
    training = rests + more + kept.total + told["scoring"].amount("gathered layer")
    return {
        "together": {"writing": told["writing"].total + more, "training": training},
        "apart": {"handing over": others["handing over"].total + more, "training": training},
        "writer": {"writing": others["writing"].total},
    }
