"""Published runs over slow links: the model's parts by hand, and what is too little in it."""

import pytest

from mathlib.schedule import events
from mathlib.schedule.cluster import Cluster, Link
from mathlib.trials import links_published as published


def test_a_broadcast_down_a_chain_takes_the_bytes_and_the_pieces_on_the_way():
    piece, pieces, N, W = 100, 10, 4, 50.0
    programs = published.broadcast(payload=piece * pieces, ranks=N, piece=piece)
    run = events.run(programs, Cluster((1,) * N, between=Link(W)))
    assert run.total == pytest.approx((pieces + N - 2) * piece / W)
    assert run.sent == [1000, 1000, 1000, 0]
    uneven = published.broadcast(payload=250, ranks=2, piece=100)
    assert [step.size for step in uneven[0]] == [100, 100, 50]


def test_local_sgd_is_a_ring_and_ddp_a_ring_and_its_buffers():
    ring = 2 * published.K * 3 / 4
    for W in (1e8, 5e8):
        assert published.seconds(W) == pytest.approx(ring / W)
        more = published.seconds(W, published.BUFFERS) - ring / W
        assert published.BUFFERS < more * W < 1.03 * published.BUFFERS
    assert published.BUFFERS == 50_331_648


def test_the_model_is_never_too_long_and_close_on_the_faster_links():
    for found in (published.synchronised(), published.ddp()):
        ratios = [run / model for model, run in found.values()]
        assert all(1 < ratio < 1.42 for ratio in ratios) and ratios == sorted(
            ratios, key=lambda r: r > 1.06
        )
        assert all(ratio < 1.06 for ratio in ratios[:2])
    without = published.ddp(buffers=0)["1 Gbit/s"]
    assert without[1] / without[0] == pytest.approx(4 / 3, rel=0.01), "the puzzle"
    assert [row[-1] for row in published.waiting_rows()][:2] == ["1.25", "1.31"]
    model, run = published.computing()["50 Mbit/s"]
    assert run == pytest.approx(0.04, abs=0.005) and run < model < 0.06


def test_streaming_printed_the_right_ratio_and_hours_that_do_not_fit():
    assert published.hours(441) == pytest.approx(980)
    law, printed = published.fewer()
    assert printed == pytest.approx(law, rel=0.01)
    assert published.streaming_rows()[0] == ["data parallel", "441", "109", "980", "122"]


def test_less_than_h_times_narrower_since_a_step_hides_a_part():
    assert pytest.approx(1e4) == published.GRID**49
    for _, printed in published.ROWS["half"]:
        assert round(published.on_grid(printed), 1) == printed
    for H, (law, low, high) in published.narrower(0).items():
        assert law == int(H.removeprefix("H = ")) > high > low
    assert all(low < law < high for law, low, high in published.narrower().values())
    assert published.narrower(1)["H = 10"][0] == 5.5
    inside = [
        x / 100
        for x in range(101)
        if all(low <= law <= high for law, low, high in published.narrower(x / 100).values())
    ]
    assert (min(inside), max(inside)) == (0.31, 0.6)
    assert published.narrower_rows()[0] == ["H = 10", "10", "7", "6.4", "5.4 to 7.9"]
