"""Bytes of the context and the expert axis against messages that are dealt out and counted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mathlib.checks import InputError
from mathlib.specs import Experts, Model
from mathlib.traffic import volumes

MODEL = Model("small", layers=3, width=64, heads=8, kv_heads=4, vocab=500, context=48)
MIXED = MODEL.but(experts=Experts(routed=12, active=2, width=32, dense_layers=1))


def ring_sent(c: int, block: int, home: bool) -> int:
    """Bytes that rank 0 sends while blocks are passed on until every rank has met each; gradients
    go on until each is back where its keys are.
    """
    here, sent = list(range(c)), 0  # whose block each rank holds
    met = [{i} for i in range(c)]
    while any(len(seen) < c for seen in met) or (home and c > 1 and here != list(range(c))):
        here = [here[(i - 1) % c] for i in range(c)]
        sent += block
        for i, whose in enumerate(here):
            met[i].add(whose)
    return sent


@pytest.mark.parametrize("c", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("t", [1, 2, 8])
def test_a_ring_of_keys_and_values_is_what_passing_them_on_sends(c: int, t: int) -> None:
    heads = max(1, MODEL.kv_heads // t)
    block = 2 * 2 * heads * MODEL.head_dim * 48 // c  # keys and values of 2 bytes
    layer = volumes.context_parallel(MODEL, context=c, tensor=t, layers=1)
    forward, again = ring_sent(c, block, home=False), ring_sent(c, block, home=False)
    assert layer["forward"] == forward
    assert layer["backward"] == again + ring_sent(c, block, home=True)
    every = volumes.context_parallel(
        MODEL, context=c, tensor=t, micro_batch=2, micro_batches=5, recompute="full"
    )
    assert every["forward"] == every["recomputation"] == 3 * 2 * 5 * forward


def test_gathering_sends_no_more_than_a_ring_and_needs_no_way_home() -> None:
    ring, gathered = (
        volumes.context_parallel(MODEL, context=4, method=method)
        for method in ("ring", "all-gather")
    )
    assert gathered["forward"] == ring["forward"] == gathered.amount("backward") / 2
    block = 2 * 2 * 4 * 8 * 12 * 3  # keys and values, 4 heads of 8, 12 tokens, 3 layers
    assert ring.total - gathered.total == block


def test_gradients_in_fp32_weigh_twice_in_flight_home() -> None:
    """As torch's context_parallel adds them up; heads that come back have the model's type."""
    for method, home in (("ring", 4), ("all-gather", 3), ("all-to-all", 0)):
        layer, wide = (
            volumes.context_parallel(MODEL, context=4, method=method, layers=1, gradient_bytes=g)
            for g in (None, 4)
        )
        block = 2 * 2 * 4 * 8 * 12  # keys and values of 2 bytes, 4 heads of 8, 12 tokens
        assert wide.amount("backward") - layer.amount("backward") == home * block


def test_heads_for_pieces_is_four_n_h_over_p() -> None:
    """DeepSpeed-Ulysses, section 3.2: 4 N h / P numbers a layer forward, for many ranks P."""
    model = MODEL.but(kv_heads=8)
    layer = volumes.context_parallel(model, context=8, method="all-to-all", layers=1)
    assert layer["forward"] == 2 * 4 * 48 * 64 / 8 * (7 / 8)
    assert layer["backward"] == layer["forward"]


@given(e=st.sampled_from([1, 2, 3, 4, 6, 12]), per_rank=st.integers(1, 4))
def test_experts_get_what_dealing_tokens_out_sends(e: int, per_rank: int) -> None:
    """Tokens that visit all experts equally often: those of other ranks are sent to, and back."""
    routed, active = 12, 2
    tokens = 12 * per_rank
    own = routed // e
    visits = [(active * i + j) % routed for i in range(tokens) for j in range(active)]
    left = sum(expert // own != 0 for expert in visits)  # rank 0's tokens; it holds the first
    layer = volumes.expert_parallel(MIXED, expert=e, tokens=tokens, layers=1)
    assert layer["forward"] == pytest.approx(2 * left * 2 * 64)  # there and back
    assert layer["backward"] == layer["forward"]
    both = volumes.expert_parallel(MIXED, expert=e, tokens=tokens, tensor=2, recompute="full")
    assert both["forward"] == layer["forward"]  # 2 of 3 layers, half each
    assert both["recomputation"] == both["forward"]


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(InputError, match="context = 5: does not divide tokens = 48"):
        volumes.context_parallel(MODEL, context=5)
    with pytest.raises(InputError, match="expected one with experts"):
        volumes.expert_parallel(MODEL, expert=2)
    with pytest.raises(InputError, match=r"expert = 5: does not divide experts\.routed = 12"):
        volumes.expert_parallel(MIXED, expert=5)


def test_experts_in_boxes_and_in_parts() -> None:
    """Boxes are sent whole; in parts a rank sends its tokens to the others instead of visits."""
    asked = {"tokens": 10, "layers": 1}
    exact = volumes.expert_parallel(MIXED, expert=4, **asked)["forward"]
    boxes = volumes.expert_parallel(MIXED, expert=4, capacity=1.25, **asked)["forward"]
    assert boxes / exact == 12 * 3 / (10 * 2)  # ceil(1.25 * 20 / 12) = 3 rows for each of 12
    parts = volumes.expert_parallel(MIXED, expert=1, expert_tensor=4, **asked)["forward"]
    assert parts == 3 * 10 * (2 * 64 + 2) * 2
    with pytest.raises(InputError, match="capacity = -1"):
        volumes.expert_parallel(MIXED, expert=4, capacity=-1)


@pytest.mark.parametrize("t", [2, 3, 8])
def test_words_over_ranks_send_two_streams_and_three_numbers_a_token(t: int) -> None:
    ring, stream = 2 * (t - 1) / t, 5 * 48 * 64  # numbers of a batch of 5 sequences
    told = volumes.vocabulary_parallel(MODEL, tensor=t, micro_batch=5, loss_bytes=8)
    assert told["embedding"] == told["head"] == pytest.approx(ring * 2 * stream)
    assert told["loss"] == pytest.approx(3 * ring * 8 * 5 * 48)
    assert told.total == pytest.approx(ring * (4 * stream + 24 * 5 * 48))
