"""The mutants are small, mean something else, and are caught or not as the tests end."""

import ast
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = '''"""Text with 1 number."""
LIMIT: int = 3


def mean(x, group=None):
    """Mean over the ranks, 2 words."""
    if not x or LIMIT < 2:
        raise ValueError(f"{len(x) + 1} numbers")
    total = all_reduce(x, LIMIT, group=group)
    total.count += 1
    return total / 2
'''
WANTED = {
    "3 -> (4)",
    "not x or LIMIT < 2 -> (not x and LIMIT < 2)",
    "not x -> (x)",
    "LIMIT < 2 -> (LIMIT <= 2)",
    "2 -> (3)",
    'raise ValueError(f"{len(x) + 1} numbers") -> pass',
    "all_reduce(x, LIMIT, group=group) -> (all_reduce(LIMIT, x, group=group))",
    "all_reduce(x, LIMIT, group=group) -> (all_reduce(x, LIMIT))",
    "total.count += 1 -> total.count -= 1",
    "total.count += 1 -> pass",
    "1 -> (2)",
    "return total / 2 -> return",
    "total / 2 -> (total * 2)",
}


@pytest.fixture
def mutants(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "bench")
    return importlib.import_module("mutants")


def test_a_mutant_changes_one_thing_and_no_text(mutants, monkeypatch, tmp_path):
    path = tmp_path / "mathlib" / "room" / "means.py"
    path.parent.mkdir(parents=True)
    path.write_text(SOURCE)
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    found = mutants.mutants_of(path)
    assert {f"{m.before} -> {m.after}" for m in found} == WANTED and len(found) == 14
    assert {m.module for m in found} == {"room.means"}
    for mutant in found:
        other = mutants.broken(SOURCE.encode(), mutant).decode()
        assert ast.dump(ast.parse(other)) != ast.dump(ast.parse(SOURCE))
        changed = [
            a for a, b in zip(SOURCE.splitlines(), other.splitlines(), strict=True) if a != b
        ]
        assert [line.strip() for line in changed] == [mutant.text]


def test_how_the_tests_end_decides(mutants, tmp_path):
    try:
        for body, limit, end in (
            ("assert True", 600, "passed"),
            ("while True: ...", 1, "endless"),
            ("assert False", 600, "failed"),
        ):
            (tmp_path / "test_one.py").write_text(f"def test_one():\n    {body}\n")
            assert mutants.outcome(tmp_path, ["test_one.py"], limit) == end
    finally:
        mutants.warm(tmp_path).kill()


def test_a_mutant_is_tried_in_a_tree_that_is_whole_again_afterwards(mutants, monkeypatch, tmp_path):
    path = tmp_path / "mathlib" / "room" / "means.py"
    path.parent.mkdir(parents=True)
    path.write_text(SOURCE)
    at = SOURCE.index("3")
    mutant = mutants.Mutant("room.means", 2, "LIMIT: int = 3", "3", "(4)", at, at + 1)
    monkeypatch.setattr(mutants, "tests_of", lambda module: (["its tests"], []))
    seen = []

    def outcome(tree, tests, limit, server):
        seen.append(path.read_text())
        return "failed" if len(seen) > 1 else "passed"

    monkeypatch.setattr(mutants, "outcome", outcome)
    assert list(mutants.tried([mutant], tmp_path)) == [(mutant, "failed")]
    assert seen == [SOURCE, SOURCE.replace("= 3", "= (4)")] and path.read_text() == SOURCE
    seen.clear()
    monkeypatch.setattr(mutants, "outcome", lambda *_: "failed")
    with pytest.raises(SystemExit, match="not green without any change"):
        list(mutants.tried([mutant], tmp_path))


def test_scores_are_by_module_and_kept_beside_the_days_others(mutants, monkeypatch, tmp_path):
    one = mutants.Mutant("room.means", 2, "x = 3", "3", "(4)", 0, 1)
    other = one._replace(module="room.sums")
    found = mutants.report([(one, "failed"), (other, "endless"), (one, "passed")], seed=7)
    left = ["line 2: room.means: x = 3 | 3 -> (4)"]
    assert found["room.means"] == {
        "tried": 2,
        "caught": 1,
        "endless": 0,
        "score": 0.5,
        "seed": 7,
        "survivors": left,
    }
    assert found["room.sums"]["score"] == 1 and found["room.sums"]["survivors"] == []
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    (tmp_path / "bench").mkdir()
    mutants.keep(found)
    mutants.keep({"room.sums": found["room.means"]})
    (file,) = (tmp_path / "bench" / "results").iterdir()
    kept = mutants.json.loads(file.read_text())["modules"]
    assert {name: row["caught"] for name, row in kept.items()} == {"room.means": 1, "room.sums": 1}
    assert kept["room.sums"]["tried"] == 2


def test_every_module_has_tests_and_what_is_equal_is_still_there(mutants):
    files = mutants.modules()
    text = mutants.EQUAL.read_text("utf-8")
    equal = mutants.tomllib.loads(text).get("equal", [])
    named = {one["mutant"].split(":")[0] for one in equal}
    there = {
        mutant.name
        for path in files
        for mutant in (mutants.mutants_of(path) if mutants.named(path) in named else [])
    }
    assert {one["mutant"] for one in equal} <= there, "a line that has changed since"
    assert all(one["why"] for one in equal)
    own, others = mutants.tests_of("traffic.comm")
    assert own == ["tests/traffic/test_comm.py", "tests/traffic/test_comm_time.py"]
    assert "tests/published/test_published.py" in others
