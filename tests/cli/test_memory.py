"""mathlib memory: the library's bytes, and whether they fit where a device is named."""

from command_line import answered

from mathlib import specs
from mathlib.memory import fit


def test_a_device_adds_its_room_what_is_left_and_a_verdict(capsys):
    bare = answered("memory gpt2 --micro-batch 2", capsys)
    total = fit.training("gpt2", specs.Layout(micro_batch=2)).total
    assert bare["total"] == total and bare["verdict"] is None and "room" not in bare["also"]
    for room, size in (("--memory 24GB", 24e9), ("--device h100-sxm", None)):
        data = answered(f"memory gpt2 --micro-batch 2 {room}", capsys)
        size = size or specs.find_device("h100-sxm").room
        assert data["also"]["room"]["value"] == size and data["verdict"]
        assert data["also"]["left"]["value"] == size - total
