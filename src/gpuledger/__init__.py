"""GPU profiles in, NVIDIA's numbers out, and from there the books: every nanosecond booked to one line.

    from gpuledger import open_trace, Table

    trace = open_trace("run.sqlite")
    kernels = trace[Table.KERNELS]
    print(len(kernels), kernels.duration_ns.sum())

Names are imported when first used, so that `import gpuledger` costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuledger.api import Report, align, build_report, compare, query, report
    from gpuledger.capture.window import window
    from gpuledger.errors import (
        GpuledgerError,
        MissingPackage,
        NothingRecorded,
        OutputRefused,
        QueryRefused,
        ToolFailed,
        UnreadableProfile,
    )
    from gpuledger.findings.finding import Finding
    from gpuledger.ledger.steps import Selection
    from gpuledger.limits import Limits
    from gpuledger.read import open_trace
    from gpuledger.read.ncu.reader import open_kernels
    from gpuledger.sql.answer import QueryAnswer
    from gpuledger.trace.measured import KernelReport
    from gpuledger.trace.model import Note, NotMeasured, Origin, Severity, Trace
    from gpuledger.trace.tables import Rows, Table

_HOMES = {
    "GpuledgerError": "errors",
    "MissingPackage": "errors",
    "NothingRecorded": "errors",
    "OutputRefused": "errors",
    "QueryRefused": "errors",
    "ToolFailed": "errors",
    "UnreadableProfile": "errors",
    "Finding": "findings.finding",
    "Limits": "limits",
    "Note": "trace.model",
    "NotMeasured": "trace.model",
    "Severity": "trace.model",
    "QueryAnswer": "sql.answer",
    "KernelReport": "trace.measured",
    "Rows": "trace.tables",
    "Table": "trace.tables",
    "Origin": "trace.model",
    "Trace": "trace.model",
    "open_trace": "read",
    "open_kernels": "read.ncu.reader",
    "align": "api",
    "build_report": "api",
    "compare": "api",
    "query": "api",
    "report": "api",
    "Report": "api",
    "Selection": "ledger.steps",
    "window": "capture.window",
}

__all__ = [
    "Finding",
    "GpuledgerError",
    "KernelReport",
    "Limits",
    "MissingPackage",
    "NotMeasured",
    "Note",
    "NothingRecorded",
    "Origin",
    "OutputRefused",
    "QueryAnswer",
    "QueryRefused",
    "Report",
    "Rows",
    "Selection",
    "Severity",
    "Table",
    "ToolFailed",
    "Trace",
    "UnreadableProfile",
    "align",
    "build_report",
    "compare",
    "open_kernels",
    "open_trace",
    "query",
    "report",
    "window",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"gpuledger.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
