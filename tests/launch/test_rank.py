"""One rank: it stands where the launcher stands, and goes when it is told to."""

import os
from pathlib import Path

import torch
from processes import mean_of_ranks

from mathlib import launch


def test_a_rank_stands_where_the_launcher_stands(tmp_path, monkeypatch):
    launch.run(mean_of_ranks, 1, 1)  # the server has started, elsewhere, with a setting of its own
    monkeypatch.delenv("TORCH_CPP_LOG_LEVEL", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOME_SETTING", "set after the server started")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "fresh_module.py").write_text("WORD = 'found'")

    def look():
        import fresh_module

        place = [os.environ[n] for n in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")]
        settings = os.environ["SOME_SETTING"], os.environ.get("TORCH_CPP_LOG_LEVEL")
        return str(Path.cwd()), settings, fresh_module.WORD, torch.get_num_threads(), place

    expected = (str(tmp_path), ("set after the server started", None), "found")
    assert launch.run(look, 2) == [(*expected, 1, [str(r), str(r), "2", "2"]) for r in range(2)]
    assert launch.run(look, 1, threads=2)[0][3] == 2
