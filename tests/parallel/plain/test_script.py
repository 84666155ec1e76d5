"""Each plain file as a script: started here, and by torchrun."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import cloudpickle
import pytest
from processes import ENVIRONMENT

from mathlib.parallel.plain import script

LINE = re.compile(r"(\S.*): loss (\S+), a rank sends (\S+) bytes$")
SCRIPTS = {
    "ring": ["naive_all_reduce", "all_reduce"],
    "ddp": ["naive", "DDP"],
    "zero": ["ZeRO 1", "ZeRO 2", "ZeRO 3"],
    "muon": ["Muon"],
    "shampoo": ["repeated", "by owners"],
    "mics": ["MiCS"],
    "tensor": ["tensor"],
    "vocabulary": ["vocabulary"],
    "sequence_parallel": ["sequence"],
    "ring_attention": ["ring attention, plain", "ring attention, zigzag"],
    "ulysses": ["Ulysses"],
    "experts": ["experts over 1", "experts over 2", "experts over 4"],
    "pipeline": ["gpipe", "1f1b", "interleaved"],
    "compression": ["Full", "Fp16", "Int8", "Sign", "TopK", "PowerSGD"],
    "unequal": ["unequal"],
    "local_sgd": ["local SGD", "DiLoCo", "in two fragments"],
    "quorum": ["quorum"],
    "together": ["2 stages x 2 replicas x 2 tensor ranks"],
}
LONG = {"together": (8, 170), "compression": (4, 160)}  # ranks and lines
OTHERWISE = ("pipeline", "compression", "local_sgd")  # other layers, other steps


def test_a_file_can_be_shown_whole():
    """On a page: a screen or two, in columns that need no scrolling sideways."""
    for name in SCRIPTS:
        text = Path(script.__file__).with_stem(name).read_text("utf-8")
        lines = text.splitlines()
        ranks, most = LONG.get(name, (4, 120))
        assert len(lines) <= most and max(map(len, lines)) <= 88, name
        assert f"torchrun --nproc-per-node {ranks} -m mathlib.parallel.plain.{name}" in text


def said(text):
    """Losses and bytes of each line, by their title."""
    found = {}
    for line in text.splitlines():
        title, loss, sent = LINE.search(line.removeprefix("[rank 0] ")).groups()
        found.setdefault(title, []).append((float(loss), int(sent.replace(",", ""))))
    return found


@pytest.fixture
def three_steps(monkeypatch):
    """Of the ranks too: they get the module's functions from here."""
    monkeypatch.setattr(script, "STEPS", 3)
    cloudpickle.register_pickle_by_value(script)
    yield
    cloudpickle.unregister_pickle_by_value(script)


@pytest.mark.filterwarnings("ignore:.*found in sys.modules")
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_file_trains_and_says_what_it_sends(name, capsys, three_steps):
    runpy.run_module(f"mathlib.parallel.plain.{name}", run_name="__main__", alter_sys=True)
    found = said(capsys.readouterr().out)
    assert list(found) == SCRIPTS[name]
    for steps in found.values():
        assert len(steps) == 3
        losses, sent = zip(*steps, strict=True)
        assert losses[-1] < losses[0] - 0.1
        if name != "local_sgd":  # whose ranks part, and do not send in each step
            assert losses == tuple(sorted(losses, reverse=True))
            assert max(sent) <= min(sent) * (1.02 if name == "experts" else 1)  # tokens choose
    if name not in OTHERWISE:
        assert len({tuple(loss for loss, _ in steps) for steps in found.values()}) == 1


def test_so_under_torchrun():
    words = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [sys.executable, *words, "-m", "mathlib.parallel.plain.zero"],
        env=ENVIRONMENT | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
        capture_output=True,
        text=True,
        check=True,
    )
    found = said(done.stdout)
    assert list(found) == SCRIPTS["zero"] and all(len(steps) == 5 for steps in found.values())
