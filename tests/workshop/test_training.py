"""Data parallelism beside one process."""

from mathlib.workshop.training import Training


def test_one_process_sees_all_batches():
    train = Training(3, 2)
    inputs, targets = train.of_all(0)
    assert len(inputs) == len(targets) == 9 and len(train.after) == 3
    assert not list(train.wrong([train.after[1:]] * 3))


def test_what_a_rank_did_is_told_by_the_gradient_that_it_used():
    train = Training(2, 2, beta=3)
    right = train.after[1:]
    gradient = train.model.whole_gradient(train.weights, train.batches[1][0])
    moved = train.momenta[0] * 3 + gradient
    alone = train.weights - moved * train.rate
    (said, *_) = train.wrong([right, [alone, right[1]]])
    assert said == "step 1: rank 1 still has its own gradient"
    mean = train.momenta[1] - train.momenta[0] * 3
    (said, *_) = train.wrong([right, [train.weights - mean * train.rate, right[1]]])
    assert said == "step 1: rank 1 forgets the momentum"
    (said, *_) = train.wrong([right[0], right])
    assert "expected a list of its weights after each of 2 steps" in said
