"""Lines of torchrun and deepspeed: how many processes they start, and the words of the script."""

import pytest

from mathlib.checks import InputError
from mathlib.cli import launchers
from mathlib.cli.typed import Typed


@pytest.mark.parametrize(
    ("line", "world"),
    [
        ("torchrun --nproc_per_node=8 --nnodes 4 --node_rank $RANK a.py --lr 1", 32),
        ("NCCL_DEBUG=INFO python -m torch.distributed.run --nproc-per-node 2 a.py --lr 1", 2),
        ("torchrun --standalone a.py --lr 1", 1),
        ("--nnodes 2 --nproc-per-node 8 -m a --lr 1", 16),
        ("deepspeed --num_gpus 8 a.py --lr 1", 8),
        ("deepspeed --num_gpus=8 --num_nodes 2 --hostfile h --no_ssh a.py --lr 1", 16),
        ("/usr/bin/deepspeed --include localhost:0,1,4 --master_port 1 a.py --lr 1", 3),
        ("deepspeed -i a:0,1@b:2 --module a --lr 1", 3),
    ],
)
def test_the_processes_are_counted_and_the_script_keeps_its_flags(line, world):
    found = launchers.read(Typed({}), line)
    assert (found.world, found.script) == (world, ["--lr", "1"])


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            "torchrun --nproc_per_nod=8 a.py",
            "--nproc_per_nod: torchrun has none such; did you mean",
        ),
        (
            "deepspeed --num_gpu 8 a.py",
            "--num_gpu: deepspeed has none such; did you mean --num-gpus",
        ),
        ("torchrun --frobnicate 8 a.py", "--frobnicate: torchrun has none such"),
        ("python a.py", "--torchrun python: expected a line of torchrun, deep"),
        ("deepspeed a.py", "deepspeed: takes all devices that it finds; say --num_gpus how many"),
        ("deepspeed --include a a.py", "say --num_gpus how many"),
        ("torchrun --nproc-per-node auto a.py", "--nproc-per-node auto: expected a whole number"),
    ],
)
def test_a_line_that_leaves_the_number_open_is_refused(line, told):
    with pytest.raises(InputError) as refused:
        launchers.read(Typed({}), line)
    assert told in str(refused.value)


def test_what_does_not_count_is_named():
    typed = Typed({})
    launchers.read(typed, "torchrun --rdzv_backend c10d --nproc-per-node 2 a.py")
    assert typed.ignored == ["--rdzv_backend"]
