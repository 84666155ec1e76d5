"""Days and price of a whole run: by the planner's step, with saves and failures besides."""

import math

import pytest
from command_line import answered, args, ended

from mathlib.cli import days
from mathlib.compute import params
from mathlib.plan import goodput, interruptions

DAY = 86400.0
PLAN = "plan llama3-8b --device h100-sxm --devices 256 --batch 256 --train 1T"
TIME = "time llama3-8b --device h100-sxm --data 256 --zero 1 --train 1T"


def values(data):
    return {name: fact["value"] for name, fact in data["also"].items()}


def test_a_run_stops_as_often_as_llamas_unless_somebody_says_otherwise(capsys):
    also, like = values(answered(TIME, capsys)), interruptions.find_record(days.RECORD)
    failures = like.device_time_between_failures / 256
    save = 12 * params.total("llama3-8b") / (256 * 2e12 / 16384)
    assert also["a failure every"] == pytest.approx(failures) == pytest.approx(8.25 * DAY, rel=1e-3)
    assert also["a save takes"] == pytest.approx(save) and also["a restart takes"] == 900
    told = {"time_per_save": save, "time_between_failures": failures}
    whole = goodput.time_for(
        seconds=also["whole run"],
        time_between_saves=goodput.best_interval(**told),
        time_per_failure=900,
        **told,
    ).total
    assert also["with saves and failures"] == pytest.approx(whole)
    short = math.sqrt(2 * save / failures) + 900 / failures  # Young's, where failures are rare
    assert whole / also["whole run"] - 1 == pytest.approx(short, rel=0.05)
    rare = values(answered(f"{TIME} --mtbf 60years --save 1s --restart 1min", capsys))
    assert rare["a save takes"] == 1 and rare["a restart takes"] == 60
    assert rare["a failure every"] == pytest.approx(60 * 365.25 * DAY / 256)
    assert rare["whole run"] < rare["with saves and failures"] < whole
    few = TIME.replace("--data 256", "--data 8")
    code, _, err = ended(f"{few} --mtbf 1h --save 1day", capsys)
    assert code == 2 and "time_between_failures = 450" in err, "such a run never ends"


def test_llamas_own_run_trains_nine_tenths_of_the_time(capsys):
    line = "time llama3-405b --device h100-sxm --tensor 8 --pipeline 16 --data 128 --zero 1"
    also = values(answered(f"{line} --sequence-parallel --micro-batches 16 --train 15.6T", capsys))
    assert also["a failure every"] == pytest.approx(3.09 * 3600, rel=2e-3)
    share = also["whole run"] / also["with saves and failures"]
    assert share == pytest.approx(interruptions.find_record(days.RECORD).effective, abs=0.01)


def test_plan_and_time_say_the_same_days_and_price_of_a_layout(capsys):
    data = answered(f"{PLAN} --price 2 --top 3", capsys)
    first, *others = data["layouts"]
    lay, also = first["layout"], values(data)
    options = f"--data {lay['data']} --tensor {lay['tensor']} --context-parallel {lay['context']}"
    options += f" --zero {lay['zero']} --micro-batch {lay['micro_batch']} --price 2 --train 1T"
    line = f"time llama3-8b --device h100-sxm {options}"
    assert values(answered(line, capsys)).items() >= also.items()
    assert first["run"] == {"value": also["with saves and failures"], "unit": "second"}
    assert first["prices"] == {"price": also["price"]}
    assert also["price"] == pytest.approx(2 * 256 * first["run"]["value"] / 3600)
    low, high = (data["between"][end] / first["step"]["value"] for end in ("low", "high"))
    assert also["80% interval of whole runs, from"] == pytest.approx(low * first["run"]["value"])
    assert also["80% interval of whole runs, to"] == pytest.approx(high * first["run"]["value"])
    for one in others:
        slower = one["step"]["value"] / first["step"]["value"]
        assert one["run"]["value"] == pytest.approx(slower * first["run"]["value"])
    _, out, _ = ended(f"{PLAN} --price 2 --top 3", capsys)
    head, _, row, *_ = out.splitlines()[2:]
    assert {"days", "price"} <= set(head.split())
    assert f"{first['run']['value'] / DAY:,.3g}" in row.split()
    told = f"1T tokens take {also['whole run'] / DAY:.4g} days of training and "
    told += f"{also['with saves and failures'] / DAY:.4g} days with saves and failures (one every "
    assert f"{told}8.248 days on 256 devices, as in Llama 3's run on 16,384 H100;" in out


def test_a_list_of_prices_gives_a_column_each_and_what_is_not_asked_is_not_said(capsys):
    rows = answered(f"{PLAN} --rent lambda-h100-sxm --top 1", capsys)["layouts"]
    assert rows[0]["prices"].keys() == {"on demand"}
    plain = answered(PLAN.replace(" --train 1T", ""), capsys)
    assert "also" not in plain and "run" not in plain["layouts"][0]
    for option in ("--price 2", "--mtbf 3years", "--save 1min", "--restart 1min"):
        code, _, err = ended(f"{PLAN.replace(' --train 1T', '')} {option}", capsys)
        assert code == 2 and f"{option.split()[0]}: no effect" in err, option


def test_fit_says_the_days_of_its_answers(capsys):
    line = "fit llama2-7b --device a100-80gb --batch 64 --train 100B --price 2"
    (one,) = answered(line, capsys)["answers"]
    also = values(one)
    assert also["whole run"] == pytest.approx(1e11 / (64 * 4096) * one["step"])
    assert "100B tokens take" in ended(line, capsys)[1]
    share = also["80% interval of whole runs, to"] / also["with saves and failures"]
    assert share == pytest.approx(one["between"]["high"] / one["step"])
    line = "fit llama2-7b --device a100-80gb --devices 8 --train 100B"
    batch, context = answered(line, capsys)["answers"]
    assert values(context)["whole run"] == pytest.approx(1e11 / context["value"] * context["step"])
    assert values(batch)["whole run"] == pytest.approx(1e11 / batch["value"] / 4096 * batch["step"])


def test_cost_agrees_at_the_same_share_and_says_what_it_leaves_out(capsys):
    also = values(answered(TIME, capsys))
    line = "cost llama3-8b --train 1T --device h100-sxm --devices 256"
    same = answered(f"{line} --utilization {also['MFU']!r}", capsys)
    assert values(same)["time"] == pytest.approx(also["whole run"])
    assert "without failures" in same["title"]
    assert "without failures; `mathlib time` and `plan` with --train" in ended(line, capsys)[1]
    assert args(line).utilization == 0.4
