"""A batch meets other weights on each worker, and every bar is a stage."""

import pytest
from charts import drawn, said, widths, words

from mathlib.checks import InputError
from mathlib.show.schemes import schedules

HELD = {"as it is": [580e3, 449e3, 316e3, 180e3], "there and back": [596e3, 590e3, 590e3, 586e3]}


def test_batch_5_meets_four_versions_with_pipedream_and_one_with_2bw():
    for chart in widths(schedules.versions_met()):
        assert "PipeDream: batch 5 meets version 1, 2, 3, 4" in said(chart)
        assert "2BW: batch 5 meets version 0, 0, 0, 0" in said(chart)
    written = words(drawn(schedules.versions_met()))
    assert [w for w in written if w.startswith("worker")] == [
        f"worker {s}" for s in (1, 2, 3, 4)
    ] * 2
    with pytest.raises(InputError, match="batch"):
        schedules.versions_met(batch=20)
    with pytest.raises(InputError, match="until"):
        schedules.versions_met(until=45)


def test_every_stage_of_every_way_has_its_bar():
    notes = {"as it is": "105 units", "there and back": "97.5 units"}
    for chart in widths(schedules.stages_hold(HELD, notes, title="What stages hold")):
        bars = [float(r.get("height")) for r in chart.iter() if r.tag.endswith("rect")]
        tall = [h for h in bars if h != 13]
        assert len(tall) == 8 and max(tall) == tall[4]
        assert "there and back, 97.5 units" in said(chart)
    with pytest.raises(InputError, match="notes"):
        schedules.stages_hold(HELD, {}, title="What stages hold")


def test_a_matmul_has_one_forward_and_two_backwards():
    for chart in widths(schedules.two_halves()):
        assert "I is dy times w, the gradient of x" in said(chart)
    written = words(drawn(schedules.two_halves()))
    assert [w for w in written if w in ("y", "dx", "dw")] == ["y", "dx", "dw"]
    assert {"Forward", "Backward, I", "Backward, W"} <= set(written)


def test_layers_are_dealt_out_as_the_orders_place_them():
    for chart in widths(schedules.dealt()):
        assert "One chunk a stage: 0, 0, 1, 1, 2, 2, 3, 3" in said(chart)
        assert "in rounds: 0, 1, 2, 3, 0, 1, 2, 3" in said(chart)
        assert "there and back: 0, 1, 2, 3, 3, 2, 1, 0" in said(chart)
    with pytest.raises(InputError, match="layers"):
        schedules.dealt(layers=9)
