"""A right program on real processes: its messages go over gloo, and the system counts the bytes.

A message is a header of 16 bytes, its shapes, and its numbers, 16 bytes each: 2^127 - 1 fills them.
What comes out must be what came out of the virtual ranks, and as many numbers must have been sent.
"""

import pickle
import zlib
from collections.abc import Coroutine, Iterator
from typing import Any, NamedTuple

from mathlib.checks import InputError
from mathlib.prover.ranks import SEND, Request
from mathlib.workshop.grade import compiled, find
from mathlib.workshop.puzzle import Trial
from mathlib.workshop.ranks import NUMBER, Me, run
from mathlib.workshop.tensor import Tensor

WIDE = 16  # bytes of a number


class Real(NamedTuple):
    """A test on real processes."""

    says: str
    wrong: str  # how it differs from the virtual ranks; "": not at all
    bytes: list[int]  # of numbers, that each rank sent, by the system's count


class Wires:
    """Carries what a coroutine asks for over torch.distributed."""

    def __init__(self) -> None:
        self.around, self.sent = 0, list[Any]()  # bytes that are no numbers; what is in flight

    def carried(self, request: Request) -> Any:
        """Send and go on, or wait for a message."""
        (frm, to), tag = request.group, zlib.crc32(repr(request.what).encode()) >> 1
        if request.kind == SEND:
            return self._send(to, tag, request.payload)
        return self._receive(frm, tag)

    def _send(self, to: int, tag: int, payload: Any) -> None:
        import torch
        import torch.distributed as dist

        numbers = list[int]()
        shapes = pickle.dumps(_taken_out(payload, numbers))
        body = b"".join(n.to_bytes(WIDE, "little") for n in numbers) + shapes
        self.around += 16 + len(shapes)
        for one in (
            torch.tensor([len(numbers), len(body)]),
            torch.frombuffer(bytearray(body), dtype=torch.uint8),
        ):
            self.sent.append((dist.isend(one, to, tag=tag), one))

    def _receive(self, frm: int, tag: int) -> Any:
        import torch
        import torch.distributed as dist

        head = torch.empty(2, dtype=torch.int64)
        dist.recv(head, frm, tag=tag)
        count, size = head.tolist()
        body = torch.empty(size, dtype=torch.uint8)
        dist.recv(body, frm, tag=tag)
        text = body.numpy().tobytes()
        at = range(0, WIDE * count, WIDE)
        numbers = iter([int.from_bytes(text[i : i + WIDE], "little") for i in at])
        return _put_back(pickle.loads(text[WIDE * count :]), numbers)


def _taken_out(payload: Any, numbers: list[int]) -> Any:
    """A message with shapes in place of numbers."""
    if isinstance(payload, tuple):
        rows, shape = payload
        numbers += [n for row in rows for n in row]
        return shape, len(rows)
    return [_taken_out(one, numbers) for one in payload] if isinstance(payload, list) else payload


def _put_back(payload: Any, numbers: Iterator[int]) -> Any:
    if isinstance(payload, tuple):
        shape, rows = payload
        return [[next(numbers) for _ in range(shape[-1])] for _ in range(rows)], shape
    return [_put_back(one, numbers) for one in payload] if isinstance(payload, list) else payload


def driven(coroutine: Coroutine[Any, Any, Any], wires: Wires) -> Any:
    """A program to its end."""
    answer = None
    while True:
        try:
            answer = wires.carried(coroutine.send(answer))
        except StopIteration as end:
            for work, _ in wires.sent:
                work.wait()
            return end.value


def plain(value: Any) -> Any:
    """What can be compared, and sent between processes."""
    if isinstance(value, Tensor):
        return value.rows, value.shape
    return [plain(one) for one in value] if isinstance(value, (list, tuple)) else value


def on_this_rank(name: str, text: str, which: int, rank: int, size: int) -> tuple[Any, ...]:
    """What a real rank returns and keeps; bytes of numbers that it sent, by the system."""
    from mathlib.meters import wire

    puzzle = find(name)
    trial, wires, me = puzzle.trials()[which], Wires(), Me(rank, size)
    program = compiled(puzzle, text)[trial.entry]
    with wire.sent() as sent:
        result = driven(program(me, *trial.inputs(me)), wires)
    return plain(result), plain(trial.kept(me)), int(sent.system) - wires.around


def on_processes(name: str, text: str, ranks: int) -> list[Real]:
    """The tests of a puzzle that have so many ranks, on processes of their own."""
    trials = find(name).trials()
    sizes = {trial.cluster.ranks for trial in trials if trial.then is None}
    if ranks not in sizes:
        known = ", ".join(map(str, sorted(sizes))) or "none, since it sends no message"
        raise InputError(f"real = {ranks}: {name} has tests of these numbers of ranks: {known}")
    return [
        beside_virtual(name, text, which, trial)
        for which, trial in enumerate(trials)
        if trial.cluster.ranks == ranks
    ]


def beside_virtual(name: str, text: str, which: int, trial: Trial) -> Real:
    """One test on both."""
    try:
        from mathlib.launch import launcher
    except ImportError:
        raise InputError('real ranks need PyTorch: pip install "mathlib-measured[runs]"') from None

    def rank_of() -> tuple[Any, ...]:
        import torch.distributed as dist

        return on_this_rank(name, text, which, dist.get_rank(), dist.get_world_size())

    everyone = list[Me]()

    def inputs(me: Me) -> Any:
        everyone.append(me)
        return trial.inputs(me)

    virtual = run(compiled(find(name), text)[trial.entry], trial.cluster, inputs)
    ends = [
        (plain(virtual.results[r]), plain(trial.kept(me)), int(virtual.run.sent[r]) // NUMBER)
        for r, me in enumerate(everyone)
    ]
    found = launcher.run(rank_of, trial.cluster.ranks)
    wrong = next(filter(None, map(unlike, range(len(ends)), found, ends)), "")
    return Real(trial.says, wrong, [] if wrong else [sent for *_, sent in found])


def unlike(rank: int, found: tuple[Any, ...], there: tuple[Any, ...]) -> str:
    """How a real rank's end differs from the virtual one's; sent: bytes here, numbers there."""
    *ends, sent = found
    *wanted, numbers = there
    if ends != wanted:
        return f"rank {rank} ends with other numbers on real processes"
    said = f"rank {rank} sent {sent} bytes of numbers: expected {WIDE} for each of {numbers}"
    return "" if sent == WIDE * numbers else said
