"""NVIDIA's summary tables as `nsys stats` prints them, each report's columns, and all of them together.

The percentages of a table share one base: the sum of all its rows, host and GPU time added together where both are
shown. Without ends of ranges there are only instances to print.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from gpuledger.analyse.recorded.nvidia_tables import NvidiaReport
from gpuledger.catalog.kernel_names import label
from gpuledger.ledger.activity import short_function_name
from gpuledger.present.digits import tenths
from gpuledger.present.document import Block, Document, Remarks, SheetBlock, SheetTitle
from gpuledger.present.safe_text import visible
from gpuledger.present.sheet import Cell, Column, Digits, Sheet, Unit
from gpuledger.present.views.answer import Answer, health_rows
from gpuledger.trace.model import Note, NotMeasured, Severity, Trace


def nvidia_sheet(report: NvidiaReport[Any], trace: Trace) -> Sheet | NotMeasured:
    """One of NVIDIA's tables, or why this profile cannot give it."""
    rows = report.rows(trace)
    if isinstance(rows, NotMeasured):
        return rows
    columns = NVIDIA_TABLES[report.name]
    if columns[0] is _SHARE:
        whole_ns = sum(row.times.total for row in rows if row.times)

        def share(row: Any) -> float | None:
            return 100 * row.times.total / whole_ns if row.times and whole_ns else None

        columns = (Column(_SHARE.key, _SHARE.name, _SHARE.unit, share), *columns[1:])
    return Sheet.of(report.name, report.title, columns, rows, rounded=False)


def _field(part: str, field: str, missing: Cell = None) -> Callable[[Any], Cell]:
    """A field of a part of a row, such as its times; `missing` where it has no such part."""

    def cell(row: Any) -> Cell:
        of = getattr(row, part)
        value: Cell = missing if of is None else getattr(of, field)
        return value

    return cell


def _spread_columns(prefix: str, times: str = "times", *, average_detail: int = 1) -> tuple[Column, ...]:
    """Average, median, least, most and deviation of a duration; `prefix` as in `TAvg`."""
    key = f"{prefix.strip().lower()}_" if prefix else ""
    return (
        Column(f"{key}avg_ns", f"{prefix}Avg", Unit.MEAN_NS, _field(times, "average"), average_detail),
        Column(f"{key}med_ns", f"{prefix}Med", Unit.MEAN_NS, _field(times, "median"), detail=2),
        Column(f"{key}min_ns", f"{prefix}Min", Unit.NS, _field(times, "least"), detail=4),
        Column(f"{key}max_ns", f"{prefix}Max", Unit.NS, _field(times, "most"), detail=3),
        # what NVIDIA prints for the spread of nothing
        Column(f"{key}stddev_ns", f"{prefix}StdDev", Unit.MEAN_NS, _field(times, "deviation", 0.0), detail=5),
    )


def _time_columns(count_key: str, count_heading: str, count: str = "times.count") -> tuple[Column, ...]:
    """The share of the whole, and NVIDIA's columns for the statistics of durations."""
    return (
        _SHARE,
        Column("total_ns", "Total Time", Unit.NS, _field("times", "total")),
        Column(count_key, count_heading, Unit.COUNT, count),
        *_spread_columns(""),
    )


def _operation_label(operation: str) -> str:
    """A kernel's label; copies are in brackets and stay as they are."""
    return operation if operation.startswith("[") else label(operation)


_SHARE: Final = Column("time_percent", "Time", Unit.SHARE_PERCENT)
_KERNEL: Final = Column("name", "Name", Unit.TEXT, shorten=label)
_KERNEL_TIMES: Final = _time_columns("instances", "Instances")
_CALL_TIMES: Final = _time_columns("calls", "Num Calls")
_RANGE_TIMES: Final = _time_columns("instances", "Instances", "instances")
_COPIED: Final = Column("operation", "Operation", Unit.TEXT)
_OPERATIONS: Final = (
    *_KERNEL_TIMES,
    Column("category", "Category", Unit.TEXT, detail=6),
    Column("operation", "Operation", Unit.TEXT, shorten=_operation_label),
)
_RANGE: Final = Column("range", "Range", Unit.TEXT, "name.text")
_STYLE: Final = Column("style", "Style", Unit.TEXT, "name.style", detail=6)
_PID: Final = Column("pid", "PID", Unit.ID, detail=6)
_TID: Final = Column("tid", "TID", Unit.ID, detail=6)

NVIDIA_TABLES: Final[dict[str, tuple[Column, ...]]] = {
    "cuda_gpu_kern_sum": (*_KERNEL_TIMES, _KERNEL),
    "cuda_gpu_kern_gb_sum": (
        *_KERNEL_TIMES,
        Column("grid", "GridXYZ", Unit.TRIPLE),
        Column("block", "BlockXYZ", Unit.TRIPLE),
        _KERNEL,
    ),
    "cuda_api_sum": (
        *_CALL_TIMES,
        Column("name", "Name", Unit.TEXT, lambda function: short_function_name(function.name)),
    ),
    "cuda_gpu_sum": _OPERATIONS,
    "cuda_api_gpu_sum": _OPERATIONS,
    "cuda_gpu_mem_time_sum": (*_time_columns("count", "Count"), _COPIED),
    "cuda_gpu_mem_size_sum": (
        Column("total_bytes", "Total (MB)", Unit.MB, "sizes.total"),
        Column("count", "Count", Unit.COUNT, "sizes.count"),
        Column("avg_bytes", "Avg (MB)", Unit.MB, "sizes.average", detail=1),
        Column("med_bytes", "Med (MB)", Unit.MB, "sizes.median", detail=2),
        Column("min_bytes", "Min (MB)", Unit.MB, "sizes.least", detail=4),
        Column("max_bytes", "Max (MB)", Unit.MB, "sizes.most", detail=3),
        Column("stddev_bytes", "StdDev (MB)", Unit.MB, "sizes.deviation", detail=5),
        _COPIED,
    ),
    "cuda_kern_exec_sum": (
        _PID,
        _TID,
        Column("device", "DevId", Unit.ID, detail=6),
        Column("count", "Count", Unit.COUNT, "whole.count"),
        Column("queued_count", "QCount", Unit.COUNT, _field("queued", "count", 0), detail=6),
        *_spread_columns("T", "whole", average_detail=0),
        *_spread_columns("A", "in_call", average_detail=0),
        *_spread_columns("Q", "queued", average_detail=0),
        *_spread_columns("K", "executed", average_detail=0),
        Column("api_name", "API Name", Unit.TEXT, "function", detail=4),
        Column("kernel_name", "Kernel Name", Unit.TEXT, "kernel", shorten=label),
    ),
    "nvtx_sum": (*_RANGE_TIMES, _STYLE, _RANGE),
    "nvtx_pushpop_sum": (*_RANGE_TIMES, _RANGE),
    "nvtx_gpu_proj_sum": (
        _RANGE,
        _STYLE,
        Column("total_proj_ns", "Total Proj Time", Unit.NS, "projected.total"),
        Column("total_range_ns", "Total Range Time", Unit.NS, "host.total", detail=1),
        Column("instances", "Range Instances", Unit.COUNT, "projected.count"),
        *_spread_columns("Proj ", "projected"),
        Column("gpu_ops", "Total GPU Ops", Unit.COUNT, "operations.total", detail=1),
        Column("avg_gpu_ops", "Avg GPU Ops", Unit.MEAN, "operations.average", detail=6),
        Column("avg_level", "Avg Range Lvl", Unit.MEAN, "mean_level", detail=6),
        Column("avg_children", "Avg Num Child", Unit.MEAN, "mean_children", detail=6),
    ),
    "nvtx_kern_sum": (
        Column("range", "NVTX Range", Unit.TEXT, _field("range", "text")),
        Column("style", "Style", Unit.TEXT, _field("range", "style"), detail=6),
        _PID,
        _TID,
        Column("range_instances", "NVTX Inst", Unit.COUNT, detail=1),
        Column("kernel_instances", "Kern Inst", Unit.COUNT),
        Column("total_ns", "Total Time", Unit.NS, "times.total"),
        *_spread_columns(""),
        Column("kernel_name", "Kernel Name", Unit.TEXT, "kernel", shorten=label),
    ),
    "osrt_sum": (*_CALL_TIMES, Column("name", "Name", Unit.TEXT)),
}
"""By the names of NVIDIA_REPORTS."""


class NvidiaRows(Struct, frozen=True):
    """One of NVIDIA's tables. Keys ending in _ns are nanoseconds, in _bytes bytes, in _percent percent of its total."""

    report: str
    title: str
    rows: tuple[dict[str, Any], ...] | None
    """null: the profile cannot give it."""
    not_measured: str | None
    """Why."""


class StatsAnswer(Answer, frozen=True, kw_only=True, tag="gpuledger.stats/1"):
    """NVIDIA's summary tables of one profile."""

    reports: tuple[NvidiaRows, ...]

    def tables(self) -> dict[str, str]:
        return {table.report: table.title for table in self.reports if table.rows is not None}

    def sheet(self, table: str, *, is_exact: bool = False) -> Sheet:
        """The same for people and in CSV: as NVIDIA prints it."""
        held = next(held for held in self.reports if held.report == table)
        rows = tuple(
            tuple(tuple(cell) if isinstance(cell, list) else cell for cell in row.values()) for row in held.rows or ()
        )
        return Sheet(table, held.title, NVIDIA_TABLES[table], rows, rounded=False)

    def blocks(self) -> Iterator[Block]:
        for name in self.tables():
            yield SheetBlock(self.sheet(name), SheetTitle.NAMED, tells_hidden=True)
        if self.sentences:
            yield Remarks(self.sentences, 6)

    def document(self) -> Document:
        return replace(super().document(), remarks=self.sentences, page=None)


def stats_answer(
    name: str, measured: Sequence[tuple[NvidiaReport[Any], Sheet | NotMeasured]], notes: Sequence[Note]
) -> StatsAnswer:
    """The tables of a profile, then which have no data and why, and what was lost."""
    return StatsAnswer(
        profile=name,
        sentences=tuple(_remarks(measured, notes)),
        health=health_rows(notes),
        reports=tuple(
            NvidiaRows(report.name, report.title, None, sheet.reason)
            if isinstance(sheet, NotMeasured)
            else NvidiaRows(report.name, report.title, tuple(nvidia_rows(sheet)), None)
            for report, sheet in measured
        ),
    )


def nvidia_rows(sheet: Sheet) -> Iterator[dict[str, Any]]:
    """The rows by key, with the digits that NVIDIA prints, so that all formats agree."""
    for row in sheet.rows:
        yield {
            column.key: float(tenths(cell))
            if isinstance(cell, float) and column.digits is Digits.TENTH
            else list(cell)
            if isinstance(cell, tuple)
            else cell
            for cell, column in zip(row, sheet.columns, strict=True)
        }


def _remarks(measured: Sequence[tuple[NvidiaReport[Any], Sheet | NotMeasured]], notes: Sequence[Note]) -> Iterator[str]:
    """nsys's own warnings are only counted here; `info` lists them."""
    for report, sheet in measured:
        if isinstance(sheet, NotMeasured):
            yield f"note: {report.name}: no data: {visible(sheet.reason)}"
        elif not sheet.rows:
            yield f"note: {report.name}: no data: nothing of the kind was recorded"
    yield from (
        f"note: {visible(note.sentence)}"
        for note in notes
        if not note.code.startswith("nsys-") and note.severity is not Severity.INFO
    )
    if from_nsys := sum(note.count for note in notes if note.code.startswith("nsys-")):
        yield f"note: nsys itself warned {from_nsys} times while capturing; `gpuledger info` lists them"
