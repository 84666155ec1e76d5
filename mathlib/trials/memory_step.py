"""A training step of a small GPT, byte by byte: where it is fullest, and where it dies.

Limits are laid on recorded steps, so nothing here depends on this machine's memory.
"""

from typing import Any

import torch

from mathlib import specs
from mathlib.memory import fit, one_device
from mathlib.meters import live
from mathlib.model import gpt
from mathlib.parts import Parts
from mathlib.trials.memory import SHAPE, P

IN_32_BITS: dict[str, Any] = {
    "recipe": "adam-fp32",
    "bytes_per_element": 4,
    "small_tensors": True,
}
WORDY = gpt.small(layers=3, width=128, vocab=4008, context=64)  # V/h of Llama 3 8B
KINDS = ("weights", "optimizer", "gradients", "activations", "temporary")
AXIS = "large allocations and releases, in order (not in time)"


def words(shape: specs.Model, sequences: int, tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(0)
    found = torch.randint(shape.vocab, (sequences, tokens), generator=draw)
    return found, found.clone()


def watched(
    shape: specs.Model = SHAPE,
    sequences: int = 8,
    *,
    lengths: tuple[int, ...] = (64, 64),
    recompute: str = "none",
    update: str = "for-loop",
    parts: int = 1,
    resumed: bool = False,
) -> live.Timeline:
    """Steps with torch's AdamW in 32 bits, a step for each length; resumed: states are there."""
    model = gpt.GPT(shape, recompute=recompute)
    foreach, fused = update == "foreach", update == "fused"
    optimizer = torch.optim.AdamW(model.parameters(), foreach=foreach, fused=fused)
    if resumed:
        model.loss(*words(shape, 1, 1)).backward()
        optimizer.step()
        optimizer.zero_grad()
    batches = (words(shape, sequences, s) for s in lengths for _ in range(parts))
    return live.step_timeline(model, batches, optimizer, parts)


def needed(
    shape: specs.Model = SHAPE, sequences: int = 8, *, update: str = "for-loop", **layout: Any
) -> Parts:
    """The fullest moment of such a step by the formula."""
    how = specs.Layout(micro_batch=sequences, **layout)
    return fit.training(shape, how, optimizer=update, **IN_32_BITS)


def peaks(line: live.Timeline) -> list[int]:
    """The most bytes alive in each step."""
    return [max(line.total(row) for row in range(*span)) for span in line.steps()]


def drawn(
    line: live.Timeline, step: int | None = None, share: float | None = None
) -> dict[str, Any]:
    """The rows and marks of `memory_line`: all steps, or the large changes of one, or those of all
    that are beyond a `share` of the peak.
    """
    first, last = (0, len(line.rows)) if step is None else line.steps()[step]
    share = (0 if step is None else 0.01) if share is None else share
    least = share * line.total(line.peak)
    rows: list[dict[str, int]] = []
    marks: list[tuple[int, str]] = []
    for i in range(first, last):
        now = {kind: line.rows[i][kind] for kind in KINDS}
        if i in (first, line.peak) or any(abs(now[k] - rows[-1][k]) > least for k in KINDS):
            rows.append(now)
        ends = [name for end, name in line.marks if end == i + 1 and name != "step"]
        marks += [(len(rows), "update" if name == "zero_grad" else name) for name in ends]
    return {"rows": rows, "marks": marks, "peak": True}


def dies(line: live.Timeline, limit: float) -> tuple[str, str]:
    """In which phase of a step it runs out of memory, and what grew most since the fullest moment
    that fitted, or since the model was loaded.
    """
    row = next((i for i in range(len(line.rows)) if line.total(i) > limit), None)
    if row is None:
        return "never", ""
    begin = max(start for start, _ in line.steps() if start <= row)
    now, before = line.rows[row], {"weights": line.rows[row]["weights"]}
    if begin:  # the steps before this one fitted
        before = line.rows[max(range(begin), key=line.total)]
    where = line.first_beyond(limit).replace("step of", "update of")
    return where, max(now, key=lambda kind: now[kind] - before.get(kind, 0))


def devices() -> list[float]:
    """Limits halfway between two sizes of the formulas, the last above them all: weights, the end
    of forward and the fullest moment of the first step, the same of the second.
    """
    points = one_device.moments(
        SHAPE, specs.Layout(micro_batch=8), optimizer="for-loop", **IN_32_BITS
    )
    ends = points["end of forward"].total, max(parts.total for parts in points.values())
    sizes = [4 * P, *(size - 8 * P for size in ends), *ends, 1.05 * ends[1]]
    return [(less + more) / 2 for less, more in zip(sizes, sizes[1:], strict=False)]


def fullest_at(name: str, sequences: int = 1, recompute: str = "none", **how: Any) -> str:
    """The moment of a step at which a model needs the most; of equals the last."""
    layout = specs.Layout(micro_batch=sequences, recompute=recompute)
    points = one_device.moments(name, layout, **how)
    return max(reversed(points), key=lambda moment: points[moment].total)


def points(name: str) -> dict[str, dict[str, float]]:
    """Bytes alive at each moment of a step on one sequence, by kind."""
    found = one_device.moments(name, specs.Layout())
    return {moment: {kind: one.amount(kind) for kind in one} for moment, one in found.items()}
