"""The layout prover in a page: the prover's verdict, in words and by rank."""

import contextlib
import random
import re

from mathlib.checks import InputError
from mathlib.explore.together_prover import OFFERED
from mathlib.layout import Layout
from mathlib.prover import faults
from mathlib.prover.case import case
from mathlib.prover.prove import prove
from mathlib.show.experiments import find

EXPERIMENT = find("layout-prover")
SMALL = {"data": 1, "tensor": 1, "pipeline": 1, "context": 1, "zero": 0}


def test_a_fault_is_named_by_tensor_and_rank_with_what_differs_on_each():
    html = EXPERIMENT.run()
    layout = Layout(data=2, tensor=2, pipeline=2, micro_batches=2, zero=1)
    verdict = prove(case(layout), faults.find("query-key-norm").program)
    assert str(verdict.first) in html and "heads share" in html
    told = re.search(r"Tensors that differ, of (\d+)\. ([^<]*)", html)
    by_rank = [int(n) for n in re.findall(r": (\d+)", told[2])]
    assert int(told[1]) == verdict.tensors and sum(by_rank) == len(verdict.differences)
    assert by_rank == [sum(d.rank == r for d in verdict.differences) for r in range(8)]
    assert "activations are right" in html
    assert "activations are right" not in EXPERIMENT.run({"fault": "mlp-sum"})
    assert "github.com/NVIDIA-NeMo/RL/issues/3716" in html


def test_a_right_layout_is_equal_and_so_is_a_fault_that_meets_nothing():
    right = EXPERIMENT.run({"fault": "nothing"})
    assert "Equal to one process" in right and "Done wrong" not in right
    harmless = EXPERIMENT.run({"tensor": 1})
    assert "Equal to one process" in harmless and "could spoil" in harmless
    stuck = EXPERIMENT.run({**SMALL, "expert": 2, "data": 2, "fault": "not-put-back"})
    assert "Not equal to one process" in stuck


def test_more_than_eight_ranks_are_refused_with_what_is_possible():
    html = EXPERIMENT.run({"data": 4, "pipeline": 4})
    assert "Not possible: 32 ranks" in html and "replicas can be: 1" in html


def test_every_fault_offered_is_the_library_s_and_no_setting_raises():
    every = faults.every()
    for axis, names in OFFERED.items():
        assert all(every[name].axis == axis for name in names)
    names, draw, answered = ["nothing", *sum(OFFERED.values(), ())], random.Random(3), 0
    for name in names:
        degrees = {c: draw.choice((1, 2, 4)) for c in ("data", "tensor", "pipeline", "expert")}
        given = degrees | {"zero": draw.randrange(4), "sequence": draw.random() < 0.5}
        with contextlib.suppress(InputError):
            html = EXPERIMENT.draw(**EXPERIMENT.values({**given, "fault": name, "context": 1}))
            answered += "one process" in html or "hang" in html
    assert answered > 5
