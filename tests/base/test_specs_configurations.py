"""Public configurations: each file once, at a commit, with what a claim counts."""

from collections import Counter

import pytest

from mathlib import specs

TABLE = specs.table("configurations")


@pytest.mark.parametrize("repository", TABLE)
def test_every_file_stands_once_at_a_commit(repository):
    row = TABLE[repository]
    paths = [file["path"] for file in row["files"]]
    assert len(set(paths)) == len(paths) > 20
    assert len(row["commit"]) == 40 and row["commit"] in row["source"]
    assert all(file.keys() == row["files"][0].keys() for file in row["files"])


def test_gpt_neox_takes_stage_1_and_one_pipeline():
    files = TABLE["EleutherAI/gpt-neox"]["files"]
    assert Counter(file["zero_stage"] for file in files) == {1: 21, 0: 4}
    deep = [file["path"] for file in files if file["pipe_parallel_size"] > 1]
    assert deep == ["configs/20B.yml"] and all(file["pipe_parallel_size"] for file in files)


def test_llm_foundry_shards_everything():
    files = TABLE["mosaicml/llm-foundry"]["files"]
    assert Counter(file["sharding_strategy"] for file in files) == {"FULL_SHARD": 23}
