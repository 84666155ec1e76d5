"""torch's own ring, by torch's attention on whole sequences: tests/parallel/sequences/test_ring.py
has it beside ours. Its public door is shut on a CPU.
"""

from mathlib import launch
from mathlib.trials import sequences_torch


def test_torchs_context_parallel_refuses_the_kernel_of_cpus():
    for told in launch.run(sequences_torch.public, 2):
        assert "flash_attention_for_cpu.default does not have a sharding strategy" in told


def test_torchs_ring_says_what_ours_says_in_both_orders():
    for far in launch.run(lambda: [sequences_torch.apart(o) for o in ("plain", "zigzag")], 2):
        assert max(far) < 1e-5
