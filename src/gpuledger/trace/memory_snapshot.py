"""What PyTorch's CUDA allocator did, and what it holds: a snapshot of it, as columns, one `GpuMemory` per GPU.

The allocator takes segments from CUDA and cuts them into blocks for tensors. A snapshot has two parts: the segments
and blocks as they are when it is taken, and the last events that led there, where a history was recorded. Instants are
of the wall clock, in ns, as torch.profiler's are; -1 where torch did not note them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from gpuledger.trace.health import Note
from gpuledger.trace.spans import Ints
from gpuledger.trace.stacks import Stacks
from gpuledger.trace.strings import Strings


class MemoryAction(IntEnum):
    """What the allocator did, by torch's words."""

    ALLOC = 0
    FREE_REQUESTED = 1
    """The tensor is gone: its bytes are no longer allocated."""
    FREE_COMPLETED = 2
    """No stream needs it any more: the block can be used again."""
    SEGMENT_ALLOC = 3
    SEGMENT_FREE = 4
    SEGMENT_MAP = 5
    """Pages of an expandable segment."""
    SEGMENT_UNMAP = 6
    OOM = 7
    SNAPSHOT = 8


@dataclass(frozen=True, slots=True, eq=False)
class MemoryHistory:
    """Events of one GPU's allocator, in their order."""

    action: NDArray[np.int8]
    address: Ints
    """Of an out-of-memory: -1."""
    size_bytes: Ints
    time_ns: Ints
    stack: NDArray[np.int32]
    """Position in the snapshot's stacks; -1 where none was recorded."""
    device_free_bytes: Ints
    """Of an out-of-memory: what the GPU had left; else -1."""

    def __len__(self) -> int:
        return len(self.action)

    def at(self, *actions: MemoryAction) -> NDArray[np.intp]:
        """The positions of such events."""
        return np.flatnonzero(np.isin(self.action, [int(action) for action in actions]))


@dataclass(frozen=True, slots=True, eq=False)
class MemorySegments:
    """What the allocator has from CUDA when the snapshot is taken."""

    address: Ints
    size_bytes: Ints
    is_expandable: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.address)


@dataclass(frozen=True, slots=True, eq=False)
class MemoryBlocks:
    """The blocks of those segments, in the order of segments and addresses."""

    segment: Ints
    """Position of its segment."""
    address: Ints
    size_bytes: Ints
    is_allocated: NDArray[np.bool_]
    is_active: NDArray[np.bool_]
    """Allocated, or freed while a stream still needs it."""
    stack: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.address)


@dataclass(frozen=True, slots=True, eq=False)
class GpuMemory:
    """One GPU's allocator."""

    gpu: int
    history: MemoryHistory
    segments: MemorySegments
    blocks: MemoryBlocks


@dataclass(frozen=True, slots=True)
class MemoryRange:
    """A stretch of the program that torch marked: an optimizer's step, a user's own annotation."""

    name: str
    gpu: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True, eq=False)
class MemorySnapshot:
    """A whole file."""

    name: str
    gpus: tuple[GpuMemory, ...]
    stacks: Stacks
    strings: Strings
    """The texts of frames."""
    ranges: tuple[MemoryRange, ...] = ()
    has_expandable_segments: bool | None = None
    """Whether they were asked for; None where the snapshot does not say."""
    health: tuple[Note, ...] = ()

    def frames(self, stack: int) -> tuple[str, ...]:
        """A stack's frames, the innermost first."""
        return tuple(self.stacks.texts(stack, self.strings))
