"""The two meters of the wire, on what they are meant to tell apart."""

import os
import socket
import struct
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from mathlib import launch
from mathlib.launch import slow_wires
from mathlib.meters import wire
from mathlib.parallel import collectives as own

KIB, MIB = 1 << 10, 1 << 20


def to_a_slow_reader(amount: int, then: threading.Event) -> socket.socket:
    """Hand the system more than the other end's buffer takes; that end reads when `then` is set, a
    little later.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setsockopt(
            socket.SOL_SOCKET, socket.SO_RCVBUF, 32 * KIB
        )  # what it accepts inherits this
        writer = socket.create_connection(server.getsockname())
        reader = server.accept()[0]

    def read() -> None:
        then.wait()
        time.sleep(0.2)
        while reader.recv(MIB):
            pass
        reader.close()

    threading.Thread(target=read, daemon=True).start()
    writer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, amount)
    writer.sendall(bytes(amount))
    return writer


def during_and_after() -> tuple[int, int]:
    go = threading.Event()
    with wire.tcp() as during:
        first = to_a_slow_reader(200 * KIB, go)
        go.set()
    go.clear()
    second = to_a_slow_reader(200 * KIB, go)
    go.set()
    with wire.tcp() as after:
        pass
    first.close()
    second.close()
    return during.sent, after.sent


def test_bytes_belong_to_the_block_that_wrote_them_however_slow_the_link():
    assert launch.run(during_and_after, 1) == [(200 * KIB, 0)]


def over_ipv6() -> int:
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as server:
        writer = socket.create_connection(server.getsockname()[:2])
        reader = server.accept()[0]
    with reader, writer, wire.tcp() as counted:
        writer.sendall(bytes(1000))
    return counted.sent


def has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
def test_a_connection_over_ipv6_counts_too():
    assert launch.run(over_ipv6, 1) == [1000]


def test_the_ranks_of_the_group_meet_before_and_after_the_silence(monkeypatch):
    """Before, or one would go on while another still writes; after, or one would write already."""
    said: list[object] = []
    monkeypatch.setattr(dist, "barrier", said.append)
    monkeypatch.setattr(wire, "settle", lambda: said.append("silence"))
    wire.quiet("the group")
    assert said == ["the group", "silence", "the group"]


def test_a_receiver_that_never_reads_is_reported():
    def stuck() -> None:
        with to_a_slow_reader(200 * KIB, threading.Event()):
            wire.settle(0.1)

    with pytest.raises(
        launch.RankError, match="TimeoutError: data is still in flight after 0.1 seconds"
    ):
        launch.run(stuck, 1)


def one_message(source: int | None) -> tuple[int, int]:
    x = torch.zeros(MIB)
    with wire.counted() as program, wire.tcp() as system:
        dist.isend(x, 1).wait() if dist.get_rank() == 0 else dist.recv(x, source)
    return program.on_wire, system.sent


@pytest.mark.parametrize("source", [0, None], ids=["from rank 0", "from any"])
def test_what_gloo_adds_to_a_message(source):
    assert launch.run(one_message, 2, source) == [
        (4 * MIB + wire.ANNOUNCED,) * 2,
        (wire.READY,) * 2,
    ]


def some_collectives() -> wire.Counted:
    n = dist.get_world_size()
    whole, piece = torch.zeros(12 * n), torch.zeros(12)
    with wire.counted() as counted:
        dist.all_reduce(whole)
        dist.broadcast(whole, 0)
        dist.all_gather_into_tensor(whole, piece)
        dist.all_to_all_single(torch.empty_like(whole), whole)
        whole + whole  # not a collective
    return counted


def test_a_collective_counts_with_the_whole_buffer():
    counted = launch.run(some_collectives, 3, echo=False)[0]
    assert counted.calls == dict.fromkeys(
        ["allreduce_", "broadcast_", "_allgather_base_", "alltoall_base_"], 1
    )
    assert counted.payload == dict.fromkeys(counted.calls, 4 * 12 * 3)
    assert (counted.messages, counted.sent, counted.on_wire) == (0, 0, 0)


def both_counts() -> tuple[float, float, float]:
    n, r = dist.get_world_size(), dist.get_rank()
    whole, piece = torch.zeros(3000 * n), torch.zeros(3000)
    alone, _ = dist.new_subgroups(1)
    with wire.sent() as sent:
        dist.all_reduce(whole)
        dist.all_gather_into_tensor(whole, piece)
        dist.all_to_all_single(torch.empty_like(whole), whole)
        give = [1000 * ((r + to) % n) for to in range(n)]  # as much as the other gives
        dist.all_to_all_single(rows := torch.empty(sum(give)), rows.clone(), give, give)
        dist.all_reduce(whole, group=alone)
        request = dist.isend(piece, (r + 1) % n)
        dist.recv(torch.empty_like(piece), (r - 1) % n)
        request.wait()
    unequal = 4 * (sum(give) - give[r])
    told = (2 + 1 + 1) * whole.nbytes * (n - 1) / n + piece.nbytes + unequal
    return sent.program, sent.system, told


@pytest.mark.parametrize("n", [2, 3, 4])
def test_without_headers_program_and_system_count_what_the_formula_says(n):
    for found in launch.run(both_counts, n):
        assert len(set(found)) == 1, found


def few_numbers() -> list[tuple[float, float]]:
    """Fewer than a ring's segments, or some more: gloo sends no empty ones."""
    found = []
    kinds = [(n, dtype) for n in (1, 9, 33) for dtype in (torch.float32, torch.float64)]
    for x in (torch.zeros(n, dtype=dtype) for n, dtype in kinds):
        with wire.sent() as sent:
            dist.all_reduce(x)
        found.append((sent.program, sent.system))
    return found


@pytest.mark.parametrize("n", [2, 4])
def test_a_small_all_reduce_leaves_ranks_on_average_no_less_than_its_numbers(n):
    for cases in zip(*launch.run(few_numbers, n), strict=True):
        program, system = map(sum, zip(*cases, strict=True))
        assert program == system


def test_what_is_not_sent_in_a_ring_is_refused():
    def broadcast() -> None:
        with wire.sent():
            dist.broadcast(torch.zeros(3), 0)

    with pytest.raises(launch.RankError, match="collective = 'broadcast_'"):
        launch.run(broadcast, 2)


def to_neighbours() -> list[dict[int, int]]:
    """A ring over all ranks, and one over the odd or even ranks, whose neighbours have other
    numbers in the group.
    """
    groups, sent = [None, own.process_group_of([[0, 2], [1, 3]])], []
    for group in groups:
        with wire.counted() as counted:
            own.ring_all_reduce(torch.zeros(24), group)
        sent.append(dict(counted.to))
    return sent


def test_receivers_are_ranks_of_the_world():
    ring, pair = 2 * 96 * 3 // 4, 96
    assert launch.run(to_neighbours, 4) == [
        [{(r + 1) % 4: ring}, {(r + 2) % 4: pair}] for r in range(4)
    ]


def in_backward() -> wire.Counted:
    x = torch.ones(5, requires_grad=True)
    x.register_post_accumulate_grad_hook(lambda p: dist.all_reduce(p.grad))
    with wire.counted() as counted:
        (x * x).sum().backward()
    return counted


def test_what_hooks_send_during_backward_is_counted():
    assert launch.run(in_backward, 2)[0].payload == {"allreduce_": 20}


def test_other_systems_get_one_clear_line(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(NotImplementedError, match="on Linux only; wire.counted works anywhere"):
        wire.totals()


def test_operations_get_their_keyword_arguments():
    with wire.counted():
        assert torch.zeros(2, dtype=torch.int8).dtype == torch.int8


def test_functional_collectives_are_counted():
    def functional() -> int:
        from torch.distributed import _functional_collectives

        with wire.counted() as counted:
            _functional_collectives.all_reduce(torch.ones(3), "sum", dist.group.WORLD)
        return counted.payload["all_reduce"]

    assert launch.run(functional, 1) == [12]


def open_files() -> set[str]:
    return {entry.name for entry in Path("/proc/self/fd").iterdir()}


def test_only_connected_tcp_sockets_are_connections(tmp_path):
    files = [os.open(tmp_path / "file", os.O_CREAT | os.O_RDWR), *socket.socketpair()]
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagrams.connect(("127.0.0.1", 9))
    with socket.create_server(("127.0.0.1", 0)) as server:
        before = open_files()
        others = {inode for inode, _ in slow_wires.connections()}
        with socket.create_connection(server.getsockname()) as one, server.accept()[0] as other:
            ends = {os.fstat(sock.fileno()).st_ino for sock in (one, other)}
            found = {inode for inode, _ in slow_wires.connections()}
        assert found - others == ends
        silent = {os.fstat(sock.fileno()).st_ino for sock in (*files[1:], datagrams, server)}
        assert not found & silent
        assert open_files() == before, "looking leaves nothing open"
    os.close(files[0])
    for sock in (*files[1:], datagrams):
        sock.close()


def test_what_was_sent_again_is_left_out(monkeypatch):
    info = bytearray(b"\xff" * 240)  # of the kernel's struct tcp_info, two numbers
    struct.pack_into("=QQ", info, 200, 1000, 10)

    class Socket:
        def getsockopt(self, *option) -> bytes:
            assert option[:2] == (socket.IPPROTO_TCP, socket.TCP_INFO) and option[2] >= 216
            return bytes(info)

    monkeypatch.setattr(wire, "connections", lambda: [(7, Socket())])
    assert wire.totals() == {7: 990}


def test_nothing_was_sent_before_the_block_ends():
    def at_first() -> int:
        with wire.tcp() as counted:
            return counted.sent

    assert launch.run(at_first, 1) == [0]


def relayed() -> list[float]:
    """Rank 0 waits and sends on, rank 1 when it has come, and so on."""
    r, n, x = dist.get_rank(), dist.get_world_size(), torch.zeros(1)
    with wire.counted() as counted, slow_wires.wires(latency=0.05):
        if r:
            dist.recv(x, r - 1)
        if r < n - 1:
            dist.send(x, r + 1)
    return counted.left


def test_messages_leave_in_the_order_in_which_they_wait_for_one_another():
    (first,), (second,), (third,), none = launch.run(relayed, 4)
    assert first + 0.05 <= second and second + 0.05 <= third and none == []
