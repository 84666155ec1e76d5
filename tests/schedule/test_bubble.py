"""The closed formulas are the simulator's results, wherever they say that they hold."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mathlib.checks import InputError
from mathlib.schedule import bubble, orders
from mathlib.schedule.actions import Action, Schedule, looped
from mathlib.schedule.flush import alternate
from mathlib.schedule.simulate import simulate
from mathlib.schedule.times import Times

ALL = [*bubble.PLAIN, *bubble.CHUNKED, *bubble.SPLIT]
ODD = {"interleaved": {"chunks": 3}, "breadth-first": {"chunks": 2}}


def test_every_order_has_its_formula() -> None:
    assert set(ALL) == set(orders.ORDERS)


@st.composite
def sizes(draw) -> tuple[str, dict[str, int]]:
    """An order and sizes for which its formula holds."""
    name = draw(st.sampled_from(ALL))
    p = draw(st.integers(1, 6)) * (2 if name == "dualpipe" else 1)
    least = {"zb-h2": 2 * p - 1, "zb-v": 2 * p - 1, "dualpipe": 2 * p, "breadth-first": p}
    m = draw(st.integers(least.get(name, p), 3 * p + 2))
    if name in ("interleaved", "dualpipe", "2bw"):
        m = 2 * p if name == "dualpipe" else p * draw(st.integers(1, 3))
    chunks = {"chunks": draw(st.integers(1, 4))} if name in bubble.CHUNKED else {}
    return name, {"stages": p, "micro_batches": m, **chunks}


@given(sizes(), st.integers(1, 9), st.integers(1, 9), st.integers(0, 9))
def test_the_formulas_are_what_the_clock_says(asked, forward, inputs, weight) -> None:
    name, of = asked
    if name in ("zb-v", "dualpipe"):
        inputs = weight = forward
    elif name in bubble.SPLIT:
        weight = min(forward, inputs, weight)
    took = {"forward": forward, "backward": inputs + weight, "weight": weight}
    found = simulate(orders.make(name, **of), Times(**took))
    work = of["micro_batches"] * (forward + inputs + weight)
    assert found.total - work == pytest.approx(bubble.idle(order=name, **of, **took))
    if name in (*bubble.SPLIT, "gpipe"):
        apart = bubble.idle(order=name, **of, **took, flush=False)
        assert found.longest_stage - work == pytest.approx(apart)
    for s in range(of["stages"]):
        assert found.peak(s) == pytest.approx(bubble.held(order=name, **of, stage=s))
    if name not in ("zb-v", "dualpipe"):
        assert found.messages.total() == bubble.messages(**of)


@given(st.integers(1, 9), st.integers(1, 20), st.integers(1, 9), st.integers(1, 9))
def test_a_stage_that_waits_can_recompute(p, m, forward, backward) -> None:
    arrives = [0] * m  # gradients at a stage, from the last to the first
    for s in reversed(range(p)):
        now = (s + m) * forward
        for i in range(m):
            arrives[i] = now = max(now + forward, arrives[i]) + backward
    of = {"stages": p, "micro_batches": m, "forward": forward, "backward": backward}
    idle = 1 - m * (2 * forward + backward) / arrives[-1]
    assert bubble.recomputed_early(**of) == pytest.approx(idle, abs=1e-12)


def far_ahead(stages: int, micro_batches: int, ahead: int) -> Schedule:
    """1F1B whose stages do `ahead` times as many forwards first."""
    rows = []
    for s in range(stages):
        forwards, backwards = ([Action(kind, i, s) for i in range(micro_batches)] for kind in "FB")
        rows.append(alternate(forwards, backwards, ahead * (stages - s - 1)))
    return Schedule("far ahead", micro_batches, [looped(stages=stages)], rows)


@pytest.mark.parametrize("message", [0, 0.125, 0.5, 1.5, 2, 4])
@pytest.mark.parametrize("p", [2, 3, 8])
@pytest.mark.parametrize("ahead", [1, 2, 3])
def test_the_pace_of_one_forward_one_backward(p, ahead, message) -> None:
    m = 8 * (ahead * (p - 1) + 1)  # far from the beginning, twice as many cost as much again
    half, all_of_them = (
        simulate(far_ahead(p, n, ahead), Times(message=message)).total for n in (m, 2 * m)
    )
    said = bubble.pace(stages=p, message=message, ahead=ahead)
    assert (all_of_them - half) / m == pytest.approx(said, rel=1e-9)
    if message <= 1.5 and ahead == 2:
        assert said == 3


@pytest.mark.parametrize("share", [0, 0.5, 1, 1.05])
@pytest.mark.parametrize(("p", "v", "rounds"), [(2, 2, 2), (3, 4, 3), (4, 2, 4), (6, 4, 2)])
def test_an_interleaved_step_with_messages(p, v, rounds, share) -> None:
    of = {"stages": p, "micro_batches": rounds * p, "chunks": v}
    took = simulate(orders.make("interleaved", **of), Times(message=share / v)).total
    if share <= 1:
        assert bubble.interleaved_step(**of, message=share / v) == pytest.approx(took)
    else:  # no longer hidden
        with pytest.raises(InputError, match="simulate"):
            bubble.interleaved_step(**of, message=share / v)
        longest = bubble.interleaved_step(**of, message=1 / v)
        assert took > longest + 2 * (p * v - 1) * (share - 1) / v + 0.01


@given(st.integers(1, 40), st.integers(1, 9), st.integers(1, 4), st.integers(1, 9))
def test_the_two_bubbles_are_those_of_the_clock(p, rounds, v, backward) -> None:
    of = {"stages": p % 8 + 1, "micro_batches": (p % 8 + 1) * rounds, "chunks": v}
    found = simulate(orders.make("interleaved", **of), Times(backward=backward))
    assert found.bubble_over_ideal == pytest.approx(bubble.over_ideal(**of))
    assert found.bubble_over_total == pytest.approx(bubble.over_total(**of))


@pytest.mark.parametrize(("p", "said"), [(4, "15.8%"), (8, "17.9%"), (64, "19.7%")])
def test_four_times_the_stages_is_not_negligible(p, said) -> None:
    """P03's rule: at m = 4 p the bubble grows towards 20% of the time."""
    assert f"{bubble.over_total(stages=p, micro_batches=4 * p):.1%}" == said
    found = simulate(orders.make("1f1b", stages=p, micro_batches=4 * p))
    assert f"{found.bubble_over_total:.1%}" == said


def test_what_has_been_printed_is_not_what_runs() -> None:
    p, m = 4, 8
    found = simulate(orders.make("1f1b", stages=p, micro_batches=m))
    assert found.bubble_over_ideal == 3 / 8 != (p - 1) / (p * m)
    assert found.bubble_over_total == pytest.approx(3 / 11) != (p - 1) / (2 * m + p - 1)


def test_a_flush_takes_away_what_h2_has_on_h1() -> None:
    """Both end a step of 4 stages 3 later than its work; H2's zero is counted stage by stage."""
    for name, apart in (("zb-h1", 3), ("zb-h2", 0), ("zb-v", 0)):
        of = {"order": name, "stages": 4, "micro_batches": 8}
        assert bubble.idle(**of) == (1.5 if name == "zb-v" else 3)
        assert bubble.idle(**of, flush=False) == apart


def test_versions_of_a_long_run() -> None:
    for p in (1, 2, 4, 7):
        for name in ALL:
            of = {"stages": p, "micro_batches": 6 * p}
            if name == "dualpipe" and p % 2:
                continue
            found = simulate(orders.make(name, **of)).versions
            assert found == [bubble.versions(order=name, stages=p, stage=s) for s in range(p)]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"order": "1f1"}, "did you mean 1f1b"),
        ({"order": "1f1b", "chunks": 2}, "chunks = 2: expected 1, or an order of interleaved"),
        ({"order": "interleaved", "micro_batches": 6}, "a multiple of stages = 4"),
        ({"order": "dualpipe", "stages": 3}, "stages = 3: expected even"),
        ({"order": "zb-v", "micro_batches": 6}, "holds from 7 on; for fewer, simulate"),
        ({"order": "zb-h2", "micro_batches": 6}, "holds from 7 on"),
        ({"order": "zb-h1", "micro_batches": 3}, "holds from 4 on"),
        ({"order": "breadth-first", "micro_batches": 3}, "holds from 4 on"),
        ({"order": "dualpipe", "micro_batches": 6}, "holds from 8 on"),
        ({"order": "zb-h1", "weight": 1.5}, "weight = 1.5.*holds for W at most F and I"),
        ({"order": "zb-h1", "forward": 0.5}, "holds for W at most F and I"),
        ({"order": "zb-h1", "weight": 2}, "holds for W at most F and I"),
        ({"order": "1f1b", "weight": 3}, "holds for W at most B"),
        ({"order": "zb-v", "weight": 0.5}, "holds for F = I = W"),
        ({"order": "dualpipe", "forward": 2}, "holds for F = I = W"),
    ],
)
def test_where_a_formula_does_not_hold_it_says_so(changed, said) -> None:
    with pytest.raises(InputError, match=said):
        bubble.idle(**{"stages": 4, "micro_batches": 8} | changed)


def test_stages_that_are_none_are_refused() -> None:
    for call in (bubble.held, bubble.versions):
        sized = {"micro_batches": 4} if call is bubble.held else {}
        for name in ("1f1b", "breadth-first", "pipedream"):
            with pytest.raises(InputError, match="stage = 2: expected 0 to 1"):
                call(order=name, stages=2, stage=2, **sized)
    assert bubble.messages(stages=1, micro_batches=4, chunks=3) == 0
