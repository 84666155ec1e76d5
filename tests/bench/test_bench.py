"""The bench runs, and its ratios are what they say: their time over ours, round by round."""

import importlib
import json
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from mathlib import launch
from mathlib.cli.registry import MODULES
from mathlib.explore import plan
from mathlib.meters.trace import Event
from mathlib.show.experiments import find

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(BENCH)
    return importlib.import_module


def test_the_minutes_of_a_part_are_kept_and_said(bench, monkeypatch, tmp_path):
    minutes, given = bench("minutes"), (BENCH / "results/minutes.md").read_text("utf-8")
    assert [line.split(" | ")[0] for line in given.splitlines()[4:]] == [
        f"| {part}" for part in minutes.PARTS
    ]
    monkeypatch.setattr(minutes, "TABLE", tmp_path / "minutes.md")
    minutes.TABLE.write_text(given)
    ran = []
    git = lambda command, **_: (ran.append(command), SimpleNamespace(stdout="abc1234\n"))[1]  # noqa: E731
    monkeypatch.setattr(minutes, "machine", lambda: {"cpu": "some"})
    monkeypatch.setattr(minutes.subprocess, "run", git)
    minutes.main(["runs"])
    assert ran[1:] == [["make", "test-runs"]]
    now = minutes.TABLE.read_text().splitlines()
    (changed,) = set(now) - set(given.splitlines())
    assert changed.startswith("| runs | 0.0 | abc1234 | some, ") and len(now) == 4 + len(
        minutes.PARTS
    )
    monkeypatch.undo()
    said = subprocess.run(["make", "part-3"], cwd=BENCH.parent, capture_output=True, text=True)
    (kept,) = [line.split(" | ")[1] for line in given.splitlines() if line.startswith("| runs")]
    assert f"(about {int(float(kept) + 0.5)} min)" in said.stdout


def test_a_ratio_is_that_of_a_typical_round(bench):
    times = {"ours": [1.0, 1.0, 2.0, 10.0], "theirs": [2.0, 3.0, 4.0, 10.0]}  # ratios 2, 3, 2, 1
    row = bench("rounds").row("a step", times, "ours", "theirs", ranks=2)
    assert (row["ratio"], row["ours_seconds"], row["theirs_seconds"], row["rounds"]) == (
        2,
        1.5,
        3.5,
        4,
    )
    assert row["low"] < 2 < row["high"] and row["ranks"] == 2


def test_candidates_are_timed_on_all_ranks_in_a_new_order_each_round(bench):
    def order() -> tuple[list[str], dict]:
        ran: list[str] = []
        times = bench("rounds").on_ranks(
            {name: lambda name=name: ran.append(name) for name in "abc"}, 8, warm_up=1
        )
        return ran, times

    (ran, times), (other, same) = launch.run(order, 2)
    assert ran == other and times == same and {len(rounds) for rounds in times.values()} == {8}
    rounds = {tuple(ran[i : i + 3]) for i in range(0, len(ran), 3)}
    assert all(sorted(names) == ["a", "b", "c"] for names in rounds) and len(rounds) > 2


def test_every_section_is_found_and_stands_in_the_readme(bench):
    sections = bench("run").SECTIONS
    assert {"ddp", "launch", "ring"} <= set(sections) and not {"run", "rounds"} & set(sections)
    described = (BENCH / "README.md").read_text("utf-8").lower()
    assert all(f"**{name}.**" in described for name in sections)
    assert all(callable(bench(name).rows) for name in sections)


def test_who_ends_a_bench_early_keeps_what_was_measured(bench, monkeypatch, tmp_path):
    run, row = bench("run"), bench("rounds").row("a step", {"a": [1.0], "b": [2.0]}, "a", "b")

    def rows(quick: bool):
        yield row
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "HERE", tmp_path)
    monkeypatch.setattr(bench("ring"), "rows", rows)
    monkeypatch.setattr("sys.argv", ["run.py", "--keep", "ring"])
    with pytest.raises(KeyboardInterrupt):
        run.main()
    assert json.loads(run.kept().read_text())["sections"] == {"ring": [row]}


def test_what_is_compared_runs(bench):
    for times in launch.run(bench("ring").all_sizes, 2, [1024], True)[0]:
        assert {"gloo", "ring", "tree"} < set(times)
    small = bench("shapes").shape(layers=1, width=32)
    times, size = launch.run(bench("ddp").race, 2, small, True)[0]
    assert {"mini DDP", "torch DDP", "naive"} < set(times) and size < 1e6
    names = list(bench("zero").CANDIDATES)
    (raced, *_) = launch.run(bench("zero").race, 4, names, small, True)
    assert set(raced) == set(names)
    raced = launch.run(bench("slowed").race, 2, names[:2], small, 100e6, 1)[0]
    assert set(raced) == set(names[:2])


def test_costs_beside_the_sleep_are_read_off_a_trace(bench):
    """A forward sleeps 50 ms and a backward 100: here each takes 2 ms more, a message 3 ms."""
    pipeline = bench("pipeline")

    def made(*events):
        return [[Event(what, kind, 0, start, end) for what, kind, start, end in events]]

    first = made(
        ("F0 of chunk 0", "compute", 0.0, 0.052),
        ("F1 of chunk 0", "compute", 0.052, 0.104),
        ("wait for B0 of chunk 0", "idle", 0.104, 0.212),
        ("B0 of chunk 0", "compute", 0.212, 0.314),
    )
    last = made(
        ("wait for F0 of chunk 1", "idle", 0.0, 0.055),
        ("F0 of chunk 1", "compute", 0.055, 0.107),
        ("wait for F1 of chunk 1", "idle", 0.1071, 0.1072),  # was there already: no waiting
        ("B0 of chunk 1", "compute", 0.107, 0.209),
    )
    cost = pipeline.costs([first, last])
    assert cost == pytest.approx((0.002, 0.003))


def test_a_step_is_planned_with_costs(bench):
    pipeline = bench("pipeline")
    for order in pipeline.PAIRS:
        schedule = pipeline.schedule_of(order, 4)
        free = pipeline.simulate(schedule, pipeline.SLOW).total
        assert pipeline.planned(schedule, pipeline.Costs(0, 0)) == pytest.approx(free)
        dearer = pipeline.planned(schedule, pipeline.Costs(0.001, 0))
        most = max(map(len, schedule.actions))  # of one stage
        assert dearer > free + 0.001 * most and dearer > pipeline.planned(
            schedule, pipeline.Costs(0.0005, 0)
        )
        assert pipeline.planned(schedule, pipeline.Costs(0, 0.001)) > free


def test_a_search_finds_what_asking_one_by_one_finds(bench):
    asked = ("gpt2", 1024, 4, 8)
    planner = bench("planner")
    assert planner.search(*asked).choices[0].seconds == pytest.approx(planner.one_by_one(*asked))


def test_every_rank_of_a_million_is_in_a_group_of_each_axis(bench):
    planner = bench("planner")
    sizes = planner.AXES | {"dp": planner.RANKS // (8 * 2 * 16)}
    assert planner.groups() == {axis: planner.RANKS // size for axis, size in sizes.items()}


def test_one_device_is_recorded_with_the_formulas_beside_it(bench, monkeypatch):
    streams = bench("device").rates.stream_rates  # so slow here that bytes decide at any load
    slow = lambda *sizes, **how: [rate / 1e6 for rate in streams(*sizes, **how)]  # noqa: E731
    monkeypatch.setattr(bench("device").rates, "stream_rates", slow)
    found = bench("device").record("cpu", quick=True)
    assert found["device"] == "CPU" and found["machine"]["torch"] and found["date"]
    for kept in found["kept"]:
        assert kept["saved_bytes"] == kept["formula_bytes"] > 0
    plain, flash = (kept["saved_bytes"] for kept in found["kept"])
    assert flash < plain
    assert {one["dtype"] for one in found["matmuls"]} == {"fp32", "bf16", "fp16"}
    assert all(one["flop_per_second"] > 0 for one in found["matmuls"])
    assert all(one["tokens_per_second"] > 0 for one in found["decode"])
    one, two = (step["formula_tokens_per_second"] for step in found["decode"])
    assert 0 < one < two, "two sequences share one reading of the weights"
    assert "CPU" in found["memory"][0]["missing"] and found["memory"][0]["foreseen_bytes"] > 0


def test_a_command_is_timed_beside_a_python_that_does_nothing(bench):
    times = bench("command").race(("--version",), 2)
    assert {name: len(each) for name, each in times.items()} == {
        "--version": 2,
        "python -c pass": 2,
    }
    words = {"--version", "--help", *MODULES}
    assert all(line.split()[0] in words for line in bench("command").LINES)


def test_a_command_starts_as_an_installed_one_even_where_nothing_may_be_compiled(
    bench, monkeypatch, tmp_path
):
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    bench("command").started(str(tmp_path), "-m", "mathlib", "--version")()
    assert list(tmp_path.rglob("parser*.pyc")), "it would compile at every start"


def test_a_change_of_the_plan_is_a_search_of_ten_thousand_layouts_that_nobody_remembers(bench):
    """Only counted here: their time is the bench's business."""
    live = bench("live")
    place, values = live.changed()
    assert find("plan").controls[place].name == "tokens"
    assert len(values) > plan.ranked.cache_info().maxsize, "a remembered answer is no search"
    assert live.searched(find("plan").run(values[0])) >= 10_000
    assert live.searched("<p>none</p>") == 0
