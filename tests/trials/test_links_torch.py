"""PyTorch's DDP sends gradients round a ring, and buffers besides."""

import pytest

from mathlib.trials import links_published as published
from mathlib.trials import links_torch as torchs


def test_buffers_are_what_ddp_sends_more():
    found = torchs.sent(network="paced")
    for name, one in found.items():
        assert 0 <= one.tcp / torchs.expected(name) - 1 < 0.01, name
        assert one.port == 0 and one.seconds > 0
    assert found["buffers, by default"].tcp > 1.15 * found["no buffers"].tcp
    ratios = [row[-1] for row in torchs.rows(found)]
    assert ratios[:2] == ["1.00", "1.00"]


def test_the_buffer_has_the_published_proportion():
    wanted = published.BUFFERS / published.K
    assert pytest.approx(wanted, rel=1e-4) == torchs.BUFFERS / torchs.GRADIENTS


def test_at_the_port_the_kernel_counts_packets_as_well():
    from mathlib.launch import namespaces
    from mathlib.schedule.cluster import Cluster

    with namespaces.made(Cluster((1, 1))) as place:
        if place.way != "namespaces":
            pytest.skip(place.why)
    one = torchs.sent(names=["buffers, by default"], network="namespaces")["buffers, by default"]
    assert 1 < one.port / one.tcp < 1.05
