"""The cluster that is computed: what the chapter says, and limits that move the right way."""

import pytest

from mathlib.trials import data_parallel_cluster as cluster


def test_the_best_bucket_is_larger_the_more_rounds_there_are():
    rows = {name: row for name, *row in cluster.bucket_rows()}
    assert [row[2] for row in rows.values()] == ["240 MiB", "120 MiB", "25 MiB"]
    for default, best, _, one in rows.values():
        assert float(best) <= min(float(default), float(one))


def test_tokens_that_hide_the_gradients():
    found = cluster.enough()
    rings = 2 * 4e9 * 7 / 8 / cluster.charged(4e9, 1)  # bytes/s, by NCCL's model: the switch
    assert found["NVLink's switch, 8 ranks"] == pytest.approx(cluster.tokens(rings, 8), rel=0.03)
    assert [-(-tokens // 2048) for tokens in found.values()] == [1, 1, 2, 8, 31]
    assert cluster.tokens(cluster.CARD, 64, e=2) == pytest.approx(list(found.values())[3] / 2)
    for billions in (1, 70):
        printed, derived = cluster.as_printed(1e9 * billions)
        assert printed == pytest.approx(1e9 * billions / 2 * derived)


def test_many_ranks_lose_by_queueing_buckets_and_by_the_update():
    by_way = {name: [y for _, y in points] for name, points in cluster.shares().items()}
    update, two, four = by_way.values()
    for shares in by_way.values():
        assert shares == sorted(shares, reverse=True)
    assert all(a >= b >= c for a, b, c in zip(update, two, four, strict=True))
    assert [round(shares[-1]) for shares in by_way.values()] == [79, 75, 49]
    assert max(update[4], two[4], four[4]) - min(update[4], two[4], four[4]) < 1
    fill = 4 * cluster.P * cluster.BATCH / 256 / cluster.speed() / 96
    travel = cluster.charged(4 * cluster.P / 96, 32)
    assert (round(1e3 * fill, 2), round(1e3 * travel, 2)) == (0.22, 0.46)
    assert round(1e3 * cluster.UPDATE, 1) == 8.4


def test_nccl_chooses_by_size_and_place():
    places = (1e4, 1), (25 * 2**20, 1), (25 * 2**20, 64, 1)
    assert [cluster.chosen(*place) for place in places] == ["ring", "NVLS", "tree"]
