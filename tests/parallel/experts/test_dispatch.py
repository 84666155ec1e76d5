"""In which order visits come, and for which there is room."""

import torch

from mathlib.parallel.experts import dispatch


def test_first_choices_come_before_second_ones_where_there_is_no_room_for_all():
    visits = dispatch.visits_of(torch.tensor([[0, 1], [1, 0], [0, 2], [0, 1]]), 4)
    assert visits.expert.tolist() == [0, 0, 0, 0, 1, 1, 1, 2]
    assert visits.token.tolist() == [0, 2, 3, 1, 1, 0, 3, 2]
    assert visits.place.tolist() == [0, 0, 0, 1, 0, 1, 1, 1]
    assert visits.number.tolist() == [0, 1, 2, 3, 0, 1, 2, 0]
    kept = visits.within(2)
    assert kept.token.tolist() == [0, 2, 1, 0, 2] and kept.many.tolist() == [2, 2, 1, 0]
    assert dispatch.slots(4, 2, 4, 1.25) == 3
