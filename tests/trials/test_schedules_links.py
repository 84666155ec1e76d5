"""What messages add to a step, by equation, by clocks and waited for."""

import pytest

from mathlib.trials import schedules_links as links


def test_clocks_agree_with_the_equation_of_hidden_messages():
    assert all(equation == clocks for equation, clocks in links.hidden().values())


def test_running_twice_ahead_hides_messages_and_holds_more():
    plain, twice, lean, full = links.ahead(0.1).values()
    assert plain[0] == twice[0] > lean[0] == full[0]
    assert lean[1] > plain[1] > full[1] > twice[1] and full[1] == pytest.approx(30 * 0.1)
    assert plain[3] == lean[3] == 8 < full[3] < twice[3]
    assert all(late < waits for _, late, waits, _ in (plain, twice, lean, full))


def test_messages_are_waited_for_only_if_they_take_time():
    assert links.waited_for("1f1b", 0.0, 4, 8)[0] == 48
    assert links.waited_for("interleaved", 0.1) == (960, 92)
    assert links.waited_for("1f1b", 0.1) == (448, 231)


def test_a_stage_that_blocks_hides_nothing():
    extra = links.by_message()
    for name, (order, more) in links.KINDS.items():
        assert (
            extra[name][0][1]
            == 0
            < extra[name][4][1]
            < links.later(order, 0.1, blocking=True, **more)
        )
