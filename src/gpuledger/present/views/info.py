"""The inventory of a profile."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from gpuledger.analyse.inventory import ON_GPU, Contents, GpuUse
from gpuledger.messages import Message, joined, say
from gpuledger.present import document as doc
from gpuledger.present.safe_text import shell_word, visible
from gpuledger.present.sheet import Column, Sheet, Unit
from gpuledger.present.terms import severity_term
from gpuledger.system.kept_files import KeptOfProfile
from gpuledger.trace.model import CORRECTED, Decoding, NotMeasured, Origin, Severity, Trace, os_pid
from gpuledger.trace.tables import Table
from gpuledger.units import bytes_text, count_text, share_text, time_text

_MOST_IDLE: Final = 8
"""More processes without GPU work are one row."""


def info_document(
    path: str, trace: Trace, found: Contents, kept: KeptOfProfile | None = None, *, verbose: bool
) -> doc.Document:
    """The inventory; `path` is the profile as the user named it, `kept` what the cache has of it."""
    name = Path(path).name
    in_text: list[doc.Block] = [
        *(_untitled(sheet) for sheet in (_gpu_sheet(found), _process_sheet(found, folds=True)) if sheet.rows),
        doc.Definitions(
            say("Recorded"),
            tuple((_counted(found, table), Table(table).schema.row) for table, rows in found.rows if rows),
        ),
    ]
    sheets = (
        _gpu_sheet(found),
        _process_sheet(found),
        _table_sheet(found),
        *((_source_sheet(trace),) if verbose else ()),
    )
    in_markdown = [doc.SheetBlock(sheet, doc.SheetTitle.NAMED) for sheet in sheets if sheet.rows]
    private: list[doc.Block] = [_untitled(_source_sheet(trace)), _private(trace)] if verbose else []
    return doc.Document(
        blocks=lambda: (
            doc.Opening(name, origin_line(trace, found)),
            doc.Conclusion(_verdict(trace, found)),
            doc.Remarks((*_facts(trace, found), *_kept_lines(kept))),
            doc.Only(doc.Medium.TEXT, tuple(in_text)),
            doc.Only(doc.Medium.MARKDOWN, tuple(in_markdown)),
            doc.Definitions(
                say("Not in this profile"), tuple((missing.what, missing.means) for missing in found.missing)
            ),
            doc.Definitions(
                say("Health"), tuple((severity_term(note.severity).words, note.sentence) for note in trace.health)
            ),
            doc.Only(
                doc.Medium.TEXT,
                (*private, doc.Remarks((say("next: {command}", command=f"gpuledger stats {shell_word(path)}"),))),
            ),
        ),
        data=doc.json_by("inventory.info_json", name, trace, found, kept, verbose=verbose),
        sheets=lambda: (_rows_sheet(trace, found),),
    )


def _verdict(trace: Trace, found: Contents) -> Message:
    """Whether the profile is good for a report, and what it lacks."""
    if not any(use.is_used for use in found.gpus):
        return say("No GPU work was recorded: there is nothing to report on (`gpuledger explain CAPTURE-EMPTY`).")
    if trace.damage:
        return say("Damaged: {sentence}.", sentence=trace.damage[0].sentence)
    losses = [note.sentence for note in trace.health if note.severity is Severity.LOSS]
    if losses:
        return say("Incomplete: {sentence}.", sentence=losses[0])
    if moved := [note.sentence for note in trace.health if note.code in CORRECTED]:
        return say("Good for a report, corrected: {sentence}.", sentence=moved[0])
    if unread := [note.sentence for note in trace.health if note.code == "events-unknown"]:
        return say("Good for a report, but not all was read: {sentence}.", sentence=unread[0])
    if not found.missing:
        return say("Good for a report: nothing was lost, and everything it needs was recorded.")
    names = joined(say(", "), [missing.what for missing in found.missing])
    return say("Good for a report: nothing was lost. Not recorded: {names}.", names=names)


def _untitled(sheet: Sheet) -> doc.SheetBlock:
    """A sheet whose first heading says what it is."""
    return doc.SheetBlock(sheet, tells_hidden=True)


def _rows_sheet(trace: Trace, found: Contents) -> Sheet:
    """The rows of every table, ours and the profile's own."""
    columns = (
        Column("of", "Of", Unit.TEXT, lambda table: table[0]),
        Column("table", "Table", Unit.TEXT, lambda table: table[1][0]),
        Column("rows", "Rows", Unit.COUNT, lambda table: table[1][1]),
    )
    ours = [("gpuledger", table) for table in found.rows]
    theirs = [(trace.origin.tool, table) for table in trace.origin.source_rows]
    return Sheet.of("rows", "Rows", columns, (*ours, *theirs))


def _kept_lines(kept: KeptOfProfile | None) -> list[str]:
    """What the next question about the profile need not wait for; nothing where nothing is kept."""
    if kept is None or kept.since_s is None:
        return []
    parts = []
    if kept.readings:
        size = bytes_text(kept.reading_bytes)
        parts.append(
            say("1 reading ({size})", size=size)
            if kept.readings == 1
            else say("{count} readings ({size})", count=count_text(kept.readings), size=size)
        )
    if kept.answers:
        names, size = ", ".join(kept.verbs), bytes_text(kept.answer_bytes)
        parts.append(
            say("1 answer of {verbs} ({size})", verbs=names, size=size)
            if kept.answers == 1
            else say("{count} answers of {verbs} ({size})", count=count_text(kept.answers), verbs=names, size=size)
        )
    since = datetime.fromtimestamp(kept.since_s, UTC).strftime("%Y-%m-%d %H:%M")
    what = joined(say(", "), parts)
    return [
        say(
            "kept in the cache: {what}, since {time} UTC, in {folder}",
            what=what,
            time=since,
            folder=visible(kept.folder),
        )
    ]


def origin_line(trace: Trace, found: Contents) -> str:
    """One line that says what this is."""
    origin, counts = trace.origin, dict(found.rows)
    parts = [
        f"{origin.tool} {origin.tool_version}"
        if origin.tool_version
        else say("{tool}, version not recorded", tool=origin.tool)
    ]
    in_use = [use for use in found.gpus if use.is_used] or found.gpus
    names = Counter(visible(use.gpu.name) for use in in_use)
    parts += [name if count == 1 else joined(" x ", (str(count), name)) for name, count in sorted(names.items())]
    count = count_text(len(found.processes))
    parts.append(say("{count} process", count=count) if count == "1" else say("{count} processes", count=count))
    if not isinstance(found.span, NotMeasured):
        parts.append(time_text(found.span.end_ns - found.span.start_ns))
    if "kernels" in counts:
        kernels = counts["kernels"]
        parts.append(say("1 kernel") if kernels == 1 else say("{count} kernels", count=count_text(kernels)))
    elif not {table.value for table in ON_GPU} & counts.keys():
        parts.append(say("no GPU work recorded"))
    return joined(" · ", parts)


def _facts(trace: Trace, found: Contents) -> list[str]:
    """What else is known about the capture, a line each."""
    origin = trace.origin
    lines = [_sentence(origin)]
    if origin.decoding is not None:
        lines.append(visible(decoding_sentence(origin.decoding)))
    if origin.asked_for is not None:
        lines.append(say("asked to trace {what}", what=visible(", ".join(origin.asked_for))))
    if not isinstance(found.launched, NotMeasured):
        lines.append(
            say("{share} of the GPU work has its launch call in the profile", share=share_text(found.launched))
        )
    if not isinstance(trace.plain_window_ns, NotMeasured):
        lines.append(say("without the profiler, the window took {time}", time=time_text(trace.plain_window_ns)))
    return lines


_SLOWER = {
    "not-compiled": say("the native decoder was not compiled when gpuledger was installed"),
    "switched-off": say("GPULEDGER_NATIVE=0 turns off the native decoder"),
    "write-ahead-log": say("the database uses a write-ahead log"),
    "journal": say("there is a journal next to the database"),
    "unusual-header": say("the file header is unusual"),
}
"""Why SQLite read a file, which is slower."""


def decoding_sentence(how: Decoding) -> str:
    """How the file was read."""
    if how.by != "native":
        return say("read by SQLite, which is slower: {reason}", reason=_SLOWER.get(how.reason or "", how.reason or ""))
    if how.by_sqlite:
        return say("read by the native decoder, and by SQLite: {tables}", tables=", ".join(how.by_sqlite))
    return say("read by the native decoder")


def _sentence(origin: Origin) -> str:
    schema = (
        say("report, read without nsys")
        if origin.container == "nsys-rep"
        else say("export schema {version}", version=visible(origin.schema_version))
        if origin.schema_version
        else say("export without a schema version")
    )
    parts = [say("{schema} ({container})", schema=schema, container=visible(origin.container))]
    if origin.started_utc:
        parts.append(say("captured {time} UTC", time=visible(origin.started_utc)))
    if origin.driver_version:
        parts.append(say("driver {version}", version=visible(origin.driver_version)))
    if origin.cuda_version:
        parts.append(say("CUDA {version}", version=visible(origin.cuda_version)))
    return joined(say(", "), parts)


def _gpu_sheet(found: Contents) -> Sheet:
    def memory(use: GpuUse) -> str | None:
        return None if use.gpu.memory_bytes is None else bytes_text(use.gpu.memory_bytes)

    columns = (
        Column("gpu", "GPU", Unit.ID, "index"),
        Column("name", say("Name"), Unit.TEXT, "gpu.name"),
        Column("memory", say("Memory"), Unit.TEXT, memory, detail=2),
        Column("sms", say("SMs"), Unit.COUNT, "gpu.sm_count", detail=1),
        Column("processes", say("Processes"), Unit.COUNT, detail=3),
        Column("streams", say("Streams"), Unit.COUNT),
        Column("kernels", say("Kernels"), Unit.COUNT),
        Column("copies", say("Copies"), Unit.COUNT),
        Column("graphs", say("Graphs"), Unit.COUNT, detail=4),
    )
    return Sheet.of("gpus", say("GPUs"), columns, found.gpus)


def _process_sheet(found: Contents, *, folds: bool = False) -> Sheet:
    """A row for each process; folded, those without GPU work are one where they are many, as of a whole system."""
    others = [use for use in found.processes if not use.gpu_work]
    folded = others if folds and len(others) > _MOST_IDLE else []
    rest = {
        "name": say("{count} others", count=count_text(len(folded))),
        "threads": sum(use.threads for use in folded),
        "calls": sum(use.calls for use in folded),
        "ranges": sum(use.ranges for use in folded),
        "gpu_work": 0,
    }
    columns = (
        Column("pid", "PID", Unit.ID, lambda use: os_pid(use.process.pid)),
        Column("name", say("Process"), Unit.TEXT, "process.name"),
        Column("threads", say("Threads"), Unit.COUNT),
        Column("calls", say("Calls"), Unit.COUNT),
        Column("ranges", say("Ranges"), Unit.COUNT),
        Column("gpu_work", say("GPU work"), Unit.COUNT),
    )
    shown = [use for use in found.processes if use.gpu_work or not folded]
    return Sheet.of("processes", say("Processes"), columns, shown, [rest] if folded else [])


def _table_sheet(found: Contents) -> Sheet:
    columns = (
        Column("table", say("Recorded"), Unit.TEXT, lambda table: table[0]),
        Column("rows", say("Rows"), Unit.COUNT, lambda table: table[1]),
        Column("row", say("One row is"), Unit.TEXT, lambda table: Table(table[0]).schema.row),
    )
    return Sheet.of("tables", say("Recorded"), columns, found.rows)


def _source_sheet(trace: Trace) -> Sheet:
    columns = (
        Column("table", say("Table of the profile"), Unit.TEXT, lambda table: table[0]),
        Column("rows", say("Rows"), Unit.COUNT, lambda table: table[1]),
    )
    return Sheet.of("source", say("Tables of the profile"), columns, trace.origin.source_rows)


def _private(trace: Trace) -> doc.Definitions:
    private = trace.origin.private
    entries = [(say("command"), " ".join(private.command))] if private.command else []
    entries += [(say("host"), private.host)] if private.host else []
    entries += [(say("environment"), f"{key}={value}") for key, value in private.environment]
    return doc.Definitions(say("Private (shown by --verbose)"), tuple(entries))


def _counted(found: Contents, table: str) -> str:
    """A table's name and rows, aligned with the other tables'."""
    names, counts = zip(*((name, count_text(count)) for name, count in found.rows), strict=True)
    return f"{table:<{max(map(len, names))}}  {counts[names.index(table)]:>{max(map(len, counts))}}"
