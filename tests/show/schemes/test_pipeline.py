"""What travels in a cut model, and what a device holds of it."""

import pytest
from charts import boxes, drawn, said, widths, words

from mathlib.checks import InputError
from mathlib.show.schemes import pipeline

AXES = ("stage ", "copy ", "half ")


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


def test_zero_holds_slices_and_fetches_the_layer_at_work():
    shown = pipeline.ways(8, 4, kinds=("Tensor", "ZeRO-3"), caption="Two ways.")
    for chart in widths(shown):
        fetched = [
            r for r in chart.iter() if r.tag.endswith("rect") and "fetched" in "".join(r.itertext())
        ]
        assert len(fetched) == 4, "one layer on each device"
        assert "tensor, a slice of each; ZeRO-3, a slice of each and the layer at" in said(chart)
    with pytest.raises(InputError, match="kinds = 'Zero'"):
        pipeline.ways(kinds=("Zero",))


def test_every_rank_of_the_grid_stands_at_its_own_place():
    for chart in widths(pipeline.cube()):
        written = words(chart)
        assert [w for w in written if w.startswith("rank ")] == [f"rank {r}" for r in range(8)]
        places = list(
            zip(*([w for w in written if w.startswith(axis)] for axis in AXES), strict=True)
        )
        assert len(set(places)) == len(places) == 8
        assert places[0b110] == ("stage 1", "copy 1", "half 0")
