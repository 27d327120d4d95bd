"""NVIDIA's summary tables by NVIDIA's names: which there are, what each needs, and why one cannot be made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from gpuledger.analyse.nvidia import calls, copies, kernels, launches, ranges
from gpuledger.analyse.nvidia import gpu_operations as operations
from gpuledger.ledger.calls import cuda_calls
from gpuledger.present.sheet import Sheet
from gpuledger.trace.health import NotMeasured
from gpuledger.trace.model import Trace
from gpuledger.trace.tables import Table


@dataclass(frozen=True, slots=True)
class Report:
    """One of NVIDIA's tables.

    `needs` must all be in the profile, and one of `any_of` at least. Of large tables only `columns` are read. Where
    `may_be_empty`, a profile without such events gives a table without rows: a program may well not copy anything, and
    OS calls are traced only on request.
    """

    make: Callable[[Trace], Sheet]
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

    def of(self, trace: Trace) -> Sheet | NotMeasured:
        """The table, or why this profile cannot give it. A table without rows is an answer too."""
        return (not self.may_be_empty and self._missing(trace)) or self.make(trace)

    def _missing(self, trace: Trace) -> NotMeasured | None:
        if absent := trace.missing(*self.needs):
            return absent
        if self.any_of and all(trace.missing(table) for table in self.any_of):
            return NotMeasured("; ".join(trace.absent[table].reason for table in self.any_of))
        if Table.CALLS in self.needs and not len(cuda_calls(trace)):
            return NotMeasured("no CUDA calls were recorded (looked for CUPTI_ACTIVITY_KIND_RUNTIME)")
        return None


_GPU = (Table.KERNELS, Table.COPIES)
_BY_NAME = {Table.KERNELS: ("name",), Table.CALLS: ("name", "layer")}
_LAUNCHED = {
    Table.KERNELS: ("name", "device", "pid", "correlation"),
    Table.CALLS: ("name", "layer", "pid", "tid", "correlation"),
}

REPORTS: tuple[Report, ...] = (
    Report(kernels.cuda_gpu_kern_sum, needs=(Table.KERNELS,), columns=_BY_NAME),
    Report(kernels.cuda_gpu_kern_gb_sum, needs=(Table.KERNELS,), columns={Table.KERNELS: ("name", "grid", "block")}),
    Report(calls.cuda_api_sum, needs=(Table.CALLS,), columns=_BY_NAME),
    Report(operations.cuda_gpu_sum, any_of=_GPU, columns=_BY_NAME),
    Report(operations.cuda_api_gpu_sum, any_of=(*_GPU, Table.CALLS), columns=_BY_NAME),
    Report(copies.cuda_gpu_mem_time_sum, needs=(Table.COPIES,), may_be_empty=True),
    Report(copies.cuda_gpu_mem_size_sum, needs=(Table.COPIES,), may_be_empty=True),
    Report(launches.cuda_kern_exec_sum, needs=(Table.KERNELS, Table.CALLS), columns=_LAUNCHED),
    Report(ranges.nvtx_sum, needs=(Table.RANGES,)),
    Report(ranges.nvtx_pushpop_sum, needs=(Table.RANGES,)),
    Report(ranges.nvtx_gpu_proj_sum, needs=(Table.RANGES, Table.CALLS), any_of=_GPU, columns=_LAUNCHED),
    Report(ranges.nvtx_kern_sum, needs=(Table.RANGES, Table.KERNELS, Table.CALLS), columns=_LAUNCHED),
    Report(calls.osrt_sum, needs=(Table.CALLS,), columns=_BY_NAME, may_be_empty=True),
)

DEFAULT_REPORTS = ("cuda_gpu_kern_sum", "cuda_api_sum", "nvtx_sum")


def report_named(name: str) -> Report | None:
    """The report with NVIDIA's name; None if it is not one that we make."""
    return next((report for report in REPORTS if report.name == name), None)


def columns_for(reports: Iterable[Report]) -> dict[Table, frozenset[str]]:
    """What has to be read to make these reports."""
    wanted: dict[Table, frozenset[str]] = {}
    for report in reports:
        for table, names in report.reads.items():
            wanted[table] = wanted.get(table, frozenset()) | names
    return wanted
