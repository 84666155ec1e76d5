"""How far the bytes that published runs needed are from predicted ones: what the chance of running
out of memory rests on. `tools/calibrate.py` fits it and prints how it does on the other half.

Sources that state bytes: SimuMax (allocated), the Ultra-Scale Playbook (rank 0, reserved),
BigScience (of the whole device), torchtitan and torchao (reserved or peak active), InternEvo. Aleph
Alpha prints which runs were out of memory. What a program keeps is taken from keeps.toml; where
nobody read its code, with the usual copies: the constants take up what it keeps besides.
"""

from math import exp, log
from statistics import median

from mathlib.plan.calibration import STRAY, chance_over
from mathlib.plan.published_runs import Published
from mathlib.trials import after_qwen

Table = dict[str, dict[str, dict[str, float]]]
RESERVE = 4e9  # bytes of a device that a search leaves out
TOLD_FITS = {"aleph-alpha"}  # sources that print what was out of memory
NEEDS = {  # programs with constants of their own, and whose runs tell them
    "megatron-core": "megatron-core-plain",
    "megatron-core-plain": "megatron-core-plain",
    "megatron-flash": "megatron-flash",
    "megatron-flash-norms": "megatron-flash-norms",
    "megatron-deepspeed-zero": "megatron-deepspeed-zero",
    "nanotron": "nanotron",
    "fsdp": "fsdp",
}


def room_of(run: Published) -> tuple[str, float] | None:
    """ln(bytes / bytes predicted), of what was measured, or of a device on which it fitted or not;
    none where the source tells neither.
    """
    predicted = run.needed
    if run.memory:
        return "measured", log(run.memory / predicted)
    if run.source not in TOLD_FITS:
        return None
    return "fitted" if run.fits else "full", log((run.device.room - RESERVE) / predicted)


def likely(found: tuple[str, float], typical: float, spread: float) -> float:
    """ln of the probability of an outcome, or of its density."""
    kind, room = found
    full = chance_over(room, typical, spread)
    if kind == "measured":
        most = (full - STRAY / 2) / (1 - STRAY)
        return log((1 - STRAY) * most * (1 - most) / spread + STRAY)
    return log(full if kind == "full" else 1 - full)


def fit(runs: list[Published]) -> Table:
    """How much more than predicted runs need, and how far that spreads: of all constants tried
    those with which the outcomes are likeliest.
    """
    found = {"adapters": likeliest([("measured", room) for room in after_qwen.beyond()])}
    for program in ["", *NEEDS]:
        kin = NEEDS.get(program)
        own = [room_of(run) for run in runs if not kin or run.program == kin]
        found[program or "all"] = likeliest([one for one in own if one])
    return {"needs": found}


def likeliest(told: list[tuple[str, float]]) -> dict[str, float]:
    """The constants with which these outcomes are likeliest."""
    tried = [(t / 50, s / 50) for t in range(-30, 60) for s in range(1, 30)]
    typical, spread = max(tried, key=lambda c: sum(likely(one, *c) for one in told))
    return {"typical": typical, "spread": spread, "runs": float(len(told))}


def report(found: Table, runs: list[Published]) -> None:
    """On runs that were not fitted: how often the likelier outcome came, Brier's score and that of
    one chance for all; how far off is what was measured.
    """
    rows = found["needs"]
    print(f"{'memory':24}{'test':>5}{'right':>7}{'Brier':>7}{'plain':>7}{'median off':>12}")
    for program in sorted({run.program for run in runs}):
        row = rows.get(program, rows["all"])
        every = [room_of(run) for run in runs if run.program == program]
        told = [one for one in every if one]
        at = [abs(exp(room - row["typical"]) - 1) for kind, room in told if kind == "measured"]
        outcome = [
            (chance_over(room, row["typical"], row["spread"]), float(kind == "full"))
            for kind, room in told
            if kind != "measured"
        ]
        if outcome:
            right, brier, plain = scores(outcome)
            print(f"{program:24}{len(outcome):5}{right:7.0%}{brier:7.2f}{plain:7.2f}")
        if at:
            print(f"{program:24}{len(at):5}{'':21}{median(at):12.1%}")


def scores(outcome: list[tuple[float, float]]) -> tuple[float, float, float]:
    """Share of right guesses, Brier's score, and that of the share of all."""
    n = len(outcome)
    share = sum(came for _, came in outcome) / n
    right = sum((chance > 0.5) == (came > 0.5) for chance, came in outcome) / n
    return right, sum((chance - came) ** 2 for chance, came in outcome) / n, share * (1 - share)
