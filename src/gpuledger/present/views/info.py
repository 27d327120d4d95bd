"""The inventory of a profile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Final

from msgspec import Struct, field

from gpuledger.analyse.recorded.inventory import ON_GPU, Contents, GpuUse, Missing, ProcessUse, contents
from gpuledger.messages import Message, joined, say
from gpuledger.present import document as doc
from gpuledger.present.row_sheets import known, row_from, row_sheet
from gpuledger.present.safe_text import shell_word, visible
from gpuledger.present.sheet import Sheet
from gpuledger.present.terms import severity_term
from gpuledger.present.views.answer import Answer, health_rows
from gpuledger.rows import Label
from gpuledger.system.kept_files import KeptOfProfile
from gpuledger.trace.model import CORRECTED, Decoding, NotMeasured, Origin, Private, Severity, Trace
from gpuledger.trace.tables import Table
from gpuledger.units import bytes_text, count_text, share_text, time_text

_MOST_IDLE: Final = 8
"""More processes without GPU work are one row."""


class ProfileOrigin(Struct, frozen=True):
    """Where a profile came from. null: it does not say."""

    tool: str
    tool_version: str | None
    schema_version: str | None
    container: str
    """How the profile is stored: sqlite, parquetdir, arrowdir, json, json.gz."""
    started_utc: str | None
    driver_version: str | None
    cuda_version: str | None
    asked_for: tuple[str, ...] | None
    """What the capture was to trace, in the profiler's words."""
    decoding: Decoding | None
    gpus: tuple[str, ...]
    """Their names."""


def profile_origin(origin: Origin) -> ProfileOrigin:
    """What may be told of it to anyone."""
    return row_from(ProfileOrigin, origin, gpus=tuple(gpu.name for gpu in origin.gpus))


class InfoAnswer(Answer, frozen=True, kw_only=True, tag="gpuledger.info/1"):
    """The inventory of one profile. null: the profile does not say."""

    summary: str
    """What the profile is, in a line."""
    origin: ProfileOrigin
    span_ns: tuple[int, int] | None
    plain_window_ns: int | None
    """How long what was recorded took without the profiler, by the manifest beside the profile; null where it says
    nothing."""
    launched_share: float | None
    """The share of GPU work whose launch call was recorded."""
    gpus: Annotated[tuple[GpuUse, ...], Label(say("GPUs"))]
    processes: Annotated[tuple[ProcessUse, ...], Label(say("Processes"))]
    missing: Annotated[tuple[Missing, ...], Label(say("Not in this profile"))]
    recorded: dict[str, int] = field(name="tables")
    """Rows by table."""
    source_rows: dict[str, int]
    """Rows by table of the profile's own."""
    private: Private | None
    """Only with --verbose."""
    kept: KeptOfProfile | None
    """What the cache has of the profile, but for answers of `info` itself; null where the cache is switched off."""

    def blocks(self) -> Iterator[doc.Block]:
        yield doc.Opening(self.profile, self.summary)
        yield doc.Conclusion(self.sentences[0])
        yield doc.Remarks(self.sentences[1:])
        for sheet in (self.sheet("gpus"), self._folded_processes()):
            if sheet.rows:
                yield doc.SheetBlock(sheet, tells_hidden=True)
        counts = {table: count_text(rows) for table, rows in self.recorded.items() if rows}
        names, digits = (max(map(len, texts), default=0) for texts in (counts, counts.values()))
        yield doc.Definitions(
            say("Recorded"),
            tuple((f"{table:<{names}}  {rows:>{digits}}", Table(table).schema.row) for table, rows in counts.items()),
        )
        yield doc.Definitions(
            say("Not in this profile"), tuple((missing.what, missing.means) for missing in self.missing)
        )
        yield doc.Definitions(
            say("Health"), tuple((severity_term(Severity(row.severity)).words, row.sentence) for row in self.health)
        )
        if self.private is not None:
            yield doc.Points(
                say("Tables of the profile"),
                tuple(f"{visible(table)} {count_text(rows)}" for table, rows in self.source_rows.items()),
                is_section=True,
            )
            yield _private(self.private)
        yield doc.Only(
            doc.Medium.TEXT,
            (doc.Remarks((say("next: {command}", command=f"gpuledger stats {shell_word(self.profile)}"),)),),
        )

    def _folded_processes(self) -> Sheet:
        """A row for each process; those without GPU work are one where they are many, as of a whole system."""
        others = [use for use in self.processes if not use.gpu_work]
        if len(others) <= _MOST_IDLE:
            return self.sheet("processes")
        threads, calls, ranges = (sum(getattr(use, key) for use in others) for key in ("threads", "calls", "ranges"))
        together = ProcessUse(None, say("{count} others", count=count_text(len(others))), threads, calls, ranges, 0)
        shown = [use for use in self.processes if use.gpu_work]
        return row_sheet("processes", self.title("processes"), ProcessUse, [*shown, together])


def info_answer(name: str, trace: Trace, kept: KeptOfProfile | None = None, *, verbose: bool = False) -> InfoAnswer:
    """The inventory; what may name people or places only if `verbose`. `kept` is what the cache has of the profile."""
    found = contents(trace)
    return InfoAnswer(
        profile=name,
        sentences=(_verdict(trace, found), *_facts(trace, found), *_kept_lines(kept)),
        health=health_rows(trace.health),
        summary=origin_line(trace, found),
        origin=profile_origin(trace.origin),
        span_ns=known(found.span),
        plain_window_ns=known(trace.plain_window_ns),
        launched_share=known(found.launched),
        gpus=found.gpus,
        processes=found.processes,
        missing=found.missing,
        recorded=dict(found.rows),
        source_rows=dict(trace.origin.source_rows),
        private=trace.origin.private if verbose else None,
        kept=kept,
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


def _kept_lines(kept: KeptOfProfile | None) -> list[str]:
    """What the next question about the profile need not wait for; nothing where nothing is kept."""
    if kept is None or kept.since_utc is None:
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
    what = joined(say(", "), parts)
    return [
        say(
            "kept in the cache: {what}, since {time} UTC, in {folder}",
            what=what,
            time=kept.since_utc[:16].replace("T", " "),
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
    names = Counter(visible(use.name) for use in in_use)
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


def _private(private: Private) -> doc.Definitions:
    entries = [(say("command"), " ".join(private.command))] if private.command else []
    entries += [(say("host"), private.host)] if private.host else []
    entries += [(say("environment"), f"{key}={value}") for key, value in private.environment]
    return doc.Definitions(say("Private (shown by --verbose)"), tuple(entries))
