"""mathlib slower: a gap adds up, part by part and change by change."""

import pytest
from command_line import answered, args

from mathlib.checks import InputError
from mathlib.cli.slower import slower_command

FULL = "time llama3-8b --device h100-sxm --data 64 --recompute full"
NONE = "time llama3-8b --device h100-sxm --data 64 --zero 3"


def test_a_run_alone_is_split_into_what_was_predicted_and_the_rest(capsys):
    predicted = answered(NONE, capsys)["total"]
    said = answered(f'slower "{NONE}" 4s', capsys)
    assert said["total"] == 4
    assert said["parts"]["predicted"]["total"] == predicted
    assert said["parts"]["unexplained"] == pytest.approx(4 - predicted)
    reached = next(name for name in said["also"] if "matmuls reach" in name)
    assert 0 < said["also"][reached]["value"] < 1


def test_two_runs_differ_by_part_and_by_what_was_changed(capsys):
    one, two = (answered(line, capsys)["total"] for line in (FULL, NONE))
    said = answered(f'slower "{FULL}" 4s "{NONE}" 3s', capsys)
    assert said["total"] == pytest.approx(1)
    assert said["parts"]["unexplained"] == pytest.approx(1 - (one - two))
    assert said["parts"]["recomputation"] > 0
    assert said["also"] == {"by layout": {"value": pytest.approx(one - two), "unit": "second"}}


def test_another_batch_counts_for_as_many_tokens(capsys):
    twice = f"{FULL} --micro-batches 2"
    said = answered(f'slower "{FULL}" 4s "{twice}" 6s', capsys)
    assert said["total"] == pytest.approx(1) and "as many tokens" in said["title"]


NEMO = (
    "time llama3-8b --cluster dgx-h100 --precision fp8 --data 4 --context-parallel 2 --zero 1 "
    "--micro-batches 32"
)


def test_a_published_run_is_what_mine_is_held_against(capsys):
    printed = 128 * 8192 / (8 * 12273)
    said = answered(f'slower "{NEMO}" {printed + 2}s --published nemo-llama3-8b', capsys)
    assert said["parts"] == {"unexplained": pytest.approx(2)} and said["also"] == {}
    assert "NeMo: Llama 3 8B, 8 H100, 10.68 s" in said["title"]
    again = f"{NEMO} --recompute full"
    said = answered(f'slower "{again}" {printed + 2}s --published nemo-llama3-8b', capsys)
    assert said["parts"]["recomputation"] > 1.5 and said["also"]["by layout"]["value"] > 1.5


@pytest.mark.parametrize(
    ("typed", "refused"),
    [
        ('slower "memory gpt2" 3s', "expected a command such as 'time"),
        ('slower "" 3s', "expected a command such as 'time"),
        (f'slower "{NONE}" 3s "{FULL}"', "expected the time of its step"),
        (f'slower "{NONE} --train 3B" 3s', "--train: no effect"),
        (f'slower "{NONE} --offload states" 3s', "--offload states"),
        (f'slower "{NONE}" 0s', "seconds = 0"),
        (f'slower "{NONE}" 3s --published nemo', "--published nemo: expected one of nemo-llama2"),
        (f'slower "{NONE}" 3s "{FULL}" 2s --published 13b-2k-64', "without another run"),
    ],
)
def test_what_tells_of_no_measured_step_is_refused(typed, refused):
    with pytest.raises(InputError, match=refused):
        slower_command(args(typed))
