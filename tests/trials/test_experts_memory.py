"""What experts leave, with even loads and with others, and states that ZeRO shards."""

from mathlib.trials import experts_memory as memory


def test_a_layer_of_experts_keeps_what_the_formula_says_and_a_term_for_rows_that_came():
    base = memory.formula() + memory.indices()
    assert {held for held, _ in memory.kept(2)} == {base}
    uneven = memory.kept(2, balanced=False)
    assert len({came for _, came in uneven}) == 2
    for held, came in uneven:
        assert held == base + (came - 96) * memory.row_bytes()


def test_states_of_experts_and_of_the_rest_together_are_those_of_zero_whatever_the_degree():
    found = [memory.optimizer_states(2, P) for P in (1, 2)]
    assert all(formula == held for formula, held in found) and found[0] == found[1]
