"""AMD beside NVIDIA, on their own data sheets and on measured runs."""

import pytest

from mathlib import specs
from mathlib.checks import InputError
from mathlib.compute import reported, vendors

PAIRS = [
    ("mi250x", "a100-80gb"),
    ("mi300x", "h100-sxm"),
    ("mi325x", "h200-sxm"),
    ("mi355x", "b200-sxm"),
]


@pytest.mark.parametrize(("amd", "nvidia"), PAIRS)
def test_of_its_generation_amds_hardware_promises_more(amd, nvidia):
    """Peak and memory; what a watt gives differs from one generation to the next."""
    found = vendors.beside(device=amd, other=nvidia)
    assert found["peak"] > 1.1 and found["memory"] > 1.5 and found["memory bandwidth"] >= 1
    back = vendors.beside(device=nvidia, other=amd)
    assert all(found[name] * back[name] == pytest.approx(1) for name in found)


def test_the_same_program_gets_two_thirds_of_the_share_out_of_it():
    """torchtitan on Llama 3 8B: a third more is promised, an eighth less delivered."""
    found = vendors.gap(first="Llama 3 8B, 8 MI300X", second="Llama 3 8B, 8 H100")
    assert found["promised"] == pytest.approx(1.32, abs=0.005)
    assert found["delivered"] == pytest.approx(5376.5 / 6150)
    assert found["software"] == pytest.approx(0.66, abs=0.005)
    shares = [vendors.find_measured(name).of_peak for name in vendors.measured()[:2]]
    assert shares == pytest.approx([0.238, 0.360], abs=0.001)


def test_in_the_speakers_year_the_two_delivered_the_same():
    """175B on Frontier's MI250X and on A100: a fifth less of the peak, and the same FLOP/s."""
    found = vendors.gap(first="GPT 175B, MI250X", second="GPT 175B, A100")
    assert found["software"] == pytest.approx(0.80, abs=0.005)
    assert found["delivered"] == pytest.approx(0.99, abs=0.005)
    assert vendors.find_measured("GPT 175B, A100").rate == pytest.approx(140e12, rel=0.005)
    near = reported.find_run("Megatron 174.6B, 1,536 A100").rate
    assert vendors.find_measured("GPT 175B, A100").rate == pytest.approx(near, rel=0.01)


def test_runs_of_different_models_are_not_compared():
    with pytest.raises(InputError, match="expected a run of llama3-8b"):
        vendors.gap(first="Llama 3 8B, 8 H100", second="GPT 175B, A100")
    no_power = next(name for name, row in specs.table("devices").items() if not row["power"])
    with pytest.raises(InputError, match="publishes no power"):
        vendors.beside(device=no_power, other="h100-sxm")
