"""Reported runs: what their sources print comes out, and nothing is claimed where the source is
silent.
"""

import pytest

from mathlib.compute import flops, reported

PRINTED = [
    ("Megatron 1008B", "hfu", 0.52),
    ("Megatron 145.6B", "hfu", 0.47),
    ("PaLM 540B", "mfu", 0.462),
    ("OPT-175B", "of peak", 0.47),
    ("MPT 70B, 64 A100", "mfu", 0.5333),
    ("MPT 70B, 64 H100", "hfu", 0.5676),
    ("MPT 70B, 256 H100", "mfu", 0.4242),
    ("GPT-3 175B, V100", "mfu", 0.213),
    ("GPT-3 175B, V100", "of peak", 0.197),
    ("Megatron 1.2B, one V100", "of peak", 0.30),
    ("MT-NLG 530B, 3,360 A100", "hfu", 0.36),
    ("Llama 3 405B, 8,192 H100", "mfu", 0.43),
    ("Llama 3 405B, 16,384 H100", "of peak", 0.41),
    ("ZeRO-3 174.6B, 1,536 A100", "hfu", 0.141),
]


@pytest.mark.parametrize("name, what, printed", PRINTED)
def test_printed_utilisations(name, what, printed):
    assert reported.utilizations(reported.find_run(name))[what] == pytest.approx(
        printed, abs=0.015 if what == "of peak" else 0.005
    )


def test_full_recomputation_makes_mfu_three_quarters_of_hfu():
    shares = reported.utilizations(reported.find_run("Megatron 1008B"))
    assert (
        shares["mfu"] / shares["hfu"] == pytest.approx(3 / 4, rel=0.01)
        and shares["hfu"] == shares["of peak"]
    )


def test_without_recomputation_both_shares_are_one():
    shares = reported.utilizations(reported.find_run("Llama 3 405B, 8,192 H100"))
    assert shares["hfu"] == shares["mfu"] == shares["of peak"]


def test_a_silent_source_gives_no_mfu():
    assert reported.utilizations(reported.find_run("OPT-175B"))["mfu"] is None


@pytest.mark.parametrize("name", reported.names())
def test_every_run_names_its_source(name):
    run = reported.find_run(name)
    assert (
        run.source and run.date and run.peak > 0 and (run.rate > 0) != (run.tokens_per_second > 0)
    )


@pytest.mark.parametrize("name", [n for n in reported.names() if reported.find_run(n).seconds])
def test_a_printed_rate_is_what_the_printed_time_makes_of_our_count(name):
    """Days are printed without decimals: 23 may be 22.5."""
    run = reported.find_run(name)
    executed = flops.run(run.model, total_tokens=run.tokens, recompute=run.recompute)
    assert executed.total / (run.devices * run.seconds) == pytest.approx(run.rate, rel=0.025)
