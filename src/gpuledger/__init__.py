"""GPU profiles in, NVIDIA's numbers out, and from there the books: every nanosecond booked to one line.

    from gpuledger import open_trace, Table

    trace = open_trace("run.sqlite")
    kernels = trace[Table.KERNELS]
    print(len(kernels), kernels.duration_ns.sum())

And the verbs of the command line, one function each, which take a path or a trace:

    report = gpuledger.report("run.sqlite")
    print(report.to_text(), report.findings[0].code, gpuledger.gaps("run.sqlite").by_cause)

Names are imported when first used, so that `import gpuledger` costs nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers know it by its name; `typing` takes longer to import than all else here
if TYPE_CHECKING:
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
    from gpuledger.limits import Limits
    from gpuledger.read import open_trace
    from gpuledger.read.ncu.reader import open_kernels
    from gpuledger.selection import Selection
    from gpuledger.sql.answer import QueryAnswer
    from gpuledger.trace.measured import KernelReport
    from gpuledger.trace.model import Note, NotMeasured, Origin, Severity, Trace
    from gpuledger.trace.tables import Rows, Table
    from gpuledger.verbs.align import align
    from gpuledger.verbs.diff import diff
    from gpuledger.verbs.diff import diff as compare
    from gpuledger.verbs.fleet import fleet
    from gpuledger.verbs.gaps import gaps
    from gpuledger.verbs.info import info
    from gpuledger.verbs.kernels import kernels
    from gpuledger.verbs.memory import memory
    from gpuledger.verbs.ops import ops
    from gpuledger.verbs.query import query
    from gpuledger.verbs.ranges import ranges
    from gpuledger.verbs.report import Report, build_report, report
    from gpuledger.verbs.stats import stats
    from gpuledger.verbs.steps import steps
    from gpuledger.verbs.whatif import whatif

_HOMES: dict[str, str] = {
    "compare": "verbs.diff",
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
    "build_report": "verbs.report",
    "Report": "verbs.report",
    "Selection": "selection",
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
    "diff",
    "fleet",
    "gaps",
    "info",
    "kernels",
    "memory",
    "open_kernels",
    "open_trace",
    "ops",
    "query",
    "ranges",
    "report",
    "stats",
    "steps",
    "whatif",
    "window",
]


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in _HOMES:
        from gpuledger.verbs import VERBS

        verbs = {verb: f"verbs.{verb}" for verb, known in VERBS.items() if known.answers}
        if name not in verbs:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        _HOMES.update(verbs)
    return getattr(import_module(f"gpuledger.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
