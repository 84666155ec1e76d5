"""A stretch of a row as boxes of a tensor, as torch.distributed.checkpoint saves and reads them.

A rank of a sharded optimizer holds numbers `start` to `stop` of a parameter, in the order in which
they lie in memory; a checkpoint that any number of ranks can read knows boxes: an offset and a
length along each dim. A stretch of a tensor of n dims is 2n - 1 boxes at most.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.checkpoint import DefaultLoadPlanner, DefaultSavePlanner
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import (
    LoadItemType,
    LoadPlan,
    ReadItem,
    SavePlan,
    TensorWriteData,
    WriteItem,
    WriteItemType,
)
from torch.distributed.checkpoint.planner_helpers import create_read_items_for_chunk_list

Box = tuple[tuple[int, ...], tuple[int, ...]]  # offsets and lengths, along each dim


def boxes(shape: Sequence[int], start: int, stop: int) -> Iterator[Box]:
    """The boxes that numbers start to stop of a tensor fill, in their order, last dim fastest."""
    if start >= stop:
        return
    if not shape:
        yield (), ()
        return
    line = math.prod(shape[1:])  # numbers behind one index of the first dim
    first, last = -(-start // line), stop // line  # whole lines are those from first to last
    if first > last:  # inside one line
        for offsets, sizes in boxes(shape[1:], start - last * line, stop - last * line):
            yield (last, *offsets), (1, *sizes)
        return
    for offsets, sizes in boxes(shape[1:], start - (first - 1) * line, line):
        if start < first * line:
            yield (first - 1, *offsets), (1, *sizes)
    if first < last:
        yield (first, *(0 for _ in shape[1:])), (last - first, *shape[1:])
    for offsets, sizes in boxes(shape[1:], 0, stop - last * line):
        yield (last, *offsets), (1, *sizes)


@dataclass
class Held:
    """What this rank holds of a tensor of this shape: a view of its own numbers for each box."""

    shape: tuple[int, ...]
    views: dict[tuple[int, ...], Tensor] = field(default_factory=dict)  # by the box's offsets

    def snapshot(self) -> "Held":
        """The same numbers, whatever becomes of the originals."""
        return Held(self.shape, {offsets: view.clone() for offsets, view in self.views.items()})


def whole(tensor: Tensor) -> Held:
    """A tensor that this rank has all of."""
    return Held(tuple(tensor.shape), {(0,) * tensor.dim(): tensor.detach()})


def stretch(p: nn.Parameter, start: int, numbers: Tensor) -> Held:
    """Numbers of a parameter from `start` on, in the order of its memory."""
    strides = torch.empty_like(p, device="meta").stride()  # made dense, as it lies in a row
    slowest_first = sorted(range(p.dim()), key=lambda dim: -strides[dim])
    back = [slowest_first.index(dim) for dim in range(p.dim())]
    held, done = Held(tuple(p.shape)), 0
    shape = [p.shape[dim] for dim in slowest_first]
    for offsets, sizes in boxes(shape, start, start + len(numbers)):
        count = math.prod(sizes)
        view = numbers[done : done + count].view(sizes).permute(back)
        held.views[tuple(offsets[dim] for dim in back)] = view
        done += count
    return held


class SaveBoxes(DefaultSavePlanner):
    """Plans a state of Held and plain objects; of boxes that several ranks hold, one is saved."""

    def __init__(self) -> None:
        super().__init__(flatten_state_dict=False, flatten_sharded_tensors=False)

    def create_local_plan(self) -> SavePlan:
        items = []
        for name, value in self.state_dict.items():
            if isinstance(value, Held):
                items += [_write(name, value, offsets) for offsets in value.views]
            else:
                items.append(WriteItem(MetadataIndex(name), WriteItemType.BYTE_IO))
        self.plan = SavePlan(items)
        return self.plan

    def lookup_object(self, index: MetadataIndex) -> Any:
        value = self.state_dict[index.fqn]
        return value.views[tuple(index.offset or ())] if isinstance(value, Held) else value


def _write(name: str, held: Held, offsets: tuple[int, ...]) -> WriteItem:
    view, place = held.views[offsets], torch.Size(offsets)
    data = TensorWriteData(
        chunk=ChunkStorageMetadata(offsets=place, sizes=view.size()),
        properties=TensorProperties.create_from_tensor(view),
        size=torch.Size(held.shape),
    )
    return WriteItem(MetadataIndex(name, place), WriteItemType.SHARD, tensor_data=data)


class LoadBoxes(DefaultLoadPlanner):
    """Fills a state's views from whatever boxes were saved, and reads plain objects."""

    def __init__(self) -> None:
        super().__init__(flatten_state_dict=False, flatten_sharded_tensors=False)

    def set_up_planner(
        self, state_dict: dict[str, Any], metadata: Any = None, is_coordinator: bool = False
    ) -> None:
        self.state_dict, self.metadata = state_dict, metadata
        self.is_coordinator = is_coordinator

    def create_local_plan(self) -> LoadPlan:
        assert self.metadata is not None
        items = []
        for name, value in self.state_dict.items():
            saved = self.metadata.state_dict_metadata[name]
            if isinstance(saved, TensorStorageMetadata):
                mine = [
                    ChunkStorageMetadata(torch.Size(offsets), view.size())
                    for offsets, view in value.views.items()
                ]
                items += create_read_items_for_chunk_list(name, saved, mine)
            else:
                items.append(_read(name))
        return LoadPlan(items)

    def lookup_tensor(self, index: MetadataIndex) -> Tensor:
        return self.state_dict[index.fqn].views[tuple(index.offset or ())]


def _read(name: str) -> ReadItem:
    """All bytes of a plain object."""
    index, start = MetadataIndex(name), torch.Size((0,))
    return ReadItem(LoadItemType.BYTE_IO, index, start, index, start, start)
