"""What a rank of each stage holds: parameters and optimizer states exactly, and at its fullest
moment the activations that the formula says, layer by layer exactly.
"""

import together_cases as cases
import torch
from patience import PATIENCE
from together_cases import CONTEXT, DATA, EXPERT, PIPELINE, SEQUENCE, TENSOR

from mathlib import launch
from mathlib.layout import Layout
from mathlib.memory import activations, states
from mathlib.meters import live

B, TOKENS, NUMBER = 2, 8, 4  # sequences of a micro-batch, tokens, bytes
GPT = cases.MODELS["gpt"].but(context=TOKENS, vocab=64, padded_vocab=64)
SHARED = cases.MODELS["shared"].but(context=TOKENS, vocab=64, padded_vocab=64)
WAYS = {  # layout, and what attention keeps
    "tensor": (PIPELINE | TENSOR, "standard"),
    "sequence": (PIPELINE | TENSOR | SEQUENCE, "standard"),
    "data": (PIPELINE | DATA | {"zero": 1}, "standard"),
    "context": (PIPELINE | CONTEXT, "flash"),
}
PLACED = [
    (GPT, PIPELINE | DATA | {"zero": 1}),
    (SHARED, PIPELINE | DATA | EXPERT | {"zero": 1}),
    (SHARED, DATA | TENSOR | SEQUENCE | EXPERT),
]


def made(model, layout):
    cases.MODELS["sized"] = model
    return cases.make(("sized", layout, "Adam", {"dtype": torch.float32}))


def trained(model, layout):
    """A run of whole micro-batches, and an update, so that all states are there."""
    way = made(model, layout)
    some = torch.arange(B * way.layout.micro_batches * TOKENS).view(-1, TOKENS) % 64
    way.run(some, some)
    way.update()
    return way, some


def placed(model, layout):
    """The stage, parameters of this rank, and numbers that its optimizers keep."""
    way, _ = trained(model, layout)
    kept = [leaf.optimizer.state[leaf.numbers]["exp_avg"].numel() for leaf in way.updates.leaves]
    return way.grid.at["pp"], sum(p.numel() for p in way.stage.places), sum(kept)


def held(layers, layout):
    """The stage, and the most bytes of activations at once."""
    way, some = trained(GPT.but(layers=layers), layout)
    with live.live(torch.nn.ModuleList(way.stage.chunks.values())) as meter:
        meter.follow(some, "temporary")  # the batch's own, no activation
        way.run(some, some)
    return way.grid.at["pp"], max(row["activations"] for row in meter.timeline().rows)


def test_a_rank_holds_what_the_formulas_say():
    def run():
        kept = {
            name: [held(layers, layout) for layers in (2, 4)] for name, (layout, _) in WAYS.items()
        }
        return [placed(*one) for one in PLACED], kept

    placements, kept = zip(*launch.run(run, 4, timeout=PATIENCE), strict=True)
    for found in placements:
        for (model, layout), (stage, own, states_of) in zip(PLACED, found, strict=True):
            check_states(model, Layout(**layout), stage, own, states_of)
    for name, (layout, attention) in WAYS.items():
        check_peaks(Layout(**layout | {"micro_batch": B}), attention, [one[name] for one in kept])


def check_states(model, layout, stage, own, kept):
    """Parameters exactly, and Adam's moments of a dense model's: a shard, padded."""
    assert own == states.stage_parameters(model, layout, stage).total
    if model is GPT:
        assert own <= kept * layout.replicas <= own + 8 * layout.replicas


def check_peaks(layout, attention, found):
    """Activations at the fullest moment: what a layer adds exactly, and all but token numbers."""
    peaks = {}
    for (stage, few), (_, many) in found:
        of = {"stage": stage, "tokens": TOKENS, "bytes_per_element": NUMBER}
        of |= {"attention": attention, "small_tensors": True}
        least, most = (activations.stage(GPT.but(layers=n), layout, **of).total for n in (2, 4))
        assert many - few == most - least
        assert most <= many <= 1.1 * most
        peaks[most] = many
    assert peaks[max(peaks)] == max(peaks.values())  # the formula knows the fullest rank
