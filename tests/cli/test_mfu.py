"""mathlib mfu: a run in every source's terms, and back from one of them."""

import pytest
from command_line import answered, args

from mathlib.checks import InputError
from mathlib.cli.mfu import mfu_command
from mathlib.cli.parser import main
from mathlib.compute import conventions

RUN = "mfu llama3-8b --device h100-sxm --devices 8"


def by_name(said):
    return {one["name"]: one for one in said["conventions"]}


def test_a_run_comes_out_as_each_source_prints_it(capsys):
    said = by_name(answered(f"{RUN} --tokens-per-second 98184 --dtype fp8", capsys))
    assert list(said) == conventions.names()
    assert said["nemo"]["printed"] == {"value": pytest.approx(711e12, rel=1e-3), "unit": "FLOP/s"}
    assert said["nemo"]["mfu"] == pytest.approx(711e12 / 1979e12, rel=1e-3)
    assert said["megatron-bridge"]["mfu"] < said["nemo"]["mfu"] < said["palm"]["mfu"]
    assert said["palm"]["hfu"] is None and said["6pd"]["hfu"] == said["6pd"]["mfu"]


@pytest.mark.parametrize(
    "told",
    [
        "--each 12273",
        "--step 10s --batch 119.8535156250",
        "--rate 710.764438TFLOP/s --as nemo",
        "--mfu 71.868962980% --as torchtitan",
    ],
)
def test_however_it_is_told_it_is_the_same_run(told, capsys):
    said = answered(f"{RUN} {told}", capsys)
    assert said["also"]["tokens a second"]["value"] == pytest.approx(8 * 12273, rel=1e-6)


def test_what_is_computed_again_is_counted_by_those_who_do(capsys):
    said = by_name(answered(f"{RUN} --each 9000 --recompute full", capsys))
    for name in ("6pd", "llm-foundry"):
        assert said[name]["hfu"] == pytest.approx(4 / 3 * said[name]["mfu"])
    assert said["narayanan"]["printed"]["value"] == pytest.approx(said["narayanan"]["hfu"] * 989e12)
    assert said["nemo"]["hfu"] is None
    mine = "--rate 685.5TFLOP/s --as narayanan --recompute full"
    back = answered(f"{RUN} {mine}", capsys)["also"]["of a device"]["value"]
    assert back == pytest.approx(9000, rel=1e-3)


def test_the_table_says_whose_figure_each_is(capsys):
    assert main(f"{RUN} --each 9000".split()) == 0
    said = capsys.readouterr().out
    assert "Llama 3 8B on 8 x H100 80 GB SXM" in said
    line = next(line for line in said.splitlines() if line.startswith("nemo "))
    assert line.split() == ["nemo", "521.2", "52.7%", "57.91", "GFLOP", "NeMo", "24.07"]


@pytest.mark.parametrize(
    ("name", "convention", "printed", "rel"),
    [  # as its own table prints it
        ("nemo-llama2-7b", "nemo", 780e12, 1e-3),
        ("bridge-llama3-70b", "megatron-bridge", 719e12, 1e-3),
        ("megatron-llama3-70b", "megatron-lm-2024", 780e12, 1e-3),
    ],
)
def test_a_published_step_is_counted_as_its_source_does(name, convention, printed, rel, capsys):
    said = answered(f"mfu --published {name}", capsys)
    assert by_name(said)[convention]["printed"]["value"] == pytest.approx(printed, rel=rel)
    assert said["also"]["peak of a device"]["value"] == 1979e12


def test_a_run_of_the_other_list_is_counted_too(capsys):
    palm = by_name(answered("mfu --published 'PaLM 540B'", capsys))
    assert palm["palm"]["mfu"] == pytest.approx(0.462, abs=5e-4)
    assert palm["6pd"]["mfu"] == pytest.approx(0.457, abs=5e-4)
    mpt = by_name(answered("mfu --published 'MPT 70B, 64 A100'", capsys))
    assert mpt["llm-foundry"]["mfu"] == pytest.approx(0.5333, abs=5e-5)
    assert mpt["llm-foundry"]["hfu"] == pytest.approx(4 / 3 * 0.5333, abs=1e-4)


@pytest.mark.parametrize(
    ("typed", "refused"),
    [
        ("mfu llama3-8b --each 9000", "--device: needed"),
        (RUN, "expected one of --tokens-per-second"),
        (f"{RUN} --each 9000 --step 3s", "expected one of --tokens-per-second"),
        (f"{RUN} --step 3s", "--step: expected --batch"),
        (f"{RUN} --rate 711TFLOP/s", "--rate: whose"),
        (f"{RUN} --mfu 40%", "--mfu: whose"),
        (f"{RUN} --each 9000 --as nemo", "--as: no effect"),
        (f"{RUN} --each 9000 --batch 8", "--batch: no effect"),
        (f"{RUN} --each 90000", "expected at most 1"),
        (f"{RUN} --each 0", "tokens_per_second = 0"),
        ("mfu --published nosuch", "--published nosuch: no such name"),
        ("mfu --published 'Megatron 145.6B'", "prints no tokens a second"),
        ("mfu gpt2 --published nemo-llama3-8b", "no effect"),
        ("mfu gpt2 --device h100-sxm --devices 0 --each 9000", "devices = 0"),
    ],
)
def test_what_tells_of_no_run_is_refused(typed, refused):
    with pytest.raises(InputError, match=refused):
        mfu_command(args(typed))


def test_a_rate_needs_its_unit_and_a_source_its_name(capsys):
    for told, refused in (
        ("--rate 711 --as nemo", "expected a unit, such as 711TFLOP/s"),
        ("--mfu 40% --as nemmo", "--as nemmo: did you mean nemo?"),
    ):
        try:
            assert main([*RUN.split(), *told.split()]) == 2
        except SystemExit as stopped:
            assert stopped.code == 2
        assert refused in capsys.readouterr().err


def test_a_device_without_bf16_has_the_peak_of_its_16_bits(capsys):
    line = "mfu gpt2 --device v100-32gb --each 30000"
    said = answered(line, capsys)
    assert said["also"]["peak of a device"]["value"] == 125e12
    assert said == answered(f"{line} --dtype fp16", capsys)
    as_typed = answered("mfu gpt2 --device v100-32gb --rate 40TFLOP/s --as NeMo", capsys)
    assert by_name(as_typed)["nemo"]["printed"]["value"] == pytest.approx(40e12)
    cost = answered("cost gpt2 --train 300B --device v100-32gb --devices 8", capsys)
    assert cost["also"]["achieved by a device"]["value"] == pytest.approx(0.4 * 125e12)


def test_megatron_of_today_halves_attention_and_its_old_count_stands_under_its_year(capsys):
    line = "mfu llama3-8b --device h100-sxm --devices 8 --tokens-per-second 72k"
    said = by_name(answered(line, capsys))
    now, then = said["megatron-lm"], said["megatron-lm-2024"]
    assert (now["counts"]["attention"], then["counts"]["attention"]) == ("half", "full")
    assert now["mfu"] == said["megatron-bridge"]["mfu"] < then["mfu"] == said["nemo"]["mfu"]
