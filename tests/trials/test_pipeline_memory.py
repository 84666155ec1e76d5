"""What stages keep, in our words and in PyTorch's, and the versions of weights that they meet."""

from mathlib.trials import pipeline_memory as memory


def test_stages_hold_what_the_order_says():
    found = memory.in_micro_batches(memory.held())
    for name, (law, ours, theirs) in found.items():
        assert abs(ours - law) < 0.01
        assert law - 0.01 < theirs < law + 0.2 * name.startswith("1F1B") + 0.01
    assert [law for law, _, _ in found.values()] == [8] * 4 + [4, 3, 2, 1]


def test_recomputation_leaves_inputs_and_the_logits_of_the_last_stage():
    first, *inner, last = memory.kept()
    assert first[1] == 0 and {kept for _, kept in inner} == {memory.MESSAGE}
    logits = 4 * memory.WORDED.context * memory.WORDED.vocab
    assert logits < last[1] - memory.MESSAGE < 1.01 * logits


def test_a_flush_keeps_one_version_and_pipedream_several():
    for flush, without in memory.versions():
        assert flush[1] == 1 < without[1]
