"""A trace and its report as a timeline: tables and books in, sections out, made one after the other.

First come the processes with their threads, then the GPUs with their streams, then what the books say of each GPU and
its critical path, then the health notes. An arrow leads from the call that launched to each activity that it launched.
A gap is named by what set it off, in a report's words, so that a viewer colours it so; its time by cause is in its
arguments. A step's arguments are its lines as a report shows them, which sum to it. Findings and health notes are
marks: each finding where its evidence is the strongest.

A file's ending says in which format a timeline is written, or that the trace's tables are, as Parquet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from gpuledger.analyse.timeline.over_time import busy_share, memory_events, queue_depth
from gpuledger.attribution.lines import line_runs
from gpuledger.catalog.kernel_names import label
from gpuledger.errors import OutputRefused
from gpuledger.export.timeline import (
    Argument,
    ArgumentColumn,
    Levels,
    Records,
    TimelineSection,
    Track,
    TrackKind,
    UniqueNumbers,
    as_titles,
    text_argument,
)
from gpuledger.export.tracks import Arrows, GpuRows, HostRows, gpu_groups, gpu_side, host_side
from gpuledger.findings.finding import Finding
from gpuledger.findings.profiled_run import ProfiledRun, diagnose, finding_place
from gpuledger.ledger.activity import CUDA_LAYERS, cuda_calls, launching_call, short_function_name
from gpuledger.ledger.causes import CAUSES, TRIGGERS
from gpuledger.ledger.device import Device
from gpuledger.ledger.ranges import innermost, spans_of_time
from gpuledger.ledger.steps import PHASES, Steps
from gpuledger.replay.critical_path import PathPart, critical_path
from gpuledger.replay.scenario import ENOUGH_FOLLOWED, Scenario, scenarios
from gpuledger.selection import Selection
from gpuledger.trace.keys import leave_out, same
from gpuledger.trace.model import Note, Severity, Trace
from gpuledger.trace.spans import Ints, Span, covered
from gpuledger.trace.strings import NO_TEXT
from gpuledger.trace.tables import NOT_RECORDED, Rows, Table
from gpuledger.units import time_text

if TYPE_CHECKING:
    from gpuledger.export.chrome import ChromeWriter
    from gpuledger.export.perfetto import PerfettoWriter

ON_GPU: Final = (Table.KERNELS, Table.COPIES, Table.GRAPHS)
ON_HOST: Final = (Table.RANGES, Table.CALLS, Table.OVERHEADS)

NOTHING_RAN: Final = Note(
    Severity.WARNING, "no-gpu-work", "no GPU work was recorded, so there are no streams, gaps, steps or findings"
)


class TimelineInput(Struct, frozen=True):
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
    report = diagnose(trace, name, wanted) if worked else None
    return TimelineInput(trace, report, wanted, prefix, offset_ns)


def earliest_ns(trace: Trace) -> int:
    """The first time on the timeline; 0 where there is none."""
    firsts = [int(trace[table]["start_ns"].min()) for table in (*ON_HOST, *ON_GPU, Table.ALLOCS) if len(trace[table])]
    return min(firsts, default=0)


def sections(scene: TimelineInput, numbers: UniqueNumbers) -> Iterator[TimelineSection]:
    """The timeline of one trace."""
    for section in _sections(scene, numbers):
        yield replace(section, offset_ns=scene.offset_ns)
        del section  # it is large, and the next one is made while it would still be held


def _sections(scene: TimelineInput, numbers: UniqueNumbers) -> Iterator[TimelineSection]:
    trace = scene.trace
    host, gpu = _host_rows(scene), _gpu_rows(scene)
    call = launching_call(gpu.column("pid"), gpu.column("correlation"), host.cuda).astype(np.int32)
    arrows, arrow = _arrows(call, len(host.cuda), numbers)
    tracks, records = host_side(trace, host, arrows, numbers, scene.prefix)
    starts = (records.start_ns, gpu.column("start_ns"))
    began = min((int(start.min()) for start in starts if len(start)), default=0)
    yield TimelineSection(tuple(tracks), records)
    del records, tracks, starts, arrows
    gpus = {*np.unique(gpu.column("gpu")).tolist(), *(device.gpu for device in scene.devices)}
    groups = gpu_groups(trace, sorted(gpus), numbers, scene.prefix)
    tracks, records = gpu_side(trace, gpu, groups, _around(scene, host, call), arrow, numbers, scene.wanted.families)
    yield TimelineSection((*groups.values(), *tracks), records)
    del records, tracks, call, arrow
    for model in scenarios(trace, scene.devices, enough=ENOUGH_FOLLOWED):
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


def _arrows(call: NDArray[np.int32], calls: int, numbers: UniqueNumbers) -> tuple[Arrows, NDArray[np.signedinteger]]:
    """Which arrows each call begins, in a row; and which one ends at each activity."""
    launched = np.flatnonzero(call >= 0)
    launched = launched[np.argsort(call[launched], kind="stable")].astype(np.int32)
    first = numbers.arrows(len(launched))
    arrow: NDArray[np.signedinteger] = np.zeros(
        len(call), np.int64 if first + len(launched) > np.iinfo(np.int32).max else np.int32
    )
    arrow[launched] = np.arange(first, first + len(launched), dtype=arrow.dtype)
    count = np.bincount(call[launched], minlength=calls).astype(np.int32)
    begins = np.cumsum(count, dtype=np.int64)
    begins += first - count
    begins[count == 0] = 0
    return Arrows(begins, count), arrow


def _around(scene: TimelineInput, host: HostRows, call: NDArray[np.int32]) -> NDArray[np.int32]:
    """The name of the innermost range that each activity was launched in; -1 for none."""
    ranges, launching = spans_of_time(scene.trace), leave_out(call, np.array([-1]))
    names = np.full(len(host.cuda) + 1, NOT_RECORDED, np.int32)  # the last is for what no call launched
    inner = innermost(ranges, host.cuda, at=launching)
    names[launching] = np.append(ranges.codes("name"), np.int32(NOT_RECORDED))[inner]
    around: NDArray[np.int32] = names[call]
    return around


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
        above = Track(numbers.uuid(), TrackKind.GROUP, name, 0, numbers.like(0), 0, 1000)
        said = [{"sentence": note.sentence, "severity": note.severity.value} for note in notes]
        marks = [Mark(at_ns, note.code, of, {"count": note.count}) for note, of in zip(notes, said, strict=True)]
        tracks, records = mark_tracks(marks, "notes", "health", above, numbers)
        yield TimelineSection((above, *tracks), records)


_STEPS, _FINDINGS, _PATH, _IDLE, _LINES, _BUSY, _QUEUE, _MEMORY = range(
    8
)  # the order in which tracks of a GPU are shown


def book_side(
    trace: Trace, device: Device, above: Track, numbers: UniqueNumbers
) -> tuple[list[Track], list[Records], list[Levels]]:
    """All that the books say of one GPU."""
    tracks: list[Track] = []
    records: list[Records] = []
    levels: list[Levels] = []

    def track(kind: TrackKind, name: str, order: int, unit: str = "") -> int:
        tracks.append(numbers.track_under(above, kind, name, order, unit))
        return tracks[-1].uuid

    if device.steps is not None:
        records.append(_step_records(device, device.steps, track(TrackKind.SLICES, "steps", _STEPS)))
    if len(device.ledger.gaps):
        records.append(_gap_records(trace, device, track(TrackKind.SLICES, "idle, by trigger", _IDLE)))
    if (runs := line_runs(trace, device)) is not None:
        uuid = track(TrackKind.SLICES, "line of the launching thread, sampled", _LINES)
        records.append(in_a_row(uuid, runs.start_ns, runs.end_ns, as_titles(runs.texts), runs.text, "line", ()))
    instants, share = busy_share(device, 1000)
    end = device.ledger.window.end_ns
    uuid = track(TrackKind.COUNTER, "busy", _BUSY, "%")
    levels.append(Levels(uuid, np.append(instants, end), np.append(100 * share, 0.0)))
    instants, depth = queue_depth(device)
    if len(instants):
        levels.append(Levels(track(TrackKind.COUNTER, "launches in the queue", _QUEUE, "launches"), instants, depth))
    events, _, level = memory_events(trace, device.gpu)
    if len(events):
        levels.append(Levels(track(TrackKind.COUNTER, "memory in use", _MEMORY, "bytes"), events["start_ns"], level))
    return tracks, records, levels


def in_a_row(
    track: Ints | int,
    start_ns: Ints,
    end_ns: Ints,
    titles: Sequence[str],
    title: NDArray[Any],
    category: str,
    arguments: tuple[Argument, ...],
    *,
    instant: bool = False,
) -> Records:
    """Records that follow each other."""
    count = len(start_ns)
    return Records(
        start_ns=start_ns,
        end_ns=end_ns,
        track=same(track, count) if isinstance(track, int) else track,
        rank=np.arange(count, dtype=np.int32),
        titles=titles,
        title=title.astype(np.int32),
        categories=(category,),
        category=same(0, count),
        instant=np.full(count, instant),
        arguments=arguments,
    )


def _gap_records(trace: Trace, device: Device, track: int) -> Records:
    gaps, name, texts = device.ledger.gaps, np.append(device.work.name, -1), trace.strings.texts
    arguments = (
        text_argument("trigger", TRIGGERS, gaps.trigger),
        text_argument("drained_by", gaps.draining, np.where(gaps.drained_by > 0, gaps.drained_by, -1)),
        *(Argument(f"{cause}_ns", ArgumentColumn((gaps.by_cause.of(cause),), absent=0)) for cause in CAUSES),
        text_argument("before", texts, name[gaps.before]),
        text_argument("after", texts, name[gaps.after]),
    )
    titles = [trigger.label for trigger in TRIGGERS]
    return in_a_row(track, gaps.start_ns, gaps.end_ns, titles, gaps.trigger, "idle", arguments)


def _step_records(device: Device, steps: Steps, track: int) -> Records:
    shown, tiles = device.shown_tiles
    books = tiles[np.searchsorted(device.ledger.tiles_ns, steps.edges_ns[:-1])]
    lines = [(line, books[:, index]) for index, line in enumerate(shown) if books[:, index].any()]
    number = np.arange(len(steps))
    phase = np.array(device.phases.of_step, np.int64)
    arguments = (
        Argument("warm_up", ArgumentColumn(((number < steps.warm_up).astype(np.int8),), absent=0)),
        *((text_argument("phase", PHASES, np.where(phase > 0, phase, -1)),) if len(phase) == len(steps) else ()),
        *(Argument(f"{line}_ns", ArgumentColumn((time_ns,), absent=0)) for line, time_ns in lines),
    )
    titles = [f"step {index}" for index in range(len(steps))]
    return in_a_row(track, steps.start_ns, steps.end_ns, titles, number, "step", arguments)


_PARTS: Final = {
    PathPart.RUNNING: "running",
    PathPart.BEFORE_START: "before its start",
    PathPart.CALL: "call",
    PathPart.CODE: "host code before a call",
    PathPart.WAKE_UP: "wake-up after a wait",
    PathPart.OUTSIDE: "unknown",
}


def path_side(trace: Trace, scenario: Scenario, above: Track, numbers: UniqueNumbers) -> tuple[Track, Records]:
    """The path of one GPU's steady stretch, on a track under the GPU."""
    track = numbers.track_under(above, TrackKind.SLICES, "critical path", _PATH)
    path, work, calls = critical_path(scenario), scenario.part.work, scenario.part.host.calls
    name = np.append(work.name, NO_TEXT)[path.operation]
    call = np.append(calls.codes("name")[scenario.graph.call_row], NO_TEXT)[path.call]
    kernels, kernel = trace.strings.kinds(name, lambda text: label(text or ""))
    functions, function = trace.strings.kinds(call, lambda text: short_function_name(text or ""))
    causes = [str(line.cause or line) for line in path.lines]
    runs = path.are(PathPart.RUNNING) & (name != NO_TEXT)
    calling = path.are(PathPart.CALL) | path.are(PathPart.WAKE_UP)
    title: Ints = path.line.astype(np.int64)
    title = np.where(runs, len(causes) + kernel, np.where(calling, len(causes) + len(kernels) + function, title))
    before = np.where(path.are(PathPart.BEFORE_START), kernel, -1)
    arguments = (
        text_argument("part", list(_PARTS.values()), path.part.astype(np.int64)),
        text_argument("line", path.lines, np.where(runs, path.line, -1)),
        text_argument(
            "before", [*kernels, *functions], np.where(path.are(PathPart.CODE), len(kernels) + function, before)
        ),
    )
    titles = [*causes, *as_titles(kernels), *as_titles(functions)]
    return track, in_a_row(track.uuid, path.start_ns, path.end_ns, titles, title, "critical path", arguments)


class Mark(Struct, frozen=True):
    """One thing to say at one instant. Several may stand at the same one."""

    at_ns: int
    title: str
    words: Mapping[str, str]
    figures: Mapping[str, int]


def finding_mark(finding: Finding, device: Device) -> Mark:
    """A finding at the place where one should look."""
    per_step, saving = finding.saving_ns_per_step, ""
    if finding.saving_ns:
        saving = f"up to {time_text(finding.saving_ns if per_step is None else per_step)}"
        saving += "" if per_step is None else " per step"
    words = {
        "claim": str(finding.claim),
        "saving": saving,
        "evidence": "\n".join(finding.sentences),
        "assumption": str(finding.assumption),
        "confidence": str(finding.confidence),
        "next": finding.next,
    }
    figures = {"saving_ns": finding.saving_ns} | ({} if per_step is None else {"saving_ns_per_step": per_step})
    at_ns = finding_place(finding, device).start_ns
    return Mark(at_ns, finding.code, {name: text for name, text in words.items() if text}, figures)


def mark_tracks(
    marks: Sequence[Mark], name: str, category: str, above: Track, numbers: UniqueNumbers
) -> tuple[list[Track], Records]:
    """Marks on tracks of one name, those at one instant on different ones: viewers draw them over each other."""
    seen: Counter[int] = Counter()
    lane = []
    for mark in marks:
        lane.append(seen[mark.at_ns])
        seen[mark.at_ns] += 1
    tracks = [numbers.track_under(above, TrackKind.SLICES, name, _FINDINGS) for _ in range(max(lane) + 1)]
    at_ns = np.array([mark.at_ns for mark in marks], np.int64)
    arguments = []
    for word in dict.fromkeys(word for mark in marks for word in mark.words):
        texts = [mark.words.get(word, "") for mark in marks]
        codes = np.array([position if text else -1 for position, text in enumerate(texts)])
        arguments.append(text_argument(word, texts, codes))
    for figure in dict.fromkeys(figure for mark in marks for figure in mark.figures):
        values = np.array([mark.figures.get(figure, -1) for mark in marks], np.int64)
        arguments.append(Argument(figure, ArgumentColumn((values,))))
    titles = [mark.title for mark in marks]
    uuid = np.array([tracks[number].uuid for number in lane], np.int64)
    return tracks, in_a_row(uuid, at_ns, at_ns, titles, np.arange(len(marks)), category, tuple(arguments), instant=True)


class TimelineFormat(Struct, frozen=True):
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
