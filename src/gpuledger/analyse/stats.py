"""NVIDIA's summary tables by NVIDIA's names: which there are, what each needs, and why one cannot be made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpuledger.analyse import calls, copies, kernels, launches, operations, ranges
from gpuledger.analyse.sheet import Sheet
from gpuledger.model.health import NotMeasured
from gpuledger.model.tables import Table
from gpuledger.model.trace import Trace


@dataclass(frozen=True, slots=True)
class Report:
    """One of NVIDIA's tables.

    `needs` must all be in the profile, and one of `any_of` at least. `reads` is what else it takes in. Where
    `may_be_empty`, a profile without such events gives a table without rows: copies and OS calls are things that a
    program may well not do.
    """

    make: Callable[[Trace], Sheet]
    needs: tuple[Table, ...] = ()
    any_of: tuple[Table, ...] = ()
    reads: tuple[Table, ...] = ()
    may_be_empty: bool = False

    @property
    def name(self) -> str:
        return self.make.__name__

    @property
    def tables(self) -> frozenset[Table]:
        """Everything that has to be read for it."""
        return frozenset(self.needs + self.any_of + self.reads)

    def of(self, trace: Trace) -> Sheet | NotMeasured:
        """The table, or why this profile cannot give it."""
        if absent := trace.missing(*self.needs):
            return absent if not self.may_be_empty else self.make(trace)
        if self.any_of and all(trace.missing(table) for table in self.any_of):
            reasons = [trace.absent[table].reason for table in self.any_of]
            return NotMeasured("; ".join(reasons))
        sheet = self.make(trace)
        if not sheet.rows and not self.may_be_empty:
            return NotMeasured(f"the profile holds no rows for {self.name}")
        return sheet


_GPU = (Table.KERNELS, Table.COPIES)

REPORTS: tuple[Report, ...] = (
    Report(kernels.cuda_gpu_kern_sum, needs=(Table.KERNELS,)),
    Report(kernels.cuda_gpu_kern_gb_sum, needs=(Table.KERNELS,)),
    Report(calls.cuda_api_sum, needs=(Table.CALLS,)),
    Report(operations.cuda_gpu_sum, any_of=_GPU),
    Report(operations.cuda_api_gpu_sum, any_of=(*_GPU, Table.CALLS)),
    Report(copies.cuda_gpu_mem_time_sum, needs=(Table.COPIES,), may_be_empty=True),
    Report(copies.cuda_gpu_mem_size_sum, needs=(Table.COPIES,), may_be_empty=True),
    Report(launches.cuda_kern_exec_sum, needs=(Table.KERNELS, Table.CALLS)),
    Report(ranges.nvtx_sum, needs=(Table.RANGES,)),
    Report(ranges.nvtx_pushpop_sum, needs=(Table.RANGES,)),
    Report(ranges.nvtx_gpu_proj_sum, needs=(Table.RANGES, Table.CALLS), any_of=_GPU),
    Report(ranges.nvtx_kern_sum, needs=(Table.RANGES, Table.KERNELS, Table.CALLS)),
    Report(calls.osrt_sum, needs=(Table.CALLS,), may_be_empty=True),
)

DEFAULT_REPORTS = ("cuda_gpu_kern_sum", "cuda_api_sum", "nvtx_sum")


def report_named(name: str) -> Report | None:
    """The report with NVIDIA's name; None if it is not one that we make."""
    return next((report for report in REPORTS if report.name == name), None)
