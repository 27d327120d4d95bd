"""A .nsys-rep or .qdrep -> Trace, without NVIDIA's tools; with GPULEDGER_EXPORTER=nsys by way of `nsys export`.

The format was worked out from report files and their exports alone: see `report_file`, which takes a file apart,
`report_events`, which makes columns of its events, and `report_tables`, which names them as an export does.
"""

from __future__ import annotations

import os

from msgspec.structs import replace

from gpuledger.errors import UnreadableProfile
from gpuledger.limits import EXPORTER, Limits
from gpuledger.messages import say
from gpuledger.read.nsys.reader import read_export
from gpuledger.read.nsys.report_events import DecodedEvents, EventPlan, TooManyRows, decode
from gpuledger.read.nsys.report_file import MAGIC, FileBytes, ReportFile, open_report
from gpuledger.read.nsys.report_tables import ReportExport, event_tables
from gpuledger.read.protobuf import Damage, fields
from gpuledger.read.request import Format, Progress, WantedColumns, counted, too_many_rows
from gpuledger.read.source import Source, in_time, look_at, opened
from gpuledger.read.sqlite import open_sqlite
from gpuledger.system.opening import only_below
from gpuledger.trace.deadline import paused
from gpuledger.trace.model import Note, Severity, Trace
from gpuledger.units import count_text


class NsysRepReader:
    """Nsight Systems report -> Trace."""

    name = "nsys report"
    formats = (Format(".nsys-rep, .qdrep", "`nsys profile`", "nsys 2020.4 to 2026.1", "which graph a node is of"),)

    def recognises(self, source: Source) -> bool:
        return source.head.startswith(MAGIC)

    def read(self, source: Source, wanted: WantedColumns, limits: Limits, progress: Progress) -> Trace:
        if os.environ.get(EXPORTER) == "nsys":
            from gpuledger.capture.nsys import export_cached  # only where nsys is asked

            progress("the report, with nsys export", 0)
            with paused():
                export = export_cached(source.path, seconds=limits.export_seconds).resolve()
            with only_below([export.parent]), open_sqlite(look_at(export), limits, progress) as tables:
                return read_export(tables, source.name, wanted, limits, progress)
        with in_time(source.name, limits), opened(source) as file:
            report = open_report(source, file)
            progress("the report", len(report.blocks))
            try:
                plan = EventPlan(event_tables(wanted))
                events = decode(FileBytes(file, source.size), report.blocks, plan, limits.rows_per_table)
            except TooManyRows:
                raise too_many_rows(source.name, "of events", limits.rows_per_table) from None
            except Damage:
                raise UnreadableProfile(
                    f"{source.name}: was cut while it was read", hint="read it again when whatever writes it has ended"
                ) from None
            parts = ReportExport(report, events)
            trace = read_export(parts, source.name, wanted, limits, progress)
        return replace(trace, health=(*trace.health, *_notes(report, parts, events)))


def _notes(report: ReportFile, tables: ReportExport, events: DecodedEvents) -> list[Note]:
    """What of the report is not in the trace."""
    notes = [*counted("events-damaged", events.damaged), *counted("blocks-damaged", events.damaged_blocks)]
    held, of = sum(events.seen.values()), dict(fields(report.counts)).get(1)
    if isinstance(of, int):
        notes += counted("events-missing", abs(of - held), of=count_text(of), held=count_text(held))
    if report.is_cut:
        sentence = say("the report ends before it should: what came last is missing, and with it names of kernels")
        notes.append(Note(Severity.LOSS, "report-cut", sentence, 1))
    for kind, count in tables.unknown.items():
        notes += counted("events-unknown", count, kind=kind)
    return notes
