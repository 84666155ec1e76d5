"""What the same work costs on more devices: the ends that C07 prints."""

import pytest

from mathlib.trials import compute_bills as bills


def test_each_number_of_devices_is_held_against_each_larger_one():
    assert bills.lost([(16, 5.0), (8, 10.0), (32, 10.0)]) == [0.5, 0.0, -1.0]
    assert bills.paid([0.5, -1.0, 0.0]) == [1.0, 1.0, 2.0], "who gained pays as before"


GROWN = {
    "Mosaic": (58, 1.0, 1.11),
    "vTrain": (128, 1.0, 1.03),
    "InternEvo, states in a node": (4, 1.05, 1.13),
    "InternEvo, states shared by all": (2, 1.37, 1.79),
    "MaxText": (10, 1.0, 1.31),
    "torchtitan": (1, 1.02, 1.02),
}
KEPT = {
    "layers cut": (4, 1.07, 1.12),
    "ZeRO-3 alone": (1, 3.27, 3.27),
    "MPT 70B, FSDP": (1, 1.0, 1.0),
    "Mosaic": (2, 1.0, 1.02),
    "BLOOM": (5, 1.02, 1.15),
    "InternEvo": (8, 1.09, 1.67),
    "LLaMA": (5, 1.0, 1.26),
    "vTrain": (128, 1.06, 3.46),
    "Playbook": (63, 1.0, 8.72),
}


@pytest.mark.parametrize(
    ("found", "wanted"), [(bills.batch_grown, GROWN), (bills.batch_kept, KEPT)]
)
def test_pairs_and_their_ends(found, wanted):
    told = {
        source: (len(lost), *(round(bills.paid(lost)[end], 2) for end in (0, -1)))
        for source, lost in found().items()
    }
    assert told == wanted


def test_a_small_share_of_the_batch_is_paid_in_communication():
    told = {job: bills.modelled(*job) for job in ((16, 1), (64, 1), (512, 1), (1024, 4), (1024, 8))}
    ends = {job: [round(one.total) for one in both] for job, both in told.items()}
    assert list(ends.values()) == [
        [1000, 1024],
        [1001, 1099],
        [1184, 1854],
        [1010, 1463],
        [1010, 1237],
    ]
    assert 0.5 < told[512, 1][0]["waiting after failures"] < 10
