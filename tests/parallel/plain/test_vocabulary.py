"""Words cut over the ranks, by the oracle of one process, and by what a rank has."""

import tensor_cases
import torch
import torch.distributed as dist

from mathlib import launch
from mathlib.parallel.plain import vocabulary


def test_words_of_others_taken_for_ones_own_or_another_scale_are_seen():
    def everything(self, words):
        row = (words - self.own.start).clamp(0, len(self.own) - 1)
        return row, torch.zeros_like(row, dtype=torch.bool)

    def run():
        own_top, real = torch.distributed.ReduceOp.MAX, dist.all_reduce

        def but_the_top(x, op=dist.ReduceOp.SUM, group=None):
            return None if op == own_top else real(x, op, group)

        faults = [[(vocabulary.Words, "rows", everything)], [(dist, "all_reduce", but_the_top)]]
        return tensor_cases.broken("vocabulary", "gpt", faults)

    far = [max(found) for found in zip(*launch.run(run, 2), strict=True)]
    assert min(far) > 1e-6 and len(far) == 2, far


def test_no_rank_has_whole_logits():
    def widest():
        model, loss_of = tensor_cases.cut("vocabulary", "gpt")
        seen = []
        with torch.autograd.graph.saved_tensors_hooks(
            lambda t: seen.append(t.shape) or t, lambda t: t
        ):
            loss_of(0)
        shapes = [shape for shape in seen if shape[:2] == (tensor_cases.SEQUENCES, 12)]
        return sorted({shape[-1] for shape in shapes}), model.head.weight.shape[0]

    for widths, own in launch.run(widest, 2):
        assert own in (30, 31) and own in widths and 61 not in widths
