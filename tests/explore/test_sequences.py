"""The explorer of long sequences: its blocks are the schedule's, its bytes the formula's."""

import pytest
from charts import boxes, drawn, outside

from mathlib.memory import activations
from mathlib.show import says
from mathlib.show.experiments import find
from mathlib.traffic import volumes

EXPERIMENT = "sequence-blocks"


def plain(html):
    return html.replace("\u00a0", " ")


def test_a_plain_ring_computes_as_its_law_says_and_zigzag_always():
    fast = {"gigabits": 3200}
    assert "compute <b>57%</b>" in find(EXPERIMENT).run(fast)
    assert "compute <b>53%</b>" in find(EXPERIMENT).run(fast | {"ranks": 8})
    assert "compute <b>100%</b>" in find(EXPERIMENT).run(fast | {"order": "zigzag"})


def test_every_block_and_message_is_drawn():
    html = find(EXPERIMENT).run({"ranks": 4, "gigabits": 50})
    drawn_boxes = [hint for hint in boxes(drawn(html)) if "keys of rank" in hint]
    assert len([hint for hint in drawn_boxes if hint.startswith("rank ")]) >= 4
    assert not outside(drawn(html))


@pytest.mark.parametrize(("order", "method"), [("zigzag", "ring"), ("ulysses", "all-to-all")])
def test_bytes_are_those_of_the_formulas(order, method):
    html = plain(find(EXPERIMENT).run({"order": order, "ranks": 8}))
    how = {"context": 8, "tokens": 131072}
    sent = volumes.context_parallel("llama3-8b", method=method, layers=1, **how)
    assert says.size(sent.amount("forward")) in html
    layer = activations.layer("llama3-8b", attention="flash", **how)
    assert says.size(32 * layer.total) in html


def test_short_parts_and_slow_links_leave_the_ranks_waiting():
    short = {"order": "zigzag", "ranks": 16, "tokens": 8192, "gigabits": 50}
    assert "compute <b>100%</b>" not in find(EXPERIMENT).run(short)


def test_ulysses_needs_as_many_key_value_heads_as_ranks():
    html = find(EXPERIMENT).run({"order": "ulysses", "ranks": 16})
    assert "16 ranks would have to share 8 key-value heads" in html
    html = find(EXPERIMENT).run({"order": "ulysses", "ranks": 4, "kv_heads": 1})
    assert "share 1 key-value head." in html
