"""A trace and its report as a timeline: tables and books in, sections out, made one after the other.

First come the processes with their threads, then the GPUs with their streams, then what the books say of each GPU and
its critical path, then the health notes. An arrow leads from the call that launched to each activity that it launched.
A file's ending says in which format a timeline is written, or that the trace's tables are, as Parquet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from gpuledger.errors import OutputRefused
from gpuledger.export.book_tracks import book_side, finding_mark, mark_tracks, note_mark, path_side
from gpuledger.export.timeline import Levels, TimelineSection, Track, TrackKind, UniqueNumbers
from gpuledger.export.tracks import Arrows, GpuRows, HostRows, gpu_groups, gpu_side, host_side
from gpuledger.findings.finding import Finding
from gpuledger.findings.profiled_run import ProfiledRun, diagnose
from gpuledger.ledger.activity import CUDA_LAYERS, cuda_calls, launching_call
from gpuledger.ledger.device import Device
from gpuledger.ledger.ranges import innermost, spans_of_time
from gpuledger.ledger.steps import Selection
from gpuledger.replay.scenario import scenarios
from gpuledger.trace.model import Note, Severity, Trace
from gpuledger.trace.spans import Ints, Span, covered
from gpuledger.trace.tables import NOT_RECORDED, Rows, Table

if TYPE_CHECKING:
    from gpuledger.export.chrome import ChromeWriter
    from gpuledger.export.perfetto import PerfettoWriter

ON_GPU: Final = (Table.KERNELS, Table.COPIES, Table.GRAPHS)
ON_HOST: Final = (Table.RANGES, Table.CALLS, Table.OVERHEADS)

_LAST: Final = 1000

NOTHING_RAN: Final = Note(
    Severity.WARNING, "no-gpu-work", "no GPU work was recorded, so there are no streams, gaps, steps or findings"
)


@dataclass(frozen=True, slots=True)
class TimelineInput:
    """One trace on its way to a timeline."""

    trace: Trace
    report: ProfiledRun | None  # None where nothing ran on a GPU
    wanted: Selection
    prefix: str = ""  # what the names of its processes and GPUs begin with
    offset_ns: int = 0  # by how much its clock is ahead of the timeline's

    @property
    def window(self) -> Span | None:
        """The only stretch to show, where one was asked for."""
        narrow = self.wanted.time_ns is not None or self.wanted.scope_pattern is not None
        return self.report.window if narrow and self.report is not None else None

    @property
    def devices(self) -> Sequence[Device]:
        return () if self.report is None else self.report.devices

    @property
    def findings(self) -> Sequence[Finding]:
        return () if self.report is None else self.report.findings


def scene(trace: Trace, name: str, wanted: Selection, prefix: str = "", offset_ns: int = 0) -> TimelineInput:
    """Analyse a trace that was read whole, as far as there is anything to analyse."""
    worked = any((trace[table].duration_ns > 0).any() for table in ON_GPU)
    return TimelineInput(trace, diagnose(trace, name, wanted) if worked else None, wanted, prefix, offset_ns)


def earliest_ns(trace: Trace) -> int:
    """The first time on the timeline; 0 where there is none."""
    firsts = [int(trace[table]["start_ns"].min()) for table in (*ON_HOST, *ON_GPU, Table.ALLOCS) if len(trace[table])]
    return min(firsts, default=0)


def sections(scene: TimelineInput, numbers: UniqueNumbers) -> Iterator[TimelineSection]:
    """The timeline of one trace."""
    for section in _sections(scene, numbers):
        yield replace(section, offset_ns=scene.offset_ns)


def _sections(scene: TimelineInput, numbers: UniqueNumbers) -> Iterator[TimelineSection]:
    trace = scene.trace
    host, gpu = _host_rows(scene), _gpu_rows(scene)
    call = launching_call(gpu.column("pid"), gpu.column("correlation"), host.cuda)
    arrows, arrow = _arrows(call, len(host.cuda), numbers)
    tracks, records = host_side(trace, host, arrows, numbers, scene.prefix)
    starts = (records.start_ns, gpu.column("start_ns"))
    began = min((int(start.min()) for start in starts if len(start)), default=0)
    yield TimelineSection(tuple(tracks), records)
    del records, tracks, starts
    gpus = {*np.unique(gpu.column("gpu")).tolist(), *(device.gpu for device in scene.devices)}
    groups = gpu_groups(trace, sorted(gpus), numbers, scene.prefix)
    tracks, records = gpu_side(trace, gpu, groups, _around(scene, host, call), arrow, numbers, scene.wanted.families)
    yield TimelineSection((*groups.values(), *tracks), records)
    del records, tracks
    for model in scenarios(trace, scene.devices):
        above = groups[model.device.gpu]
        yield from _books(scene, model.device, above, numbers)
        track, path = path_side(trace, model, above, numbers)
        yield TimelineSection((track,), path)
    notes = [*trace.health, *([NOTHING_RAN] if scene.report is None else [])]
    at_ns = began if scene.window is None else scene.window.start_ns
    yield from job_notes(notes, at_ns, numbers, f"{scene.prefix}health of the profile")


def _host_rows(scene: TimelineInput) -> HostRows:
    trace, calls = scene.trace, scene.trace[Table.CALLS]
    cuda = scene.devices[0].host.calls if scene.devices else cuda_calls(trace)
    others = calls.where(~np.isin(calls.codes("layer"), [trace.strings.code(layer) for layer in CUDA_LAYERS]))
    tables = (trace[Table.RANGES], cuda, others, trace[Table.OVERHEADS])
    return HostRows(*(_inside(table, scene.window) for table in tables))


def _gpu_rows(scene: TimelineInput) -> GpuRows:
    tables = [_inside(scene.trace[table], scene.window) for table in ON_GPU]
    if scene.wanted.scope_pattern is not None:  # the work that touches what is looked at on its GPU
        touches = [np.zeros(len(table), np.bool_) for table in tables]
        for device in scene.devices:
            for table, touched in zip(tables, touches, strict=True):
                own = np.flatnonzero(table["gpu"] == device.gpu)
                stretches = device.ledger.busy.stretches
                touched[own] = covered(stretches, table["start_ns"][own], table["end_ns"][own]) > 0
        tables = [table.where(touched) for table, touched in zip(tables, touches, strict=True)]
    if scene.wanted.device is not None:
        tables = [table.where(table["gpu"] == scene.wanted.device) for table in tables]
    return GpuRows(*tables)


def _inside(rows: Rows, window: Span | None) -> Rows:
    if window is None:
        return rows
    return rows.where((rows["start_ns"] <= window.end_ns) & (rows["end_ns"] >= window.start_ns))


def _arrows(call: Ints, calls: int, numbers: UniqueNumbers) -> tuple[Arrows, Ints]:
    """Which arrows each call begins, in a row; and which one ends at each activity."""
    launched = np.flatnonzero(call >= 0)
    launched = launched[np.argsort(call[launched], kind="stable")]
    first = numbers.arrows(len(launched))
    arrow = np.zeros(len(call), np.int64)
    arrow[launched] = first + np.arange(len(launched))
    count = np.bincount(call[launched], minlength=calls).astype(np.int64)
    begins = first + np.cumsum(count) - count
    return Arrows(np.where(count > 0, begins, 0), count), arrow


def _around(scene: TimelineInput, host: HostRows, call: Ints) -> Ints:
    """The name of the innermost range that each activity was launched in; -1 for none."""
    ranges = spans_of_time(scene.trace)
    launching, number = np.unique(call, return_inverse=True)
    names = np.full(len(launching), NOT_RECORDED, np.int64)
    known = launching >= 0
    inner = innermost(ranges, host.cuda.at(launching[known]))
    names[known] = np.append(ranges.codes("name"), NOT_RECORDED)[inner]
    return names[number.reshape(-1)]


def _books(scene: TimelineInput, device: Device, above: Track, numbers: UniqueNumbers) -> Iterator[TimelineSection]:
    tracks, records, levels = book_side(scene.trace, device, above, numbers)
    yield TimelineSection(tuple(tracks), None, tuple(_clip_levels(counter, scene.window) for counter in levels))
    for step_records in records:
        yield TimelineSection((), step_records)
    if scene.report is None:
        return
    of_gpu = (device.gpu, -1) if device.gpu == scene.report.main_device.gpu else (device.gpu,)
    marks = [finding_mark(finding, device) for finding in scene.report.findings if max(finding.gpu, -1) in of_gpu]
    if marks:
        tracks, mark_records = mark_tracks(marks, "findings", "finding", above, numbers)
        yield TimelineSection(tuple(tracks), mark_records)


def _clip_levels(levels: Levels, window: Span | None) -> Levels:
    """The level in the window: what it is at its beginning, and how it changes."""
    if window is None:
        return levels
    first = max(int(np.searchsorted(levels.at_ns, window.start_ns, side="right")) - 1, 0)
    last = int(np.searchsorted(levels.at_ns, window.end_ns, side="right"))
    at_ns = np.clip(levels.at_ns[first:last], window.start_ns, window.end_ns)
    return replace(levels, at_ns=at_ns, value=levels.value[first:last])


def job_notes(
    notes: Sequence[Note], at_ns: int, numbers: UniqueNumbers, name: str = "health of the job"
) -> Iterator[TimelineSection]:
    """Health notes under a heading of their own: those of several traces together, unless another name is given."""
    if notes:
        above = Track(numbers.uuid(), TrackKind.GROUP, name, 0, numbers.like(0), 0, _LAST)
        tracks, marks = mark_tracks([note_mark(note, at_ns) for note in notes], "notes", "health", above, numbers)
        yield TimelineSection((above, *tracks), marks)


@dataclass(frozen=True, slots=True)
class TimelineFormat:
    """How a timeline is written."""

    chrome: bool  # in Chrome's format, else in Perfetto's
    packed: bool  # through gzip

    def writer(self, base_ns: int) -> ChromeWriter | PerfettoWriter:
        """Something that encodes it; `base_ns` is the time that becomes 0."""
        if self.chrome:
            from gpuledger.export.chrome import ChromeWriter

            return ChromeWriter(base_ns)
        from gpuledger.export.perfetto import PerfettoWriter

        return PerfettoWriter(base_ns)


ENDINGS: Final = {
    ".pftrace": TimelineFormat(chrome=False, packed=False),
    ".perfetto-trace": TimelineFormat(chrome=False, packed=False),
    ".pftrace.gz": TimelineFormat(chrome=False, packed=True),
    ".perfetto-trace.gz": TimelineFormat(chrome=False, packed=True),
    ".json": TimelineFormat(chrome=True, packed=False),
    ".json.gz": TimelineFormat(chrome=True, packed=True),
}
TABLES: Final = ".parquet"


def form_of(name: str) -> TimelineFormat | None:
    """How to write a file of this name; None: as tables, into a folder of this name."""
    lower = name.lower()
    if lower.endswith((TABLES, "/")):
        return None
    for ending, form in ENDINGS.items():
        if lower.endswith(ending):
            return form
    raise OutputRefused(
        f"{name}: the ending says nothing about the format; timelines end in {', '.join(ENDINGS)}, "
        f"and tables are written into a folder that ends in {TABLES} or /"
    )


def gzip_chunks(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same through gzip; the same bytes give the same bytes."""
    from zlib_ng import zlib_ng

    press = zlib_ng.compressobj(5, zlib_ng.DEFLATED, 31)  # 31: with a gzip header, which holds no time
    for chunk in chunks:
        yield press.compress(chunk)
    yield press.flush()


def parquet_names() -> tuple[str, ...]:
    """The files that may be written."""
    return tuple(f"{table.value}{TABLES}" for table in Table)


def write_tables(trace: Trace, folder: Path) -> Iterator[Path]:
    """Write each table into the folder, and say which file it is in."""
    for table in Table:
        if table in trace.tables:
            path = folder / f"{table.value}{TABLES}"
            trace[table].to_parquet(path)
            yield path
