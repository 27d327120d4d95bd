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
if TYPE_CHECKING:  # `as`: type checkers take these for public
    from gpuledger.capture.window import window as window
    from gpuledger.errors import GpuledgerError as GpuledgerError
    from gpuledger.errors import MissingPackage as MissingPackage
    from gpuledger.errors import NothingRecorded as NothingRecorded
    from gpuledger.errors import OutputRefused as OutputRefused
    from gpuledger.errors import QueryRefused as QueryRefused
    from gpuledger.errors import ToolFailed as ToolFailed
    from gpuledger.errors import UnreadableProfile as UnreadableProfile
    from gpuledger.findings.finding import Finding as Finding
    from gpuledger.limits import Limits as Limits
    from gpuledger.read import open_trace as open_trace
    from gpuledger.read.ncu.reader import open_kernels as open_kernels
    from gpuledger.selection import Selection as Selection
    from gpuledger.sql.answer import QueryAnswer as QueryAnswer
    from gpuledger.trace.measured import KernelReport as KernelReport
    from gpuledger.trace.model import Note as Note
    from gpuledger.trace.model import NotMeasured as NotMeasured
    from gpuledger.trace.model import Origin as Origin
    from gpuledger.trace.model import Severity as Severity
    from gpuledger.trace.model import Trace as Trace
    from gpuledger.trace.tables import Rows as Rows
    from gpuledger.trace.tables import Table as Table
    from gpuledger.verbs.align import align as align
    from gpuledger.verbs.diff import compare as compare
    from gpuledger.verbs.diff import diff as diff
    from gpuledger.verbs.fleet import fleet as fleet
    from gpuledger.verbs.gaps import gaps as gaps
    from gpuledger.verbs.info import info as info
    from gpuledger.verbs.kernels import kernels as kernels
    from gpuledger.verbs.memory import memory as memory
    from gpuledger.verbs.ops import ops as ops
    from gpuledger.verbs.profiled_report import Report as Report
    from gpuledger.verbs.query import query as query
    from gpuledger.verbs.ranges import ranges as ranges
    from gpuledger.verbs.report import build_report as build_report
    from gpuledger.verbs.report import report as report
    from gpuledger.verbs.stats import stats as stats
    from gpuledger.verbs.steps import steps as steps
    from gpuledger.verbs.whatif import whatif as whatif

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
    "Report": "verbs.profiled_report",
    "Selection": "selection",
    "window": "capture.window",
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in _HOMES:
        from gpuledger.verbs import VERBS

        verbs = {verb: f"verbs.{verb}" for verb, known in VERBS.items() if known.answers}
        if name == "__all__":
            return sorted(_HOMES | verbs)
        if name not in verbs:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        _HOMES.update(verbs)
    return getattr(import_module(f"gpuledger.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__getattr__("__all__"))  # type: ignore[call-overload,no-any-return]
