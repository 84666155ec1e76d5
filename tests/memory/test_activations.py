"""Activations added up: the papers' formulas for a layer and a stage, and laws of splitting and
recomputing.
"""

import pytest
from architectures import EVERY
from hypothesis import given
from hypothesis import strategies as st

from mathlib import specs
from mathlib.checks import InputError
from mathlib.memory import activations, inference
from mathlib.specs import Layout, Model

shapes = st.builds(
    lambda d, a, s: Model("any", layers=4, width=a * d, heads=a, vocab=1000, context=s),
    st.sampled_from([4, 8, 64]),
    st.sampled_from([8, 16, 24]),
    st.integers(1, 4096),
)
micro, splits = st.integers(1, 16), st.sampled_from([1, 2, 4, 8])
RECOMPUTE = ("full", "selective", "none")


def test_every_tensor_of_both_ends_and_its_share_by_hand() -> None:
    """Two tensor ranks pad 101 rows to 102 and hold half; 2 micro-batches wait on stage 0 of 2."""
    layout = Layout(pipeline=2, tensor=2, micro_batch=3, micro_batches=4)
    model = EVERY.but(embedding_norm=True)
    first, last = (activations.stage(model, layout, stage=i, small_tensors=True) for i in range(2))
    assert dict(first["embedding"].items()) == {  # type: ignore[union-attr]
        "its norm input": 2 * 2 * 30 * 64,
        "its norm statistics": 2 * 2 * 4 * 30,
        "dropout mask": 2 * 30 * 64,
        "token numbers": 2 * 8 * 30,
    }
    head = {
        "final norm input": 2 * 30 * 64,
        "final norm statistics": 2 * 4 * 30,
        "input": 2 * 30 * 64,
        "probabilities": 4 * 30 * 102 / 2,
        "targets": 8 * 30,
        "number of targets": 4,
    }
    assert dict(last["head"].items()) == head  # type: ignore[union-attr]
    bare = activations.stage(
        model.but(final_norm=False), layout, stage=1, logits_bytes=2, bytes_per_element=4
    )
    assert dict(bare["head"].items()) == {  # type: ignore[union-attr]
        "input": 4 * 30 * 64,
        "probabilities": 2 * 30 * 102 / 2,
    }


def test_gpipe_holds_every_micro_batch_at_both_ends_by_hand() -> None:
    layout = Layout(pipeline=2, micro_batch=3, micro_batches=4)
    first, last = (activations.stage(EVERY, layout, stage=i, schedule="gpipe") for i in range(2))
    assert first.amount("embedding") == 4 * 30 * 64
    assert last.amount("head") == 4 * (2 * 2 * 30 * 64 + 4 * 30 * 101)
    assert activations.in_flight(pipeline=4, micro_batches=3) == 3
    assert activations.in_flight(pipeline=4, micro_batches=8, stage=3) == 1
    with pytest.raises(InputError, match="stage = 4: expected 0 to 3"):
        activations.in_flight(pipeline=4, micro_batches=8, stage=4)


def test_a_tensor_of_the_stream() -> None:
    assert activations.hidden_state("gpt2") == 2 * 1024 * 768
    assert activations.hidden_state("gpt2", micro_batch=3, tokens=10) == 2 * 3 * 10 * 768
    assert activations.hidden_state("gpt2", bytes_per_element=4) == 4 * 1024 * 768


@given(shapes, micro, splits)
def test_korthikanti_table_2(model: Model, b: int, t: int) -> None:
    s, h, a = model.context, model.width, model.heads
    sbh, scores = s * b * h, 5 * a * s / h

    def total(**how: object) -> float:
        return activations.layer(model, micro_batch=b, tensor=t, **how).total / sbh  # type: ignore[arg-type]

    assert total() == pytest.approx(10 + 24 / t + scores / t)
    assert total(sequence_parallel=True) == pytest.approx((34 + scores) / t)
    assert total(recompute="selective") == pytest.approx(10 + 24 / t)
    assert total(recompute="selective", sequence_parallel=True) == pytest.approx(34 / t)
    assert total(recompute="full") == pytest.approx(2)


@given(shapes, micro, st.sampled_from([1, 2, 4]))
def test_masks_are_a_byte_whatever_the_width_of_the_rest(model: Model, b: int, e: int) -> None:
    """(16 e + 2) s b h + (2 e + 1) a s^2 b; multiplying 34 by the width again counts the masks and
    the halves twice.
    """
    s, h, a = model.context, model.width, model.heads
    expected = (16 * e + 2) * s * b * h + (2 * e + 1) * a * s * s * b
    assert activations.layer(model, micro_batch=b, bytes_per_element=e).total == pytest.approx(
        expected
    )
    plain = activations.layer(model, micro_batch=b, bytes_per_element=e, dropout=False).total
    assert plain == pytest.approx(16 * e * s * b * h + e * a * s * s * b)


@given(shapes, micro, splits, st.booleans(), st.sampled_from(specs.ATTENTION))
def test_recomputing_more_never_keeps_more(
    model: Model, b: int, t: int, sp: bool, kind: str
) -> None:
    full, selective, none = (
        activations.layer(
            model, micro_batch=b, tensor=t, sequence_parallel=sp, recompute=r, attention=kind
        ).total
        for r in RECOMPUTE
    )
    assert full <= selective <= none


@given(
    shapes,
    micro,
    splits,
    st.sampled_from(RECOMPUTE),
    st.sampled_from(specs.ATTENTION),
    st.booleans(),
)
def test_tensor_and_sequence_parallelism_divide_exactly(
    model: Model, b: int, t: int, r: str, kind: str, small: bool
) -> None:
    def total(**how: object) -> float:
        return activations.layer(
            model, micro_batch=b, recompute=r, attention=kind, small_tensors=small, **how
        ).total  # type: ignore[arg-type]

    one = total()
    mask = model.context**2 if small and (r, kind) == ("none", "standard") else 0  # nobody's share
    assert total(tensor=t, sequence_parallel=True) == pytest.approx((one - mask) / t + mask)
    assert one / t * (1 - 1e-12) <= total(tensor=t) <= one * (1 + 1e-12)


def executed(p: int, m: int, v: int) -> list[tuple[float, list[int]]]:
    """Every stage's peak of micro-batches alive, all chunks together and each chunk's own.

    Megatron-LM's order, walked action by action: p micro-batches through a chunk, then the next
    chunk; backward meets the chunks in reverse.
    """
    order = [i // p % v for i in range(m * v)] if v > 1 else [0] * m
    peaks = []
    for rank in range(p):
        warm_up = min((p - rank - 1) * 2 + (v - 1) * p if v > 1 else p - rank - 1, m * v)
        actions = [+1] * warm_up + [+1, -1] * (m * v - warm_up) + [-1] * warm_up
        chunks = {+1: iter(order), -1: iter([v - 1 - chunk for chunk in order])}
        alive, most, together = [0] * v, [0] * v, 0
        for action in actions:
            chunk = next(chunks[action])
            alive[chunk] += action
            assert alive[chunk] >= 0, "no backward before its forward"
            most[chunk] = max(most[chunk], alive[chunk])
            together = max(together, sum(alive))
        assert not any(alive)
        peaks.append((together / v, most))
    return peaks


@given(st.integers(1, 12), st.integers(1, 6), st.integers(1, 5), st.integers(0, 11))
def test_in_flight_is_the_schedule_walked(p: int, rounds: int, v: int, extra: int) -> None:
    m = p * rounds if v > 1 else p * rounds + extra
    if p == 1 and v > 1:
        return
    said = [activations.in_flight(pipeline=p, micro_batches=m, chunks=v, stage=i) for i in range(p)]
    walked = executed(p, m, v)
    assert said == [together for together, _ in walked]
    first, last = activations.ends_in_flight(pipeline=p, micro_batches=m, chunks=v)
    assert (first, last) == (walked[0][1][0], walked[-1][1][-1])
    assert activations.in_flight(pipeline=p, micro_batches=m, schedule="gpipe") == m


@pytest.mark.parametrize(
    ("p", "m", "v", "held"),
    [
        (4, 8, 1, 4),
        (4, 8, 2, 5.5),
        (4, 8, 4, 4.75),
        (8, 32, 1, 8),
        (8, 32, 2, 11.5),
        (8, 32, 4, 9.75),
        (4, 4, 2, 4),
        (8, 3, 1, 3),
        (8, 8, 4, 8),
    ],
)
def test_first_stage_of_known_schedules(p: int, m: int, v: int, held: float) -> None:
    assert activations.in_flight(pipeline=p, micro_batches=m, chunks=v) == held


@given(shapes, micro, st.sampled_from([1, 2, 4]), splits, st.booleans(), st.sampled_from(RECOMPUTE))
def test_a_stage_is_its_layers_in_flight_and_its_ends(
    model: Model, b: int, p: int, t: int, sp: bool, r: str
) -> None:
    layout = Layout(
        pipeline=p, tensor=t, sequence_parallel=sp, micro_batch=b, micro_batches=8, recompute=r
    )
    one = activations.layer(model, micro_batch=b, tensor=t, sequence_parallel=sp, recompute=r).total
    for i in range(p):
        stage = activations.stage(model, layout, stage=i)
        assert stage.amount("layers") == pytest.approx(one * 4 / p * (p - i))
        assert ("embedding" in stage, "head" in stage) == (i == 0, i == p - 1)
    sbh, split = b * model.context * model.width, t if sp else 1
    assert activations.stage(model, layout).amount("embedding") == pytest.approx(sbh * p / split)
    head = activations.stage(model, layout, stage=p - 1).amount("head")
    assert head == pytest.approx(4 * sbh / split + 4 * b * model.context * 1000 / t)


def test_the_ends_belong_to_one_chunk() -> None:
    """8 stages of 4 chunks: the last stage's head serves one micro-batch, the first stage's
    embedding 16.
    """
    model, layout = (
        specs.find_model("llama3-8b"),
        Layout(pipeline=8, chunks=4, micro_batches=16),
    )
    s, h, V = model.context, model.width, model.padded_vocab
    last = activations.stage(model, layout, stage=7)
    assert last.amount("head") == 2 * 2 * s * h + 4 * s * V
    first = activations.stage(model, layout, dropout=True)
    assert first.amount("embedding") == 16 * s * h
    assert activations.ends_in_flight(pipeline=8, micro_batches=16, chunks=4, schedule="gpipe") == (
        16,
        16,
    )


def test_a_norm_behind_the_embedding_keeps_its_input() -> None:
    layout, n = Layout(micro_batch=2), 2 * 2048
    bloom = specs.find_model("bloom-560m")
    kept = activations.stage(bloom, layout, small_tensors=True)["embedding"]
    assert kept["its norm input"] == 2 * n * bloom.width
    assert kept["its norm statistics"] == 2 * 4 * n
    bare = bloom.but(embedding_norm=False, dropout=False)
    assert "embedding" not in activations.stage(bare, layout)


def test_dropout_and_kernel_are_the_models_own_and_the_title_says_so() -> None:
    llama, gpt2 = activations.stage("llama2-7b", Layout()), activations.stage("gpt2", Layout())
    assert "flash attention, no dropout" in llama.title
    assert "standard attention, dropout" in gpt2.title
    said = activations.stage("llama2-7b", Layout(), attention="standard", dropout=True)
    assert said.amount("layers") > 3 * llama.amount("layers")
    assert "standard attention, dropout" in activations.layer("gpt2").title


def test_the_vocabulary_is_padded_to_the_tensor_degree() -> None:
    model = Model("odd", layers=1, width=64, heads=8, vocab=1001, context=16)
    assert [activations.vocabulary(model, t) for t in (1, 2, 8)] == [1001, 1002, 1008]
    head = activations.stage(model, Layout(tensor=8))["head"]
    assert head["probabilities"] == 4 * 16 * 1008 / 8


def test_gpipe_holds_every_micro_batch() -> None:
    layout = Layout(pipeline=4, micro_batches=16)
    ours, gpipe = (
        activations.stage("gpt2", layout, schedule=s, stage=1).total for s in activations.SCHEDULES
    )
    assert gpipe == pytest.approx(ours * 16 / 3)


@given(st.integers(1, 5000), st.integers(1, 64), st.sampled_from([0.5, 1, 2, 4]))
def test_the_cache_is_keys_and_values_of_every_layer(tokens: int, sequences: int, e: float) -> None:
    model = specs.find_model("llama3-8b")
    cache = inference.kv_cache(model, tokens=tokens, sequences=sequences, bytes_per_element=e)
    assert cache["keys"] == cache["values"]
    assert cache.total == 2 * 32 * 8 * 128 * e * tokens * sequences
    by_degree = [inference.kv_cache(model, tokens=tokens, tensor=t).total for t in (1, 8, 16)]
    assert by_degree[1] == by_degree[2] == by_degree[0] / 8, (
        "8 heads go to 8 devices, and no head is split"
    )


def test_small_tensors_are_small() -> None:
    for kind in specs.ATTENTION:
        bare, all_of_it = (
            activations.stage("gpt2-xl", Layout(), attention=kind, small_tensors=small).total
            for small in (False, True)
        )
        assert 0 < all_of_it - bare < 0.01 * bare


@pytest.mark.parametrize(
    ("call", "named_argument"),
    [
        (lambda: activations.layer("gpt2", micro_batch=0), "micro_batch = 0"),
        (lambda: activations.layer("gpt2", tokens=-1), "tokens = -1"),
        (lambda: activations.layer("gpt2", tensor=5), "tensor = 5: does not divide heads = 12"),
        (lambda: activations.layer("gpt2", tensor=8, recompute="full"), "tensor = 8: does not"),
        (lambda: activations.layer("gpt2", recompute="some"), "recompute = 'some'"),
        (lambda: activations.layer("gpt2", attention="fast"), "attention = 'fast'"),
        (lambda: activations.layer("gpt2", bytes_per_element=0), "bytes_per_element = 0"),
        (
            lambda: activations.layer("gpt2", bytes_per_element=float("nan")),
            "bytes_per_element = nan",
        ),
        (lambda: activations.layer("gpt2", index=12), "index = 12: expected 0 to 11"),
        (lambda: activations.layer("gpt3"), "model = 'gpt3': did you mean"),
        (
            lambda: activations.stage("gpt2", Layout(pipeline=2), stage=2),
            "stage = 2: expected 0 to 1",
        ),
        (lambda: activations.stage("gpt2", Layout(), logits_bytes=-4), "logits_bytes = -4"),
        (
            lambda: activations.in_flight(pipeline=4, micro_batches=6, chunks=2),
            "does not divide micro_batches = 6",
        ),
        (
            lambda: activations.in_flight(pipeline=4, micro_batches=8, schedule="zero-bubble"),
            "schedule = 'zero-bubble'",
        ),
        (lambda: inference.kv_cache("gpt2", tokens=1.5), "tokens = 1.5"),
    ],
)
def test_bad_input_names_the_argument(call: object, named_argument: str) -> None:
    with pytest.raises(InputError) as refused:
        call()  # type: ignore[operator]
    assert named_argument in str(refused.value)


def test_ranks_that_share_a_sequence_keep_its_memory_level_from_32k_to_1m_tokens():
    """Llama 3 8B: 164 GiB of activations for 32k tokens, 5.1 TiB for 1M, unless 32 ranks share."""
    GiB, K = 2**30, 1024
    for tokens in (32 * K, 128 * K, 512 * K, 1024 * K):
        own, whole = (
            32 * activations.layer("llama3-8b", tokens=tokens, context=c, attention="flash").total
            for c in (tokens // (32 * K), 1)
        )
        assert own == 164 * GiB and whole == tokens / (32 * K) * own
    eight = activations.ulysses("llama3-8b", tokens=1024 * K, context=8)  # all its key-value heads
    assert 32 * eight == 32 * GiB
