"""mathlib plan: the planner's ranking as a table and as data; stopped, it is the best so far."""

import json

import pytest
from command_line import answered, args, ended

from mathlib.cli import plans, steps, terminal
from mathlib.cli.options import model_of
from mathlib.plan import planner, step
from mathlib.plan.calibration import out_of_memory
from mathlib.plan.room import Room, find_keeps
from mathlib.specs import Layout, find_device

LEFT = find_device("a100-80gb").room - 4e9
MIX = ("tensor", "pipeline", "expert", "zero")
LINE = "plan llama2-7b --cluster dgx-a100 --devices 8 --batch 16"


def found(line):
    typed = args(line)
    on = steps.machine_of(typed, model_of(typed))
    return on, planner.search(on, devices=8, sequences=16, most=10, risk=0.05)


def test_a_ranking_is_the_librarys(capsys):
    data = answered(f"{LINE} --variants", capsys)
    on, ranking = found(LINE)
    assert (data["tried"], data["fitting"]) == (ranking.tried, ranking.fitting)
    assert data["complete"] is True and data["between"]["low"] == ranking.between.low
    for row, choice in zip(data["layouts"], ranking.choices, strict=True):
        assert Layout(**row["layout"]) == choice.layout and row["reason"] == choice.reason
        assert row["step"]["value"] == choice.seconds and row["memory"]["value"] == choice.memory


def test_the_table_has_a_column_for_what_is_used_and_the_reasons(capsys):
    plans.plan_command(args(f"{LINE} --variants"))
    head, _, first, second = capsys.readouterr().out.splitlines()[2:6]
    on, ranking = found(LINE)
    assert head.split()[:1] == ["#"] and head.split()[-1] == "why"
    assert "expert" not in head, "no layout of a dense model deals out experts"
    assert ranking.choices[1].reason in second and first.split()[0] == "1"


def test_a_narrow_terminal_keeps_time_and_memory_and_tells_once_what_is_alike(monkeypatch, capsys):
    line = (
        "plan mixtral-8x7b --device h100-sxm --devices 16 --batch 64 --tokens 4k --variants --top 5"
    )
    plans.plan_command(args(line))
    whole = capsys.readouterr().out.splitlines()[2].split()
    monkeypatch.setattr(terminal, "width", lambda: 80)
    plans.plan_command(args(line))
    lines = capsys.readouterr().out.splitlines()
    head = next(one for one in lines if one.startswith("#")).split()
    alike = next(one for one in lines if one.startswith("all: "))
    assert {"step", "memory", "MFU"} <= set(head) and "why" not in head
    assert set(whole) - {"why"} - set(head) == {one.split()[0] for one in alike[5:].split(", ")}
    assert "2  as quick" in lines and all(len(one) <= 80 for one in lines)
    plans.plan_command(args(line.replace("--top 5", "--top 1")))
    assert "all: " not in capsys.readouterr().out, "one layout is not like others"


def test_what_room_there_is_decides(capsys):
    tight = answered(f"{LINE} --memory 40GB --top 3", capsys)
    assert len(tight["layouts"]) == 3
    assert all(one["memory"]["value"] <= 36e9 for one in tight["layouts"])
    code, out, _ = ended(f"{LINE} --memory 8GB", capsys)
    assert code == 1 and "none of" in out and "40 devices would do: " in out
    none = json.loads(ended(f"{LINE} --memory 8GB --json", capsys)[1])
    assert none["layouts"] == [] and none["enough"] == 40


def test_a_search_is_followed_and_ends_with_the_best_so_far(monkeypatch, capsys):
    heard = []

    def enough(done):
        heard.append(done)
        raise KeyboardInterrupt

    monkeypatch.setattr(plans, "follow", enough)
    line = "plan mixtral-8x7b --device h100-sxm --devices 64 --batch 512 --tokens 4k"
    data = answered(line, capsys)
    assert heard and data["complete"] is False and data["layouts"]
    plans.plan_command(args(line))
    assert "the search was stopped: this is the best until then" in capsys.readouterr().out


def test_progress_says_how_far_and_how_to_end(monkeypatch):
    said = []
    monkeypatch.setattr(terminal, "progress", said.append)
    plans.follow(planner.search.__globals__["Progress"](0.25, 20_000, 3, 1.5))
    assert said == ["25%, 20,000 layouts, best 1.5 s (Ctrl-C: enough)"]


TIGHT = "plan llama3-70b --cluster dgx-a100 --devices 16 --batch 8 --tokens 4k --top 3"


def test_a_row_says_how_likely_it_runs_out_of_memory_and_less_can_be_asked(capsys):
    assert ended(TIGHT, capsys)[0] == 1, "none at a risk of 5%, which is what counts"
    rows = answered(f"{TIGHT} --risk 100%", capsys)["layouts"]
    assert rows[0]["risk"] > 0.5, "81.7 of 81.9 GB"
    for one in rows:
        assert one["risk"] == out_of_memory(needed=one["memory"]["value"], memory=LEFT)
    careful = answered(f"{TIGHT.replace('--batch 8', '--batch 16')} --offload --risk 10%", capsys)
    assert careful["layouts"] and all(one["risk"] <= 0.1 + 1e-9 for one in careful["layouts"])
    plans.plan_command(args(f"{TIGHT} --risk 100%"))
    head, _, first, *_ = capsys.readouterr().out.splitlines()[2:]
    column = head.split().index("OOM") - head.split().index("memory")
    assert column == 1 and f"{rows[0]['risk']:.0%}" in first
    assert ended(f"{TIGHT} --risk 10%", capsys)[0] == 1


def test_a_ranking_leads_with_what_will_probably_run(capsys):
    rows = answered("plan llama3-8b --device a100-80gb --devices 4 --batch 64", capsys)["layouts"]
    assert len(rows) == 10 and all(one["risk"] <= 0.05 + 1e-9 for one in rows)


def test_layouts_that_wait_on_the_host_say_so_and_are_as_slow_as_they_are(capsys):
    line = "plan llama3-70b --cluster dgx-a100 --devices 8 --batch 8 --tokens 4k --top 3"
    assert ended(line, capsys)[0] == 1
    rows = answered(f"{line} --offload", capsys)["layouts"]
    typed = args(f"{line} --offload")
    on = steps.machine_of(typed, model_of(typed))
    for one in rows:
        assert one["offload"] in ("states", "both")
        took = step.step(on, Layout(**one["layout"]), offload=one["offload"]).total
        assert one["step"]["value"] == pytest.approx(took)
        there = step.utilization(on, Layout(**one["layout"]), offload=one["offload"])
        assert one["mfu"] == there < step.utilization(on, Layout(**one["layout"]))
    plans.plan_command(args(f"{line} --offload"))
    out = capsys.readouterr().out
    assert "offload" in out.splitlines()[2].split() and "no run behind that interval" in out
    quick = answered(f"{line} --offload --host-link 500GB/s --host-bandwidth 5TB/s", capsys)
    assert quick["layouts"][0]["step"]["value"] < rows[0]["step"]["value"]
    assert ended(f"{line} --offload --host-memory 80GB", capsys)[0] == 1


def test_a_plan_says_what_it_takes_a_program_to_keep(capsys):
    usual, own = (
        answered(f"{LINE} --top 1{more}", capsys) for more in ("", " --program megatron-flash")
    )
    assert usual["keeps"].startswith("mixed-adam-fp32-gradients, a gate's matmul fused, 6 bytes")
    assert own["keeps"].startswith("mixed-adam, ") and "whole vocabulary" in own["keeps"]
    for data, program in ((usual, "megatron-core"), (own, "megatron-flash")):
        room = Room(model_of(args(LINE)), 4096, keeps=find_keeps(program))
        (row,) = data["layouts"]
        assert row["memory"]["value"] == pytest.approx(room.total(Layout(**row["layout"])))
    plans.plan_command(args(f"{LINE} --recipe mixed-adam"))
    assert "memory counted as megatron-core fills it: mixed-adam, " in capsys.readouterr().out


def test_ten_rows_are_ten_mixes_unless_all_are_asked_for(capsys):
    line = "plan llama3-8b --device h100-sxm --devices 64 --batch 512"
    mixes, variants = (answered(f"{line}{o}", capsys)["layouts"] for o in ("", " --variants"))
    of = [[tuple(row["layout"][a] for a in MIX) for row in rows] for rows in (mixes, variants)]
    assert len(mixes) == len(variants) == 10 and mixes[0]["layout"] == variants[0]["layout"]
    assert len(set(of[0])) == 10 > len(set(of[1]))
    times = [row["step"]["value"] for row in mixes]
    assert times == sorted(times)


def test_a_plan_keeps_to_what_was_asked(capsys):
    line = "plan llama3-8b --device h100-sxm --devices 64 --batch 512 --variants --top 30"
    asked = "--only zero=3,recompute=none --most tensor=4,micro-batch=2"
    data = answered(f"{line} {asked}", capsys)
    for row in (one["layout"] for one in data["layouts"]):
        assert (row["zero"], row["recompute"]) == (3, "none"), row
        assert row["tensor"] <= 4 and row["micro_batch"] <= 2, row
    assert len({one["layout"]["tensor"] for one in data["layouts"]}) > 1
    assert 0 < data["tried"] < answered(line, capsys)["tried"]
    for wrong, said in (
        ("--only zera=3", "did you mean zero"),
        ("--only zero", "expected such as"),
        ("--only recompute=some", "recompute = 'some'"),
        ("--only zero=4", "zero = 4: expected"),
        ("--most recompute=full", "most"),
        ("--most tensor=0", "tensor"),
    ):
        code, _, err = ended(f"{line} {wrong}", capsys)
        assert code == 2 and said in err, err
    code, out, _ = ended(f"{line} --only tensor=3", capsys)
    assert code == 1 and "no layout is as asked: degrees multiply to the devices" in out


def test_what_fits_keeps_to_it_too(capsys):
    free, bound = (
        answered(f"fit llama3-70b --device h100-sxm{o}", capsys)["answers"][0]
        for o in ("", " --most tensor=2")
    )
    assert bound["layout"]["tensor"] <= 2 < free["layout"]["tensor"]
    line = "fit llama3-70b --device h100-sxm --devices 64 --tokens 8k"
    pure = answered(f"{line} --only zero=3,tensor=1,pipeline=1,context=1", capsys)["answers"][0]
    assert pure["layout"]["zero"] == 3 and pure["layout"]["data"] == 64 and pure["value"] > 0
