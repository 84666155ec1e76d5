"""A watchdog: which rank waits for whom, in which collective of which group.

A rank writes down what it has begun and what of that is not through; when a run is late, the
launcher reads it.  A collective waits for those who have entered fewer of their group's; a receive
for its sender.  Sends are left out, since they wait only for a receive that others lack.
"""

import contextlib
import json
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

OFTEN = 0.1  # seconds between two looks at what is through


@contextlib.contextmanager
def watched(home: Path, rank: int) -> Iterator[None]:
    """Write down, for the block, what this rank waits for."""
    from torch.distributed import ProcessGroup, Work, get_process_group_ranks
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    calls: list[list[Any]] = []  # what is said of each, and its work
    entered: Counter[str] = Counter()
    over, lock = threading.Event(), threading.Lock()

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            call = function.__name__.partition(".")[0]
            if function.namespace != "c10d" or call == "send":
                return function(*args, **(kwargs or {}))
            scripted = [leaf for leaf in tree_leaves(args) if hasattr(leaf, "_type")]
            group = next(g for leaf in scripted if (g := _unboxed(ProcessGroup, leaf)))
            members, number = get_process_group_ranks(group), 0
            if not call.startswith("recv"):
                entered[group.group_name] += 1
                number = entered[group.group_name]
            source = members[args[2]] if call == "recv_" else None
            note = {"call": call.strip("_"), "group": group.group_name, "members": members}
            note |= {"number": number, "source": source}
            call_now = [note, None]
            with lock:
                calls.append(call_now)
            given = function(*args, **(kwargs or {}))
            call_now[1] = next(w for leaf in tree_leaves(given) if (w := _unboxed(Work, leaf)))
            return given

    def write() -> None:
        with lock:
            calls[:] = [one for one in calls if not (one[1] and one[1].is_completed())]
            said = {"entered": entered, "calls": [note for note, _ in calls[:1]]}
        (home / f"waits.{rank}.part").write_text(json.dumps(said))
        (home / f"waits.{rank}.part").rename(home / f"waits.{rank}")

    def look() -> None:
        while not over.wait(OFTEN):
            write()

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        with Mode():
            yield
    finally:
        over.set()
        thread.join()
        write()  # what others are told who wait for a rank that has ended


def _unboxed(kind: Any, leaf: Any) -> Any:
    with contextlib.suppress(Exception):
        return kind.unbox(leaf)
    return None


def told(home: Path, world_size: int) -> list[str]:
    """A line for each rank that waits: in what, and for whom."""
    said = {}
    for rank in range(world_size):
        with contextlib.suppress(OSError):
            said[rank] = json.loads((home / f"waits.{rank}").read_text())
    lines = [line for rank in said for line in _line(rank, said)]
    free = [f"rank {rank}" for rank in said if not said[rank]["calls"]]
    return [*lines, f"{', '.join(free)}: waits for nobody"] if lines and free else lines


def _line(rank: int, said: dict[int, dict]) -> Iterator[str]:
    for call in said[rank]["calls"]:
        if call["source"] is not None:
            yield f"rank {rank} waits for a message of rank {call['source']}"
            continue
        group, number = call["group"], call["number"]
        entered = {
            r: said.get(r, {"entered": {}})["entered"].get(group, 0) for r in call["members"]
        }
        late = [f"rank {r} (it entered {n})" for r, n in entered.items() if n < number]
        whom = ", ".join(late) or "nobody who is not there"
        yield f"rank {rank} waits in {call['call']}, number {number} of group {group}, for {whom}"
