"""What is alive at each moment of a step."""

import pytest

from mathlib import specs
from mathlib.checks import InputError
from mathlib.memory import activations, fit, one_device, states
from mathlib.parts import Parts
from mathlib.specs import Experts, Layout, Model

SMALL = Model("small", layers=8, width=64, heads=8, vocab=512, context=128)
MOMENTS = ["end of forward", "loss", "head", "last layer", "first layer", "embedding", "update"]


def test_a_stage_has_the_moments_of_its_ends() -> None:
    layout = Layout(pipeline=4, micro_batches=8)
    said = [list(one_device.moments(SMALL, layout, stage=i)) for i in (0, 1, 3)]
    assert list(one_device.moments(SMALL)) == MOMENTS
    assert said == [
        [m for m in MOMENTS if m not in ("loss", "head")],
        [m for m in MOMENTS if m not in ("loss", "head", "embedding")],
        [m for m in MOMENTS if m != "embedding"],
    ]


def sizes(found: dict[str, Parts]) -> dict[str, dict[str, float]]:
    """Every moment's parts in bytes."""
    return {moment: {part: one.amount(part) for part in one} for moment, one in found.items()}


def test_every_moment_of_a_small_gpt_by_hand() -> None:
    """Mixed Adam, one micro-batch of 128 tokens; the tied table is the head."""
    nh, nV, table = 128 * 64, 128 * 512, 512 * 64
    matrices = 12 * 64 * 64 + 9 * 64  # of a layer, with their biases
    P = table + 128 * 64 + 8 * (matrices + 4 * 64) + 2 * 64
    layer, mask, ends, probabilities = nh * (34 + 5 * 128 * 8 / 64), nh, 4 * nh, 4 * nV
    # attention's backward: two gradients of the stream, two of the scores; MLP and a norm are gone
    work = 2 * 2 * nh + 2 * 2 * 8 * 128 * 128 - 19 * nh - 2 * nh
    down = 4 * 64 * 64
    kept = {"weights": 2 * P, "master weights": 4 * P, "optimizer states": 8 * P}
    everything = 8 * layer + mask + ends + probabilities
    assert sizes(one_device.moments(SMALL)) == {
        "end of forward": {**kept, "activations": everything, "logits": (4 + 2) * nV},
        "loss": {**kept, "activations": everything, "gradients of logits": 2 * 4 * nV},
        "head": {
            **kept,
            "gradients": 2 * table,
            "activations": everything - probabilities,
            "gradients of logits": 2 * nV,
        },
        "last layer": {
            **kept,
            "gradients": 2 * (table + 2 * down),
            "activations": 8 * layer + mask,
            "working tensors": work,
        },
        "first layer": {
            **kept,
            "gradients": 2 * (table + 7 * matrices + 2 * down),
            "activations": layer + mask,
            "working tensors": work,
        },
        "embedding": {**kept, "gradients": 2 * P, "new gradients": 2 * 2 * table},
        "update": {**kept, "gradients": 2 * P},
    }


GATED = Model(
    "gated",
    layers=4,
    width=64,
    heads=8,
    kv_heads=4,
    vocab=500,
    context=32,
    gated=True,
    ffn_width=96,
    norm="rmsnorm",
    positions="rotary",
    tied=False,
    dropout=False,
    qkv_bias=False,
    output_bias=False,
    mlp_bias=False,
)
SPLIT = Layout(
    data=4,
    tensor=2,
    pipeline=2,
    micro_batch=3,
    micro_batches=2,
    zero=2,
    sequence_parallel=True,
    recompute="selective",
)


def test_every_moment_of_a_last_stage_in_three_dimensions_by_hand() -> None:
    """96 tokens, 2 tensor ranks, ZeRO 2 over 4: of 2 + 4 bytes of gradients a quarter is kept."""
    nh, nV, table = 96 * 64, 96 * 500 / 2, 500 * 64 / 2
    matrices, down = (64 * 64 * 2 + 64 * 32 * 2 + 3 * 64 * 96) / 2, 96 * 64 / 2
    P = 2 * (matrices + 2 * 64) + 64 + table
    softmax, hidden = 2 * 8 * 32 * 32 * 3 / 2, 2 * 96 * 96 / 2
    layer = 7 * nh + 4 * hidden  # of 2 n h halved: 2 norms, q, k and v, 2 inputs, projection input
    # the core again: two gradients of the stream, two of the scores, copies of queries and keys
    work = 2 * nh + 2 * softmax + (nh + nh / 2) - (nh + 4 * hidden) - nh
    kept = {"weights": 2 * P, "master weights": P, "optimizer states": 2 * P, "main gradients": P}
    kept["gradients"] = P / 2
    everything, probabilities = 2 * layer + 2 * nh + 4 * nV, 4 * nV
    whole = {"gathered layer": 2 * table}  # the head is larger than a layer
    again = {"recomputation": softmax, "working tensors": work, "new gradients": 2 * down, **whole}
    found = one_device.moments(GATED, SPLIT, recipe="mixed-adam-both-gradients", stage=1)
    assert sizes(found) == {
        "end of forward": {**kept, "activations": everything, "logits": (4 + 2) * nV},
        "loss": {**kept, "activations": everything, "gradients of logits": 2 * 4 * nV},
        "head": {
            **kept,
            "activations": everything - probabilities,
            "gradients of logits": 2 * nV,
            "new gradients": 2 * table,
        },
        "last layer": {**kept, "activations": 2 * layer, **again},
        "first layer": {**kept, "activations": layer, **again},
        "update": kept,
    }
    first = one_device.moments(GATED, SPLIT, recipe="mixed-adam-both-gradients")
    assert first["embedding"]["new gradients"] == 2 * table, "added to what is there"
    assert first["embedding"].amount("gradients") == (P - 64) / 2


def test_the_fuller_half_of_a_layer_by_hand() -> None:
    """Without scores the MLP is fuller: a gradient of the stream and one of its own width."""
    nh, down = 128 * 64, 4 * 64 * 64
    for recompute, again in (("none", 0), ("full", 34 * nh - 2 * nh)):
        flash = one_device.moments(SMALL, Layout(recompute=recompute), attention="flash")[
            "last layer"
        ]
        assert flash["working tensors"] == 2 * nh + 2 * 4 * nh
        assert (flash.amount("recomputation") if again else 0) == again
        assert flash["gradients"] == 2 * (512 * 64 + down)
    scores = 2 * 2 * 8 * 128 * 128
    for norms, gone in ((0, 19 * nh), (1, 17 * nh), (2, 19 * nh + 2 * nh)):
        standard = one_device.moments(SMALL.but(block_norms=norms))["last layer"]
        assert standard["working tensors"] == 2 * 2 * nh + scores - gone


def test_the_fuller_half_of_a_short_context_by_hand() -> None:
    """40 s^2 bytes of the core come back; at 16 tokens the MLP's 640 s are more, at 24 they are
    less, although what the MLP kept and is gone outweighs attention's tensors, 32 s^2 - 832 s.
    """
    selective = Layout(recompute="selective")
    mlp, attention = (
        one_device.moments(SMALL.but(context=s), selective)["last layer"] for s in (16, 24)
    )
    assert mlp["working tensors"] == 640 * 16 and "recomputation" not in mlp
    assert attention["recomputation"] == 72 * 24**2 - 832 * 24
    assert "working tensors" not in attention
    gated = one_device.moments(GATED.but(context=64))["last layer"]
    assert gated["gradients"] == 2 * (500 * 64 + 3 * 96 * 64), "up, gate and down are done"


def test_the_first_layer_of_one_chunk_finds_the_other_chunks() -> None:
    """Stage 0 of 2 holds layers 0, 1 and 4, 5: behind layer 0 only layer 1 is done."""
    layout = Layout(pipeline=2, chunks=2, micro_batches=2)
    found = one_device.moments(SMALL, layout)
    one = 128 * 64 * (34 + 5 * 128 * 8 / 64)
    assert found["last layer"].amount("activations") == 8 * one + 2 * 128 * 64, "2 in flight"
    assert found["first layer"].amount("activations") == 7 * one + 2 * 128 * 64


def test_a_chunk_ends_where_the_next_begins() -> None:
    """Layers 0, 1 and 4, 5, of which 1 and 5 have experts: behind layer 1 none of its chunk is."""
    few = SMALL.but(experts=Experts(routed=8, active=1, width=512, every=2))
    layout = Layout(pipeline=2, chunks=2, micro_batches=2)
    found = one_device.moments(few, layout)
    kept = activations.stage(few, layout)
    for name in ("first expert layer", "last layer"):
        assert found[name].amount("activations") == kept.total, name
    gone = activations.layer(few, index=1).total
    assert found["first layer"].amount("activations") == kept.total - gone


def test_where_gradients_are_added_a_tied_table_waits_by_hand() -> None:
    down, table = 4 * 64 * 64, 512 * 64
    for tied, waits in ((True, table), (False, 0)):
        found = one_device.moments(SMALL.but(tied=tied), accumulation=True)
        for name in ("last layer", "first layer"):
            assert found[name]["new gradients"] == 2 * (down + waits)


def test_what_is_not_there_has_no_bytes() -> None:
    assert "logits" not in one_device.moments(SMALL, loss="fused")["end of forward"]
    pair = Layout(pipeline=2, micro_batches=2)
    assert "logits" not in one_device.moments(SMALL, pair)["end of forward"]
    full = one_device.moments(SMALL, Layout(recompute="full"), recipe="adam-fp32", autocast=True)
    none = one_device.moments(SMALL, recipe="adam-fp32", autocast=True)
    assert "cast weights" in none["head"]
    assert not any("cast weights" in full[m] for m in ("head", "last layer", "first layer"))
    assert "cast weights" not in one_device.moments(SMALL, Layout(recompute="full"))["last layer"]
    assert not any(one.binary for one in one_device.moments(SMALL).values())


def test_new_gradients_of_the_table_by_hand() -> None:
    """Two of a tied table and their sum; one more where it is added to what is there, or goes on
    to the rank that keeps it.
    """
    table = 2 * 512 * 64
    for model, layout, copies in (
        (SMALL, Layout(), 2),
        (SMALL, Layout(micro_batches=2), 3),
        (SMALL, Layout(data=2, zero=2), 3),
        (SMALL, Layout(data=2, zero=1), 2),
        (SMALL, Layout(data=2, zero=2, shard=1), 2),
        (SMALL.but(tied=False), Layout(micro_batches=2), 1),
        (SMALL.but(tied=False), Layout(), 0),
    ):
        found = one_device.moments(model, layout)["embedding"]
        assert (found.amount("new gradients") if copies else 0) == copies * table, layout
        assert copies or "new gradients" not in found


def test_autocast_widens_the_stream_and_the_scores_by_hand() -> None:
    """A gradient of the stream in fp32 and its cast; softmax in fp32; the head's cast is done."""
    nh, scores = 128 * 64, 8 * 128 * 128
    cast = one_device.moments(SMALL, recipe="adam-fp32", autocast=True)
    last, head = cast["last layer"], cast["head"]
    assert last["working tensors"] == 2 * 6 * nh + 2 * 4 * scores - 19 * nh - 4 * nh
    assert last["cast weights"] == 2 * 8 * (12 * 64 * 64 + 9 * 64)
    assert head["new gradients"] == 2 * 512 * 64, "in 2 bytes, beside the 4 that are kept"
    again = one_device.moments(SMALL, recipe="adam-fp32", autocast=True, accumulation=True)["head"]
    assert again["new gradients"] == (4 + 2) * 512 * 64
    pair = Layout(pipeline=2, micro_batches=2)
    first = one_device.moments(SMALL, pair, recipe="adam-fp32", autocast=True)["end of forward"]
    assert first["cast weights"] == 2 * 4 * (12 * 64 * 64 + 9 * 64), "an embedding is looked up"


def test_what_goes_to_the_activations_counts_in_the_logits_too() -> None:
    found = one_device.moments(SMALL, tokens=64, logits_bytes=2, bytes_per_element=2)
    assert found["end of forward"]["logits"] == 2 * 64 * 512, "of one type, so one copy"
    assert found["loss"]["gradients of logits"] == 2 * 2 * 64 * 512
    wide = one_device.moments(SMALL, bytes_per_element=4)
    assert wide["head"]["gradients of logits"] == 4 * 128 * 512
    split = one_device.moments(SMALL.but(vocab=511), Layout(tensor=2))
    assert split["loss"]["gradients of logits"] == 2 * 4 * 128 * 512 / 2, "padded to 512"


def test_what_the_update_takes_by_hand() -> None:
    """A root of the second moment, and a cast of narrow gradients, of a quarter of the weights."""
    P, table = states.stage_parameters(SMALL, Layout()).total, 512 * 64
    quarter = Layout(data=4, zero=1)
    for recipe, layout, kernel, wanted in (
        ("mixed-adam", Layout(), "foreach", (4 + 4) * P),
        ("mixed-adam", quarter, "foreach", (4 + 4) * P / 4),
        ("mixed-adam", quarter, "for-loop", (2 * 4 + 4) * table),
        ("mixed-adam", Layout(data=16, zero=1), "for-loop", (2 * 4 + 4) * P / 16),
        ("mixed-adam", Layout(data=4), "foreach", (4 + 4) * P),
        ("mixed-adam-fp32-gradients", Layout(), "foreach", 4 * P),
        ("mixed-adam-gradient-copies", Layout(), "foreach", 4 * P),
        ("adam-8bit", Layout(), "foreach", 0),
        ("sgd", Layout(), "foreach", 0),
    ):
        update = one_device.moments(SMALL, layout, recipe=recipe, optimizer=kernel)["update"]
        assert (update.amount("update") if wanted else 0) == wanted, (recipe, layout, kernel)
        assert wanted or "update" not in update
    narrow = SMALL.but(vocab=100, positions="none")
    loop = one_device.moments(narrow, recipe="adam-fp32", optimizer="for-loop")["update"]
    assert loop["update"] == 2 * 4 * 4 * 64 * 64, "its largest weight is an MLP's"
    many = narrow.but(experts=Experts(routed=8, active=1, width=512))
    loop = one_device.moments(many, recipe="adam-fp32", optimizer="for-loop")["update"]
    assert loop["update"] == 2 * 4 * 512 * 64, "an expert's, and not all experts'"


def test_binary_is_the_same_printed_in_gib() -> None:
    plain, binary = (one_device.moments(SMALL, binary=b) for b in (False, True))
    assert sizes(binary) == sizes(plain)
    assert {one.binary for one in binary.values()} == {True}
    assert {one.binary for one in plain.values()} == {False}
    assert [one.title for one in binary.values()] == [one.title for one in plain.values()]


def test_buffers_are_alive_at_every_moment() -> None:
    found = one_device.moments(SMALL, buffers={"context": 1e9, "nothing": 0})
    assert {one["context"] for one in found.values()} == {1e9}


def test_a_plain_loss_holds_three_of_the_logits_and_a_fused_one_a_single() -> None:
    model, n = specs.find_model("llama3-8b"), 8192
    plain, fused = (
        one_device.moments(model, Layout(recompute="full"), loss=loss)["loss"]
        for loss in one_device.LOSSES
    )
    assert plain.total - fused.total == 2 * 4 * n * 128256
    assert plain["activations"]["head"].total - 2 * 2 * n * 4096 == 4 * n * 128256  # type: ignore[index]
    assert "the loss" in fit.training(model, Layout(recompute="full", micro_batches=2)).title


def test_the_update_by_its_kernels() -> None:
    model = specs.find_model("llama3-8b")
    P = states.stage_parameters(model, Layout()).total
    update = {
        kind: one_device.moments(
            model, Layout(recompute="full"), recipe="adam-fp32", optimizer=kind
        )["update"].total
        for kind in one_device.OPTIMIZERS
    }
    assert update["fused"] == 16 * P
    assert update["foreach"] == 20 * P
    assert update["for-loop"] == 16 * P + 2 * 4 * 128256 * 4096
    own = one_device.moments(model, recipe="adam-fp32")["update"]
    assert own.total == update["foreach"] and "foreach optimizer" in own.title
    assert "fused optimizer" in fit.training(model).title, "master weights: no optimizer of torch's"


def test_gradients_live_through_the_forward_where_something_keeps_them() -> None:
    P = states.stage_parameters(SMALL, Layout()).total
    one = one_device.moments(SMALL)["end of forward"].total
    for change, more in (
        ({"layout": Layout(micro_batches=2)}, 2 * P),
        ({"accumulation": True}, 2 * P),
        ({"ddp_buckets": "view"}, 2 * P),
        ({"ddp_buckets": "copy"}, 2 * P),
        ({"recipe": "mixed-adam-fp32-gradients"}, 4 * P),
        ({"layout": Layout(micro_batches=2), "accumulation": False}, 0),
    ):
        assert one_device.moments(SMALL, **change)["end of forward"].total == one + more, change
    both = one_device.moments(SMALL, ddp_buckets="copy")["update"].total
    assert both == one_device.moments(SMALL)["update"].total + 2 * P


def test_autocast_keeps_a_copy_of_every_matrix() -> None:
    layer = 12 * SMALL.width**2 + 9 * SMALL.width
    copies = 2 * (SMALL.layers * layer + SMALL.vocab * SMALL.width)
    cast = one_device.moments(SMALL, recipe="adam-fp32", autocast=True)
    assert cast["loss"]["cast weights"] == copies
    assert cast["first layer"]["cast weights"] == 2 * layer
    full = one_device.moments(SMALL, Layout(recompute="full"), recipe="adam-fp32", autocast=True)
    assert full["end of forward"]["cast weights"] == copies, "they go when autocast ends"
    assert full["loss"]["cast weights"] == 2 * SMALL.vocab * SMALL.width
    assert "cast weights" not in full["first layer"]


def test_recomputing_a_layer_brings_back_what_it_dropped() -> None:
    none, selective, full = (
        one_device.moments(SMALL, Layout(recompute=r)) for r in ("none", "selective", "full")
    )
    one = activations.layer(SMALL)
    core = sum(amount for name, amount in one["attention"].items() if name.startswith("softmax"))  # type: ignore[union-attr]
    for moment in ("last layer", "first layer"):
        assert "recomputation" not in none[moment]
        assert selective[moment]["recomputation"] == pytest.approx(core)
        assert full[moment]["recomputation"] == pytest.approx(
            one.total - activations.layer(SMALL, recompute="full").total
        )
    assert full["loss"].total < selective["loss"].total < none["loss"].total


def test_stage_3_gathers_its_largest_piece_and_stage_2_its_gradients() -> None:
    sharded = one_device.moments(SMALL, Layout(data=4, zero=3))
    layer = 12 * 64 * 64 + 13 * 64
    assert sharded["last layer"]["gathered layer"] == (2 + 2) * layer
    assert sharded["end of forward"]["gathered layer"] == 2 * layer
    two = one_device.moments(SMALL, Layout(data=4, zero=2))
    assert two["last layer"]["gathered layer"] == 2 * layer
    assert "gathered layer" not in two["loss"], "no gradient of a weight is there yet"
    assert "gathered layer" not in two["head"], "the head's whole gradient is new"
    inner = one_device.moments(SMALL, Layout(data=4, pipeline=2, zero=2), attention="flash")
    assert inner["last layer"]["gathered layer"] == 2 * 4 * 64 * 64, "only the last matrix's is"
    assert "gathered layer" not in sharded["update"]
    assert "gathered layer" not in fit.training(SMALL, Layout(zero=3)), (
        "a group of one has nothing to gather"
    )
    wide = one_device.moments(SMALL.but(vocab=50000), Layout(data=4, zero=3))
    assert wide["loss"]["gathered layer"] == 2 * 50000 * 64, "a large vocabulary is the largest"


def test_a_layer_with_experts_and_one_without_are_looked_at_apart() -> None:
    """Every second layer has experts: the fullest backward may be of either kind."""
    few = SMALL.but(experts=Experts(routed=8, active=1, width=512, shared=1, every=2))
    found = one_device.moments(few, Layout(recompute="full"))
    ends = ["last layer", "first layer", "last dense layer", "first expert layer"]
    assert list(found)[3:7] == ends
    expert, dense = (sum(states.layer_parameters(few, 1, [i]).values()) for i in (1, 0))
    h = 64
    written = {"experts": 9 * 512 * h, "dense": 2 * 256 * h}
    gradients = {name: found[name].amount("gradients") / 2 for name in ends}
    head = 512 * h
    assert gradients["last dense layer"] - head == expert + written["dense"], "one is done"
    done = 4 * expert + 3 * dense
    assert gradients["first layer"] - head == done + written["dense"]
    assert gradients["first expert layer"] - head == done - expert + written["experts"]
    kept = [found[name]["activations"].amount("layers") for name in ends]  # type: ignore[union-attr]
    one = activations.layer(few, recompute="full").total
    assert kept == [4 * one, one, 4 * one, one]


def test_the_largest_piece_of_mixed_layers_is_one_with_experts() -> None:
    few = SMALL.but(experts=Experts(routed=8, active=1, width=256, every=2), attention_sinks=True)
    experts = states.layer_parameters(few, 1, [1])
    gathered = one_device.moments(few, Layout(data=4, zero=3))["end of forward"]["gathered layer"]
    assert experts["sinks"] == few.heads
    assert gathered == 2 * (sum(experts.values()) + 2 * 2 * 64)


@pytest.mark.parametrize("every", [1, 2, 3])
def test_no_stage_is_fuller_than_the_one_that_training_takes(every: int) -> None:
    few = SMALL.but(layers=12, experts=Experts(routed=8, active=2, width=256, every=every))
    layout = Layout(pipeline=4, micro_batches=4)
    stages = [one_device.moments(few, layout, stage=i).values() for i in range(4)]
    most = max(one.total for stage in stages for one in stage)
    assert fit.training(few, layout).total == most


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: one_device.moments("gpt2", stage=1), "stage = 1: expected 0 to 0"),
        (lambda: one_device.moments("gpt2", buffers={"context": -1}), "buffers['context'] = -1"),
        (lambda: one_device.moments("gpt2", optimizer="apex"), "optimizer = 'apex'"),
        (lambda: one_device.moments("gpt2", loss="liger"), "loss = 'liger'"),
        (lambda: one_device.moments("gpt2", ddp_buckets="both"), "ddp_buckets = 'both'"),
        (lambda: one_device.moments("gpt2", accumulation=2), "accumulation = 2"),
    ],
)
def test_bad_input_names_the_argument(call: object, named: str) -> None:
    with pytest.raises(InputError) as refused:
        call()  # type: ignore[operator]
    assert named in str(refused.value)
