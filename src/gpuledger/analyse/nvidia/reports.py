"""NVIDIA's summary tables by NVIDIA's names: which there are, what each needs, and why one cannot be made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from gpuledger.analyse.nvidia import calls, copies, kernels, launches, ranges
from gpuledger.analyse.nvidia import gpu_operations as operations
from gpuledger.ledger.calls import cuda_calls
from gpuledger.trace.health import NotMeasured
from gpuledger.trace.model import Trace
from gpuledger.trace.tables import Table

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class NvidiaReport(Generic[R]):
    """One of NVIDIA's tables, whose rows are of type R.

    `needs` must all be in the profile, and one of `any_of` at least. Of large tables only `columns` are read. Where
    `may_be_empty`, a profile without such events gives a table without rows: a program may well not copy anything, and
    OS calls are traced only on request.
    """

    make: Callable[[Trace], tuple[R, ...]]
    """The function that has NVIDIA's name."""
    title: str
    needs: tuple[Table, ...] = ()
    any_of: tuple[Table, ...] = ()
    columns: Mapping[Table, tuple[str, ...]] = field(default_factory=dict)
    may_be_empty: bool = False

    @property
    def name(self) -> str:
        return self.make.__name__

    @property
    def reads(self) -> dict[Table, frozenset[str]]:
        """What has to be read for it."""
        every = {table: tuple(column.name for column in table.schema.columns) for table in self.needs + self.any_of}
        return {table: frozenset(self.columns.get(table, names)) for table, names in every.items()}

    def rows(self, trace: Trace) -> tuple[R, ...] | NotMeasured:
        """The rows in NVIDIA's order, or why this profile cannot give them. No rows are an answer too."""
        return (not self.may_be_empty and self._missing(trace)) or self.make(trace)

    def _missing(self, trace: Trace) -> NotMeasured | None:
        if absent := trace.missing(*self.needs):
            return absent
        if self.any_of and all(trace.missing(table) for table in self.any_of):
            return NotMeasured("; ".join(trace.absent[table].reason for table in self.any_of))
        if Table.CALLS in self.needs and not len(cuda_calls(trace)):
            return NotMeasured("no CUDA calls were recorded (looked for CUPTI_ACTIVITY_KIND_RUNTIME)")
        return None


_GPU: Final = (Table.KERNELS, Table.COPIES)
_BY_NAME: Final = {Table.KERNELS: ("name",), Table.CALLS: ("name", "layer")}
_LAUNCHED: Final = {
    Table.KERNELS: ("name", "device", "pid", "correlation"),
    Table.CALLS: ("name", "layer", "pid", "tid", "correlation"),
}

CUDA_GPU_KERN_SUM: Final = NvidiaReport(
    kernels.cuda_gpu_kern_sum, "CUDA GPU Kernel Summary", needs=(Table.KERNELS,), columns=_BY_NAME
)
CUDA_GPU_KERN_GB_SUM: Final = NvidiaReport(
    kernels.cuda_gpu_kern_gb_sum,
    "CUDA GPU Kernel/Grid/Block Summary",
    needs=(Table.KERNELS,),
    columns={Table.KERNELS: ("name", "grid", "block")},
)
CUDA_API_SUM: Final = NvidiaReport(calls.cuda_api_sum, "CUDA API Summary", needs=(Table.CALLS,), columns=_BY_NAME)
CUDA_GPU_SUM: Final = NvidiaReport(
    operations.cuda_gpu_sum, "CUDA GPU Summary (Kernels/MemOps)", any_of=_GPU, columns=_BY_NAME
)
CUDA_API_GPU_SUM: Final = NvidiaReport(
    operations.cuda_api_gpu_sum, "CUDA Summary (API/Kernels/MemOps)", any_of=(*_GPU, Table.CALLS), columns=_BY_NAME
)
CUDA_GPU_MEM_TIME_SUM: Final = NvidiaReport(
    copies.cuda_gpu_mem_time_sum, "CUDA GPU MemOps Summary (by Time)", needs=(Table.COPIES,), may_be_empty=True
)
CUDA_GPU_MEM_SIZE_SUM: Final = NvidiaReport(
    copies.cuda_gpu_mem_size_sum, "CUDA GPU MemOps Summary (by Size)", needs=(Table.COPIES,), may_be_empty=True
)
CUDA_KERN_EXEC_SUM: Final = NvidiaReport(
    launches.cuda_kern_exec_sum,
    "CUDA Kernel Launch & Exec Time Summary",
    needs=(Table.KERNELS, Table.CALLS),
    columns=_LAUNCHED,
)
NVTX_SUM: Final = NvidiaReport(ranges.nvtx_sum, "NVTX Range Summary", needs=(Table.RANGES,))
NVTX_PUSHPOP_SUM: Final = NvidiaReport(ranges.nvtx_pushpop_sum, "NVTX Push/Pop Range Summary", needs=(Table.RANGES,))
NVTX_GPU_PROJ_SUM: Final = NvidiaReport(
    ranges.nvtx_gpu_proj_sum,
    "NVTX GPU Projection Summary",
    needs=(Table.RANGES, Table.CALLS),
    any_of=_GPU,
    columns=_LAUNCHED,
)
NVTX_KERN_SUM: Final = NvidiaReport(
    ranges.nvtx_kern_sum,
    "NVTX Range Kernel Summary",
    needs=(Table.RANGES, Table.KERNELS, Table.CALLS),
    columns=_LAUNCHED,
)
OSRT_SUM: Final = NvidiaReport(
    calls.osrt_sum, "OS Runtime Summary", needs=(Table.CALLS,), columns=_BY_NAME, may_be_empty=True
)

NVIDIA_REPORTS: Final[tuple[NvidiaReport[Any], ...]] = (
    CUDA_GPU_KERN_SUM,
    CUDA_GPU_KERN_GB_SUM,
    CUDA_API_SUM,
    CUDA_GPU_SUM,
    CUDA_API_GPU_SUM,
    CUDA_GPU_MEM_TIME_SUM,
    CUDA_GPU_MEM_SIZE_SUM,
    CUDA_KERN_EXEC_SUM,
    NVTX_SUM,
    NVTX_PUSHPOP_SUM,
    NVTX_GPU_PROJ_SUM,
    NVTX_KERN_SUM,
    OSRT_SUM,
)

DEFAULT_REPORTS: Final = ("cuda_gpu_kern_sum", "cuda_api_sum", "nvtx_sum")


def report_named(name: str) -> NvidiaReport[Any] | None:
    """The report with NVIDIA's name; None if it is not one that we make."""
    return next((report for report in NVIDIA_REPORTS if report.name == name), None)


def columns_for(reports: Iterable[NvidiaReport[Any]]) -> dict[Table, frozenset[str]]:
    """What has to be read to make these reports."""
    wanted: dict[Table, frozenset[str]] = {}
    for report in reports:
        for table, names in report.reads.items():
            wanted[table] = wanted.get(table, frozenset()) | names
    return wanted
