"""The page's groups and sums, from the mesh, from processes, and in simulation."""

from mathlib.prover import faults
from mathlib.traffic import mesh
from mathlib.trials import together


def test_the_pages_groups_are_the_meshs():
    grid = mesh.sagemaker(world=32, tensor=4, shard=4)
    page = (together.TENSOR, together.REDUCED, together.SHARDED, together.COPIES)
    assert together.listed(grid) == page
    assert together.listed(mesh.sagemaker(world=32, tensor=4, shard=2)) != page
    assert grid.sizes["replica"] == 2, "its replication degree"


def test_its_examples_add_up_and_1536_batches_are_48_models():
    first = together.example(world=1536, shard=32, batch=1, tokens=4096)
    assert first == (1536, 48, 1536, 6_291_456)
    second = together.example(world=1536, shard=32, batch=4, tokens=4096, tensor=8)
    assert second == (192, 6, 768, 3_145_728)


def test_eight_processes_make_the_groups():
    grid = mesh.sagemaker(world=8, tensor=2, shard=2)
    for rank, (found, alike) in enumerate(together.made()):
        assert alike
        for axes in together.AXES:
            assert found[" ".join(axes)] == grid.group_of(rank, *axes)


def test_the_pages_groups_train_what_one_process_trains():
    found = together.proved()
    assert found.equal and found.ranks == 32


def test_ways_to_err_are_counted_by_axis():
    found = together.ways_to_err()
    assert list(found) == list(faults.AXES) and sum(found.values()) == len(faults.every())


def test_faults_are_caught_where_they_say_and_most_are_from_threads():
    ((says, first),) = together.caught("tied-sum")
    assert says == faults.find("tied-sum").says and first.startswith("gradient of embedding")
    ((_, stuck),) = together.caught("embedding-group")
    assert stuck == "the ranks hang"
    known = [one for one in faults.every().values() if one.source]
    assert len(known) > len(faults.every()) / 2
