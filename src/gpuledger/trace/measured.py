"""What tools other than a tracer measured: kernels by Nsight Compute, printed tables of nsys, PyTorch's allocator.

Metrics of Nsight Compute are in base units: seconds count in ns, sizes in bytes, rates per second, frequencies in Hz,
and shares from 0 to 1 where it prints per cent. What was not collected, or came out as NaN, is `NotMeasured`, never 0.
A snapshot of PyTorch's CUDA allocator is columns, one `GpuMemory` per GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from gpuledger.trace.model import Note, NotMeasured
from gpuledger.trace.spans import Ints
from gpuledger.trace.strings import Stacks, Strings

Dim3 = tuple[int, int, int]


class Advice(Struct, frozen=True):
    """What one of NVIDIA's own rules said about a launch."""

    rule: str
    title: str
    message: str
    speedup_share: float | None = None
    """NVIDIA's estimate of how much of the time would go, from 0 to 1; None where the rule gives none."""
    scope: str = ""
    """`global`: of the kernel's time; `local`: of the part that the rule is about."""


class Profiled(Struct, frozen=True):
    """One launch of one kernel as Nsight Compute saw it. None: the report does not say."""

    order: int
    """Position among the launches of its file, from 0."""
    name: str
    """Demangled, with parameters where the report has them."""
    grid: Dim3 | None
    block: Dim3 | None
    metrics: Mapping[str, float]
    """By NVIDIA's name, in base units; what has no value is not in it."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """Metrics whose value is text, such as the device's name."""
    context: int | None = None
    stream: int | None = None
    device: int | None = None
    process: int | None = None
    compute_capability: tuple[int, int] | None = None
    nvtx: tuple[str, ...] = ()
    """The ranges that were open at the launch, outermost first."""
    advice: tuple[Advice, ...] = ()
    file: str = ""

    def metric(self, *names: str) -> float | NotMeasured:
        """The first of these metrics that was measured."""
        for name in names:
            if name in self.metrics:
                return self.metrics[name]
        return NotMeasured(f"{names[0]} was not collected")


class KernelReport(Struct, frozen=True):
    """The launches of one or several reports, in the order of the files and within each in order of launch."""

    launches: tuple[Profiled, ...]
    health: tuple[Note, ...] = ()
    tool_version: str | None = None


CUT = "…"
"""How nsys ends a name that did not fit."""


class SummaryRow(Struct, frozen=True):
    """The statistics of one name's times."""

    name: str
    """As printed: a range with its domain and a colon before it, a long name cut."""
    count: int
    total_ns: int | None = None
    """None for cuda_kern_exec_sum, which has none."""
    average_ns: float | None = None
    median_ns: float | None = None
    least_ns: int | None = None
    most_ns: int | None = None
    deviation_ns: float | None = None
    style: str = ""
    """Of a range: PushPop or StartEnd."""
    domain: str | None = None
    """Of a range, empty for the default one; None where it cannot be told."""
    beside: Mapping[str, int | float | str | None] = field(default_factory=dict)
    """What else the row says, by the keys of `gpuledger stats --format=json`."""

    @property
    def is_cut(self) -> bool:
        """Whether the name is only the beginning of one: several things may be called so."""
        return self.name.endswith(CUT)


class SizeRow(Struct, frozen=True):
    """The statistics of how many bytes one operation moved: as exact as they were printed, to a kB in most tables."""

    name: str
    count: int
    total_bytes: int | None = None
    average_bytes: float | None = None
    median_bytes: float | None = None
    least_bytes: int | None = None
    most_bytes: int | None = None
    deviation_bytes: float | None = None


class PrintedTable(Struct, frozen=True):
    """One table. `rows` holds times, `sizes` bytes (cuda_gpu_mem_size_sum only), each in the order printed."""

    report: str
    """NVIDIA's name, the present one: cuda_api_sum also where an old nsys wrote cudaapisum."""
    rows: tuple[SummaryRow, ...] = ()
    sizes: tuple[SizeRow, ...] = ()


class PrintedTables(Struct, frozen=True):
    """The tables of one run, by NVIDIA's names."""

    name: str
    """What to call it, and what to give to `open_summaries` to get it again."""
    tables: Mapping[str, PrintedTable]
    health: tuple[Note, ...] = ()
    profile: str = ""
    """The profile that nsys says it read; empty where it does not say."""


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


class MemoryHistory(Struct, frozen=True, eq=False):
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


class MemorySegments(Struct, frozen=True, eq=False):
    """What the allocator has from CUDA when the snapshot is taken."""

    address: Ints
    size_bytes: Ints
    is_expandable: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.address)


class MemoryBlocks(Struct, frozen=True, eq=False):
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


class GpuMemory(Struct, frozen=True, eq=False):
    """One GPU's allocator."""

    gpu: int
    history: MemoryHistory
    segments: MemorySegments
    blocks: MemoryBlocks


class MemoryRange(Struct, frozen=True):
    """A stretch of the program that torch marked: an optimizer's step, a user's own annotation."""

    name: str
    gpu: int
    start_ns: int
    end_ns: int


class MemorySnapshot(Struct, frozen=True, eq=False):
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
