"""A small model drafts for a larger one: both learned a sonnet, the larger one better.

gamma drafted tokens of a pass · rho how likely one stays
"""

from functools import cache
from typing import NamedTuple

import torch

from mathlib.memory import decode_time
from mathlib.model import data, gpt
from mathlib.model.decoding import generate
from mathlib.model.speculation import speculate
from mathlib.specs import Model
from mathlib.trials.inference import TOY

LARGE, DRAFT = TOY, TOY.but(name="draft", layers=1, width=48)
SONNET = data.text().split("\n\n")[0]
WINDOWS = data.encode(SONNET).unfold(0, 65, 1)
MORE, AHEAD = 44, (1, 2, 4)  # letters that are added to a verse; drafted ones


@cache
def trained(shape: Model, steps: int = 300, rate: float = 6e-3) -> gpt.GPT:
    """A model that nearly knows the sonnet; in 64 bits, to end alike on every processor."""
    model, dice = gpt.GPT(shape).double(), torch.Generator().manual_seed(0)
    for weight in (w for w in model.parameters() if w.dim() > 1):
        torch.nn.init.normal_(weight, std=0.02, generator=dice)
    adam = torch.optim.AdamW(model.parameters())
    for step in range(steps):  # the rate rises, then falls to zero
        adam.param_groups[0]["lr"] = rate * min(1, (step + 1) / 50) * (1 - step / steps)
        some = WINDOWS[torch.randint(len(WINDOWS), (8,), generator=dice)]
        adam.zero_grad()
        model.loss(some[:, :-1], some[:, 1:]).backward()
        adam.step()
    return model.float().eval()


def loss(model: gpt.GPT) -> float:
    with torch.no_grad():
        return model.loss(WINDOWS[::4, :-1], WINDOWS[::4, 1:]).item()


class Yield(NamedTuple):
    tokens: float  # of a pass of the large model
    same: bool  # as those that the large model writes alone


def yields(large: gpt.GPT, draft: gpt.GPT, more: int = MORE) -> dict[int, Yield]:
    """Of each number of drafted tokens, over the verses of the sonnet, each from its beginning."""
    begun = [data.encode(verse[:16])[None] for verse in SONNET.splitlines()]
    alone = [generate(large, prompt, more) for prompt in begun]
    found = {}
    for ahead in AHEAD:
        runs = [speculate(large, draft, prompt, more, ahead) for prompt in begun]
        same = all(torch.equal(one.tokens, own) for one, own in zip(runs, alone, strict=True))
        found[ahead] = Yield(more * len(runs) / sum(one.passes for one in runs), same)
    return found


def beside(found: dict[int, Yield]) -> dict[str, tuple[float, float]]:
    """Tokens of a pass by the formula, with the rho that one drafted token shows, and counted."""
    rho = found[1].tokens - 1
    return {
        f"{n} drafted": (decode_time.drafted(acceptance=rho, ahead=n), one.tokens)
        for n, one in found.items()
        if n > 1
    }
