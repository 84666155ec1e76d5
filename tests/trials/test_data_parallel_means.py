"""What PyTorch's DDP leaves in .grad, sends, keeps and reads."""

from mathlib import launch
from mathlib.trials import data_parallel_means as means


def test_ranks_agree_unless_the_wrapper_is_gone():
    same, far = means.agreement(2)
    assert same and far < 1e-14
    same, far = means.agreement(2, keep=False)
    assert not same and far > 1e-3


def test_three_of_ten_ways_lead_to_the_mean():
    found = means.ways()
    assert len(found) == 10
    assert [way for way, pair in found.items() if pair == (0.5, 0.5)] == list(means.MEAN)
    assert [way for way, pair in found.items() if pair == (0, 1)] == list(means.OWN)
    by_rank = launch.run(means.handed_on, 2)
    assert [list(seen.values()) for seen in by_rank] == [[0, 0, 0, 0.5], [1, 1, 1, 0.5]]


def test_bytes_are_a_rings_and_views_save_a_copy():
    counted, rivals = means.by_algorithm(4)
    assert counted == rivals["ring"] > rivals["halving-doubling"]
    thrice = launch.run(means.sent, 2, means.each_sends, 3)[0]
    assert thrice == 3 * (means.K + 2 * means.HEADERS)
    default, view = launch.run(lambda: [means.stored(view) for view in (False, True)], 1)[0]
    assert default == 2 * view


def test_samples_as_dealt_by_hand():
    assert means.dealt(5, 2) == [[0, 2, 4], [1, 3, 0]]
    assert means.dealt(5, 2, drop_last=True) == [[0, 2], [1, 3]]
    called, forgotten = means.epochs(True), means.epochs(False)
    assert called[0] == forgotten[0] == forgotten[2] != called[2]
