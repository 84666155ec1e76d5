"""PyTorch's DDP, watched: each count by a small case that is known."""

from mathlib import launch
from mathlib.meters.trace import Event
from mathlib.trials import data_parallel_torch as torchs


def test_left_early_is_before_the_last_gradient():
    gradients = [Event("g", "gradient", 0, at, at) for at in (1, 5)]
    buckets = [Event("b", "communication", 0, at, 9) for at in (2, 4, 6)]
    assert torchs.left(gradients + buckets) == (3, 2)


def test_buckets_follow_the_first_step_unless_the_search_is_on():
    plain, search = (launch.run(torchs.orders, 2, **how)[0] for how in ({}, torchs.SEARCH))
    assert plain == [("third, second, first", 0), *3 * [("third | second | first", 2)]]
    assert search == 4 * [("first | second | third", 0)]
    assert torchs.early(1024) == (1, 0) and torchs.early(1)[1] == 12


def everything():
    anew = [torchs.packed_anew(*plan) for plan in torchs.PLANS.values()]
    first = [torchs.first_step(**how) for how in ({}, torchs.STATIC)]
    walks = torchs.walks(), torchs.walks(kept=2), torchs.walks(**torchs.STATIC)
    leaving = torchs.leaving(), torchs.leaving(**torchs.SEARCH)
    hidden = [torchs.hidden(how) for how in ("dict", "object")]
    more = torchs.search_bytes(True) - torchs.search_bytes(False)
    return anew, first, walks, leaving, hidden, more, torchs.walk_share()


def test_what_the_search_and_a_static_graph_change():
    for anew, first, walks, leaving, hidden, more, share in launch.run(everything, 2, echo=False):
        assert anew == [2, 5, 3, 4, 0] and first == [(2, 1), (2, 0)]
        assert walks == (3, 1, 0) and leaving == ((4, 0), (4, 6)) and more == 4 * 52
        assert hidden == ["", "Expected to mark a variable ready only once"] and 0 < share < 1


def test_a_missing_gradient_is_found_an_iteration_late():
    silent, searched = torchs.branches(), torchs.branches(**torchs.SEARCH)
    assert [told == "" for told in silent[0]["errors"]] == [True, False, False]
    assert torchs.own(silent) and not torchs.own(searched)
    assert torchs.diverged(searched) == 0 < torchs.diverged(silent)
