"""What travels in a cut model, and what a device holds of it."""

import pytest
from charts import boxes, drawn, said, widths, words

from mathlib.checks import InputError
from mathlib.show.schemes import pipeline


def test_every_layer_stands_on_one_stage():
    chart = drawn(pipeline.cut(8, 4))
    written = words(chart)
    assert [f"layer {i + 1}" for i in range(8)] == sorted(w for w in written if "layer " in w)
    assert [w for w in written if w.startswith("stage ")] == [f"stage {s}" for s in range(4)]
    assert "4 stages of 2 layers" in said(chart)
    with pytest.raises(InputError, match="stages"):
        pipeline.cut(9, 4)


@pytest.mark.parametrize("devices", [2, 4])
def test_a_pipeline_and_tensor_parallelism_hold_the_same_area(devices):
    for chart in widths(pipeline.ways(8, devices)):
        held = [
            (w, h)
            for r in chart.iter()
            if r.tag.endswith("rect")
            if (w := float(r.get("width"))) and (h := float(r.get("height")))
        ]
        data, tensor, stage = (held[i * devices] for i in range(3))
        for wide, high in (tensor, stage):
            assert wide * high * devices == pytest.approx(data[0] * data[1], rel=0.02)
    assert boxes(chart)
