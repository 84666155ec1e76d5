"""mathlib grade: the task, the start, a program graded, a folder of them."""

import pytest
from command_line import answer_of
from solutions import edited

from mathlib.cli import workshop
from mathlib.workshop import grade


@pytest.fixture
def file(tmp_path):
    def write(name, text):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
        return path

    return write


def test_the_task_is_shown_with_its_start_and_tests(run):
    ring = grade.find("ring")
    code, out, err = run("grade ring")
    assert (code, err) == (0, "") and out.startswith("Ring all-reduce\n")
    assert all(sentence in out for sentence in ring.sentences) and ring.start in out
    assert "4 ranks, 12 numbers; bytes sent at most 72 (2 K (N-1)/N)" in out
    assert run("grade ddp")[1].count("A program finds: all_gather, all_reduce, ") == 1


def test_a_start_can_be_written_to_a_file_and_graded(run, file):
    code, out, _ = run("grade ring --start")
    path = file("my_ring.py", out)
    code, out, err = run(f"grade ring {path}")
    assert (code, err) == (1, "") and out.endswith("rank 0 still has its own gradient\n")


def test_a_right_one_says_what_it_took(run, file):
    path = file("my_ring.py", edited("ring"))
    code, out, err = run(f"grade ring {path}")
    assert (code, err) == (0, "") and out.endswith("\nright\n")
    assert "bytes sent 72 of 72, time 24 of 24" in out
    data = answer_of(run, f"grade ring {path}")
    assert data["right"] and data["first"] is None
    assert data["tests"][0]["took"]["bytes sent"] == {"value": 72.0, "unit": "byte"}
    assert data["tests"][0]["most"]["time"] == {"value": 24.0, "unit": "second"}


def test_a_right_one_runs_on_real_processes(run, file):
    path = file("my_ring.py", edited("ring"))
    code, out, err = run(f"grade ring {path} --real 2")
    assert (code, err) == (0, "")
    told = (
        "2 ranks, 5 numbers, on 2 processes: the same results, 80 bytes of numbers sent by a rank"
    )
    assert out.endswith(f"{told}\n")
    (row,) = answer_of(run, f"grade ring {path} --real 2")["real"]
    assert row == {
        "says": "2 ranks, 5 numbers",
        "wrong": None,
        "sent": {"value": 80, "unit": "byte"},
    }
    assert "--real 9: ring has tests of these numbers" in run(f"grade ring {path} --real 9")[2]
    wrong = file("wrong.py", grade.find("ring").start)
    assert run(f"grade ring {wrong} --real 2")[0] == 1


def test_a_syntax_error_is_a_wrong_program(run, file):
    code, out, _ = run(f"grade ring {file('my.py', 'x = (')}")
    assert code == 1 and "line 1: SyntaxError: '(' was never closed" in out


def test_hints_and_the_list(run):
    for n, hint in enumerate(grade.find("ring").hints, 1):
        assert run(f"grade ring --hint {n}")[:2] == (
            0,
            f"Ring all-reduce\n\nHint {n} of 3: {hint}\n",
        )
    listed = answer_of(run, "grade --list")["puzzles"]
    assert {one["name"] for one in listed} == set(grade.names())
    assert [one["grade"] for one in listed] == sorted(one["grade"] for one in listed)


def test_a_folder_is_graded_file_by_file(run, file, tmp_path):
    file("ada/ring.py", edited("ring"))
    file("bob/scatter_gather.py", grade.find("scatter-gather").start)
    file("bob/ring.py", "import os\nos._exit(3)")
    file("bob/notes.py", "")
    code, out, err = run(f"grade --all {tmp_path}")
    assert (code, err) == (1, "")
    assert "1 of 3 right; not called as a puzzle is: bob/notes.py" in out
    data = answer_of_wrong(run, f"grade --all {tmp_path}")
    told = {one["file"]: one["first"] for one in data["solutions"]}
    assert told["ada/ring.py"] is None and "ended with status 3" in told["bob/ring.py"]
    assert "rank 0 still has its own gradient" in told["bob/scatter_gather.py"]


def answer_of_wrong(run, line):
    import json

    code, out, _ = run(f"{line} --json")
    assert code == 1
    return json.loads(out)


def test_a_program_of_a_folder_that_does_not_end_is_stopped(monkeypatch, file):
    monkeypatch.setattr(workshop, "PATIENCE", 2)
    path = file("ring.py", "import time\ntime.sleep(1000)")
    assert workshop.alone("ring", path) == {"right": False, "first": "has not ended after 2 s"}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "no puzzle: expected a name of `mathlib grade --list`"),
        ("rings", "puzzle rings: did you mean ring"),
        ("ring nosuch.py", "nosuch.py: No such file"),
        ("ring --real 2", "--real: no effect"),
        ("ring --hint 4", "--hint 4: expected one of 1, 2, 3"),
        ("--all nosuch", "--all nosuch: expected a folder"),
        ("--list --hint 1", "--hint: no effect"),
        ("ring --list", "puzzle: no effect"),
        ("ring x.py --all .", "puzzle"),
    ],
)
def test_what_cannot_be_graded_is_refused(run, line, said):
    code, out, err = run(f"grade {line}")
    assert (code, out) == (2, "") and said in err
