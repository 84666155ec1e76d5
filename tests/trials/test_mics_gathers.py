"""Every order of a gather fills the buffer; what leaves a node is the formula and headers."""

from mathlib.trials import mics_gathers


def test_orders_send_what_the_formula_says():
    counted, predicted = mics_gathers.counted(), mics_gathers.predicted()
    assert list(counted) == list(predicted) == list(mics_gathers.WAYS)
    for name, size in predicted.items():
        assert 1 <= counted[name] / size < 1.005, name
    ring, good, page, led = predicted.values()
    assert page == 4 * good == 4 * led and good < ring < page
