"""Groups of layers and a loss in chunks: lowest where the formulas say, in the run, too."""

import json
from pathlib import Path

import pytest
import torch

from mathlib.memory import kept
from mathlib.meters import live
from mathlib.trials import activations_step as step


def test_the_run_is_lowest_where_the_formula_is():
    found = step.groups()
    assert min(found, key=lambda q: found[q][0]) == min(found, key=lambda q: found[q][1]) == 2
    assert all(law < ran < 1.12 * law for law, ran in found.values())


def test_layers_together_by_depth():
    assert [step.lowest(name) for name in step.DEEP] == [1, 2, 3]
    lines = step.over_lowest()
    assert [round(lines[title][0][1], 2) for title in ("8B", "70B", "405B")] == [1, 1.25, 1.47]
    assert min(size for _, size in lines["run"]) == 1


def test_with_a_whole_loss_groups_are_larger():
    for name, best in zip(step.DEEP, (8, 4, 3), strict=True):
        assert min(step.MOST, key=lambda q, name=name: step.with_loss(name, q)) == best
    assert step.again("llama3-8b", 1) == pytest.approx(
        kept.overhead(kept.curve("llama3-8b")[0], "llama3-8b")
    )
    assert step.again("llama3-8b", 1) < step.again("llama3-8b", 32) < 1 / 3


def test_a_loss_in_chunks_is_the_same_and_smaller():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step, "WORDY", step.WORDY.but(vocab=16000))
        found = step.losses()
    assert found.apart < 1e-5 and found.peaks[1] < found.peaks[0] / 2
    for planned, ran in found.pairs.values():
        assert ran == pytest.approx(planned, rel=0.1)


def test_the_chapters_own_chunk_has_the_peak_of_the_formula():
    cells = json.loads(Path("chapters/activations.ipynb").read_text("utf-8"))["cells"]
    (code,) = [text for c in cells if "def one_chunk" in (text := "".join(c["source"]))]
    scope = {"torch": torch}
    exec(code, scope)  # the cell, as a reader copies it
    n, h, V = 256, 32, 16000
    x, y, head = torch.randn(n, h), torch.randint(V, (n,)), torch.nn.Linear(h, V, bias=False)
    with live.live(head) as meter:
        for tensor in (x, y):
            meter.follow(tensor, "temporary")
        to_head, parts = torch.zeros(V, h), zip(x.chunk(8), y.chunk(8), strict=True)
        found = [scope["one_chunk"](a, head.weight, b, to_head) for a, b in parts]
    most = max(sum(row.values()) - row["weights"] for row in meter.timeline().rows)
    assert most == pytest.approx(4 * (n * h + V * h) + 8 * n * V / 8, rel=0.02)
    mean = torch.nn.functional.cross_entropy(head(x), y)
    mean.backward()
    assert sum(loss for loss, _ in found) / n == pytest.approx(mean.item(), rel=1e-5)
    assert torch.allclose(to_head / n, head.weight.grad, atol=1e-6)
