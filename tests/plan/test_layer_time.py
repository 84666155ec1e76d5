"""A layer's time is what its letters give, and a layer alone in its work is its FLOP."""

from dataclasses import replace
from math import sqrt

import pytest

from mathlib.compute import flops
from mathlib.plan import layer_time
from mathlib.plan.calibration import Rates
from mathlib.plan.machine import Machine, machine
from mathlib.specs import Layout, find_cluster, find_model

RATES = Rates(tensor_hidden=0.3, launch=1e-3, launch_more=1e-4, again=0.2)
SPREAD = {"data": 8, "tensor": 4, "context": 2, "expert": 8, "sequence_parallel": True}
LAWS = {  # of one layer: what the page shows beside the plan, without its micro-batches
    "matmuls": lambda F, X, Q, W: 3 * (F / X + Q / W),
    "attention": lambda c, A, Y: c * A / Y,
    "memory traffic": lambda Q, W: 3 * Q / W,
    "waiting for launches": lambda t_b, t_k: sqrt(t_b**2 + t_k**2) - t_b,
    "recomputation": lambda c_p, c_a, c_m, t_p, t_a, t_m: c_p * t_p + c_a * t_a + c_m * t_m,
    "TP communication": lambda n, t_r, t_p, o: max(n * t_r * (1 - o), n * t_r - t_p),
    "CP communication": lambda t_c, t_b, o: max(t_c * (1 - o), t_c - t_b),
    "EP communication": lambda n, t_a, o: n * t_a * (1 - o),
}


@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
def test_every_part_of_a_layer_is_what_its_letters_give(recompute: str) -> None:
    on = machine("mixtral-8x7b", find_cluster("dgx-h100"), RATES, tokens=4096)
    one, letters = layer_time.layer_seconds(on, Layout(**SPREAD, recompute=recompute))
    assert list(letters) == list(LAWS)
    for part, (name, law) in zip(one.parts, LAWS.items(), strict=True):
        assert part == pytest.approx(law(**letters[name])), name
        assert part > 0 or (name, recompute) == ("recomputation", "none")
    assert one.each == pytest.approx(sum(one.parts))


def test_a_layer_computes_its_share_of_the_models_flop() -> None:
    model, lay = find_model("llama3-8b"), Layout()
    on = machine(model, find_cluster("dgx-h100"), RATES, tokens=2048)
    given = layer_time.layer_seconds(on, lay)[1]
    head = 2 * 2048 * model.width * model.padded_vocab
    wanted = flops.forward(model, tokens=2048, sequences=1, causal=True).total - head
    assert given["matmuls"]["F"] + given["attention"]["A"] == pytest.approx(wanted / model.layers)


def test_what_is_asked_again_is_remembered() -> None:
    on = machine("llama3-8b", find_cluster("dgx-h100"), RATES, tokens=2048)
    first = layer_time.pass_seconds(on, Layout())
    assert layer_time.pass_seconds(on, Layout(data=4, micro_batches=7)) is first
    assert layer_time.pass_seconds(on, Layout(micro_batch=2)) is not first


def test_tensor_ranks_hide_in_a_node_what_their_matmuls_cover_and_between_nodes_nothing() -> None:
    rates, nodes = Rates(tensor_hidden=1), find_cluster("p4de.24xlarge")
    quick = machine("llama3-70b", nodes, rates, tokens=8192)
    wide = {"sequence_parallel": True, "micro_batch": 8}
    place = list(LAWS).index("TP communication")

    def exchange(on: Machine, tensor: int) -> tuple[float, float]:
        one, letters = layer_time.layer_seconds(on, Layout(tensor=tensor, **wide))
        whole = letters["TP communication"]["n"] * letters["TP communication"]["t_r"]
        return one.parts[place], whole

    assert exchange(quick, 8)[0] == 0
    shown, whole = exchange(quick, 64)
    assert shown == whole > 5 * exchange(quick, 8)[1]
    slow = machine("llama3-70b", replace(nodes, link_bandwidth=1e9), rates, tokens=8192)
    shown, whole = exchange(slow, 8)
    assert 0.5 * whole < shown < whole
