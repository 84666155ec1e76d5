"""mathlib prove: equal or not, in words, as data, and by its exit status."""

import pytest
from command_line import answer_of

from mathlib.cli import proofs
from mathlib.layout import Layout
from mathlib.prover import faults, prove


def test_a_right_layout_is_equal_and_says_what_was_compared(run):
    line = "prove --tensor 2 --data 2 --zero 1 --sequence-parallel"
    code, out, err = run(line)
    assert (code, err) == (0, "") and out.splitlines()[2] == "equal"
    head = "data 2, tensor 2, sequence parallel, ZeRO stage 1: 4 ranks beside one process"
    assert out.splitlines()[0] == head
    data = answer_of(run, line)
    assert data["equal"] and data["first"] is None and data["differ"] == 0
    assert f"{data['tensors']:,} tensors of 4 ranks" in out and data["chance"] < 1e-30


def test_a_launch_line_is_read_as_it_stands(run):
    flags = "--tensor-model-parallel-size 2 --context-parallel-size 2 --sequence-parallel --bf16"
    code, out, err = run(f"prove --torchrun 'torchrun --nproc-per-node 8 train.py {flags}'")
    assert (code, err) == (0, "") and "not said, so" not in out
    assert out.startswith("data 2, tensor 2, sequence parallel, context 2, zigzag: 8 ranks beside")


def test_a_layout_that_differs_or_waits_has_status_1(run, monkeypatch):
    for name in ("tied-sum", "one-stage-short"):
        fault = faults.find(name)
        wrong = prove.Verdict(*fault.proved())
        monkeypatch.setattr(prove, "prove", lambda case, wrong=wrong: wrong)
        code, out, err = run("prove --pipeline 2 --micro-batches 4")
        said = f"stuck: {wrong.stuck}" if wrong.stuck else f"not equal: {wrong.first}"
        assert (code, err) == (1, "") and said in out


def test_a_fault_that_is_caught_is_an_answer(run):
    code, out, err = run("prove --fault tied-sum")
    assert (code, err) == (0, "")
    assert "not equal: gradient of embedding (rank 0, row 0, column 0)" in out
    assert "done wrong: The first and the last stage" in out and "(uw-syfi/piper#13)" in out
    stuck = answer_of(run, "prove --fault two-schedules")
    assert stuck["stuck"].startswith("rank 0 waits for rank 1") and not stuck["equal"]


def test_all_faults_are_listed(run):
    listed = answer_of(run, "prove --faults")["faults"]
    assert [one["name"] for one in listed] == list(faults.every())
    out = run("prove --faults")[1]
    assert all(one["says"] in out for one in listed)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "1 rank: nothing to compare"),
        ("--data 65", "65 ranks: expected at most 64"),
        ("--data 2 --micro-batches 1e6", "2,000,000 sequences through 2 layers: expected"),
        ("--pipeline 2 --schedule 2bw", "--schedule 2bw: changes weights"),
        ("--data 2 --schedule gpipe", "--schedule: no effect"),
        ("--data 2 --recompute selective", "--recompute selective: expected one of none, full"),
        ("--data 2 --context-order plain", "--context-order: no effect"),
        ("--data 2 --sequence-parallel", "no effect without tensor parallelism"),
        ("--fault tied", "--fault tied: did you mean tied"),
        ("--fault tied-sum --data 2", "--data: no effect"),
    ],
)
def test_what_cannot_be_proved_is_refused(run, line, said):
    code, out, err = run(f"prove {line}")
    assert (code, out) == (2, "") and said in err


def test_a_layout_is_told_by_what_is_more_than_one():
    assert proofs.layout_words(Layout(data=4, zero=2, shard=2)) == "data 4, shard 2, ZeRO stage 2"
    assert proofs.layout_words(Layout(context=2, recompute="full")) == "recompute full, context 2"
