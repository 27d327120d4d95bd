"""Python's stacks beside a profile: a trace and its path in, the trace with them in its table of samples out.

NAME.samples.gz is what `gpuledger capture` wrote (docs/reference/samples.md): sections, one per process, in text. It is
used only where it can be nobody else's: its processes are those of the profile, on the same host and at the same time,
and the manifest, where there is one, lists it with its size. What speaks against that is a note, and nothing is used.

A look is an instant. Its clock is the monotonic one, tied by readings of both to the wall clock, of which the profile
knows the zero: on an H200 with nsys 2025.3 the two agreed within 22 us over 45 s.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace
from numpy.typing import NDArray

from gpuledger.capture.output_files import SAMPLES
from gpuledger.limits import DEFAULT_LIMITS
from gpuledger.messages import Message, say
from gpuledger.read.request import WantedColumns
from gpuledger.read.stream import Gunzipped, PlainFile
from gpuledger.regex import regex
from gpuledger.system.opening import is_file, open_file, status_of
from gpuledger.trace.model import Note, Severity, Trace, os_pid
from gpuledger.trace.spans import Ints, Span
from gpuledger.trace.strings import Stacks, Strings, python_frame
from gpuledger.trace.tables import Rows, Table
from gpuledger.units import time_text

SCHEMA: Final = "gpuledger.samples/2"
CODE: Final = "python-samples"
MOST_BYTES: Final = 1 << 30  # unpacked: more is no recording that anybody looks at, and may be made to fill memory
MOST_PLAIN_BYTES: Final = 1 << 28
MOST_ROWS: Final = 4_000_000
LONGEST_LINE: Final = 1 << 20
DEEPEST: Final = 400
_NEAR_NS: Final = 1_000_000_000  # looks so far outside of what the profile recorded are left out
_BLOCK: Final = 1 << 20


class _NotUsable(Exception):
    """Why the file is not used."""

    def __init__(self, reason: Message) -> None:
        self.reason = reason
        super().__init__(reason)


class _Section(Struct, frozen=True):
    """What one process wrote."""

    pid: int
    host: str
    clocks: list[tuple[int, int, int]] = field(default_factory=list)
    frames: list[str] = field(default_factory=list)
    stacks: list[tuple[int, ...]] = field(default_factory=list)
    looks: list[tuple[int, int, int]] = field(default_factory=list)  # when, the thread, its stack


def with_samples(trace: Trace, files: Sequence[Path], listed: object, asked: WantedColumns) -> Trace:
    """The trace with the samples of the first of these files that is there; as it is where there is none.

    `listed` are the files that the capture's manifest names, None where no manifest belongs to the profile; `asked`
    what was asked for, as more was read to put them beside.
    """
    file = next(filter(is_file, files), None)
    entries = listed if isinstance(listed, list) else ()
    names = {entry.get("name"): entry.get("bytes") for entry in entries if isinstance(entry, dict)}
    if file is None:
        lost = next((file.name for file in files if file.name in names), None)
        missing = say("{file}, the sampled Python stacks of this capture, is missing", file=lost or "")
        return trace if lost is None else _noted(trace, Severity.INFO, missing)
    try:
        is_ours = file.name.endswith(SAMPLES)
        read = _sections if is_ours else _perf
        if names and names.get(file.name, None if is_ours else status_of(file).st_size) != status_of(file).st_size:
            raise _NotUsable(say("the capture's manifest describes another file of that name"))
        sections, damaged = read(file)
        return _joined(trace, _of_this_run(trace, sections), damaged, asked, "cpu" if read is _perf else "python")
    except (OSError, EOFError) as error:
        reason = say("it cannot be read: {error}", error=str(error))
    except _NotUsable as error:
        reason = error.reason
    return _noted(trace, Severity.WARNING, say("{file} is not used: {reason}", file=file.name, reason=reason))


def _noted(trace: Trace, severity: Severity, sentence: Message, count: int = 1) -> Trace:
    return replace(trace, health=(*trace.health, Note(severity, CODE, sentence, count)))


def _lines(file: Path) -> Iterator[bytes]:
    """The lines of a gzipped file, however many members it has; a file that is cut gives what is whole."""
    unpacked, rest = 0, b""
    with open_file(file) as packed:
        stream = Gunzipped(PlainFile(packed), file.name, DEFAULT_LIMITS)
        while piece := stream.read(_BLOCK):
            *lines, rest = (rest + piece).split(b"\n")
            unpacked += sum(map(len, lines))
            if max(map(len, (*lines, rest))) > LONGEST_LINE or unpacked > MOST_BYTES:
                raise _NotUsable(say("it is no recording of samples: its lines are too long, or too many"))
            yield from lines
        yield from [b"?"] * len(stream.end_notes)  # counted as a record that cannot be read


def _sections(file: Path) -> tuple[list[_Section], int]:
    """All processes' records, and how many lines are none."""
    sections, damaged = list[_Section](), 0
    for line in _lines(file):
        kind, _, rest = line.partition(b" ")
        try:
            if kind == b"H":
                header = json.loads(rest)
                if header["schema"] != SCHEMA:
                    raise _NotUsable(say("it is of another version of gpuledger"))
                sections.append(_Section(int(header["pid"]), str(header.get("host", ""))))
            elif not sections:
                raise _NotUsable(say("it does not begin as a recording of samples does"))
            elif not _take(sections[-1], kind, rest):
                damaged += 1
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            damaged += 1
    if not sections:
        raise _NotUsable(say("it is empty"))
    return sections, damaged


_OF_PERF: Final = regex(rb"^\S.*?\s(?:(?P<pid>\d+)/)?(?P<tid>\d+)\s+(?:\[\d+\]\s+)?(?P<s>\d+)\.(?P<part>\d{6,9}):")
_FRAME_OF_PERF: Final = regex(rb"^\s+[\da-f]+ (?P<symbol>.+?)(?:\+0x[\da-f]+)? \((?P<file>.*)\)$")


class _Stacks:
    """Numbers of frames and stacks of a section, as they come."""

    def __init__(self, section: _Section) -> None:
        self.section, self.frames, self.stacks = section, dict[str, int](), dict[tuple[str, ...], int]()

    def look(self, time_ns: int, tid: int, frames: Sequence[str]) -> None:
        """A thread was there then, the innermost frame first."""
        number = self.stacks.setdefault(stack := tuple(frames[:DEEPEST]), len(self.stacks))
        if number == len(self.section.stacks):
            for frame in stack:
                if self.frames.setdefault(frame, len(self.frames)) == len(self.section.frames):
                    self.section.frames.append(frame)
            self.section.stacks.append(tuple(self.frames[frame] for frame in stack))
        self.section.looks.append((time_ns, tid, number))


def _perf(file: Path) -> tuple[list[_Section], int]:
    """What `perf script -F comm,pid,tid,time,ip,sym,dso` printed; times are the wall clock's."""
    found, damaged, frames, header = dict[int, _Stacks](), 0, list[str](), None
    for line in (*_plain_lines(file), b""):
        if header is None:
            header = _OF_PERF.match(line)
            damaged += header is None and bool(line.strip())
        elif (frame := _FRAME_OF_PERF.match(line)) is not None:
            symbol = frame["symbol"].decode("utf-8", "replace")
            kind, _, python = symbol.partition("py::")
            function, _, path = python.partition(":")
            frames.append(python_frame(function, path, -1) if path and not kind else symbol)
        elif not line.strip():
            if header["pid"] is None:
                raise _NotUsable(say("it does not say which process: print it with `perf script -F +pid`"))
            pid, time_ns = int(header["pid"]), int(header["s"]) * 10**9 + int(header["part"].ljust(9, b"0"))
            if pid not in found:
                found[pid] = _Stacks(_Section(pid, ""))
            found[pid].look(time_ns, int(header["tid"]), frames)
            header, frames = None, []
        else:
            damaged += 1
    return _by_wall_clock(found), damaged


def _by_wall_clock(found: dict[int, _Stacks]) -> list[_Section]:
    """The sections of these, whose times are the wall clock's."""
    sections = [stacks.section for stacks in found.values()]
    if not sections:
        raise _NotUsable(say("it does not begin as a recording of samples does"))
    for section in sections:
        section.clocks.extend((look[0], look[0], look[0]) for look in (section.looks[0], section.looks[-1]))
    return sections


def _plain_lines(file: Path) -> list[bytes]:
    with open_file(file) as text:
        given = text.read(MOST_PLAIN_BYTES + 1)
    if len(given) > MOST_PLAIN_BYTES:
        raise _NotUsable(say("it is no recording of samples: its lines are too long, or too many"))
    return given.split(b"\n")


def _take(section: _Section, kind: bytes, rest: bytes) -> bool:
    """Put one record into its section; whether it is one."""
    if kind == b"s":
        time_ns, tid, number = map(int, rest.split())
        if not (0 <= number < len(section.stacks) and 0 <= time_ns < 1 << 62 and 0 <= tid < 1 << 31):
            return False
        section.looks.append((time_ns, tid, number))
    elif kind == b"S":
        stack = tuple(map(int, rest.split()))
        if len(stack) > DEEPEST or not all(0 <= frame < len(section.frames) for frame in stack):
            stack = ()  # its number is taken all the same
        section.stacks.append(stack)
    elif kind == b"F":
        line, _, function, path = json.loads(rest)
        ours = str(path).rpartition("/gpuledger/capture/")  # the runner is not the user's
        shown = f"gpuledger/{ours[2]}" if ours[1] else str(path)
        section.frames.append(python_frame(str(function), shown, int(line)))
    elif kind == b"C":
        before, wall, after = map(int, rest.split())
        section.clocks.append((before, wall, after))
    else:
        return False
    return True


def _of_this_run(trace: Trace, sections: list[_Section]) -> list[tuple[int, _Section]]:
    """The sections of processes that the profile has, with the number that it gives them."""
    numbers = {os_pid(process.pid): process.pid for process in trace.origin.processes}
    here = trace.origin.private.host
    if here and not any(section.host in ("", here) for section in sections):
        raise _NotUsable(say("it was recorded on another host"))
    own = [(numbers[section.pid], section) for section in sections if section.pid in numbers]
    own = [(number, section) for number, section in own if not here or section.host in ("", here)]
    if not own:
        raise _NotUsable(say("none of its processes is in the profile: it is of another run"))
    host = own[0][1].host
    # those that were not profiled, such as workers of a data loader, run on the same host and clock
    return own + [(section.pid, section) for section in sections if section.pid not in numbers and section.host == host]


class _Gathered:
    """Rows, stacks and texts of all processes, behind those that the trace has."""

    def __init__(self, trace: Trace) -> None:
        self.texts = list(trace.strings.texts)
        self._code = {text: number for number, text in enumerate(self.texts)}
        self.frames, self.offsets = list[int](), list[int]()
        self._stacks, self._begun = len(trace.stacks), len(trace.stacks.frames)
        self.looks, self.pids, self.count = list[Ints](), list[Ints](), 0

    def code(self, text: str) -> int:
        number = self._code.setdefault(text, len(self.texts))
        if number == len(self.texts):
            self.texts.append(text)
        return number

    def take(self, pid: int, section: _Section, clock: _Clock, window: Span) -> None:
        """All looks of one process that lie in the window, or near."""
        first = self._stacks + len(self.offsets)
        codes = [self.code(frame) for frame in section.frames]
        for stack in section.stacks:
            self.frames += [codes[frame] for frame in stack]
            self.offsets.append(self._begun + len(self.frames))
        looks = np.array(section.looks, np.int64).reshape(-1, 3)
        looks[:, 0] = clock.in_profile(looks[:, 0])
        looks[:, 2] += first
        looks = looks[(looks[:, 0] >= window.start_ns - _NEAR_NS) & (looks[:, 0] <= window.end_ns + _NEAR_NS)]
        self.count += len(looks)
        if self.count > MOST_ROWS:
            raise _NotUsable(say("it has more than {count} samples", count=f"{MOST_ROWS:,}"))
        self.looks.append(looks)
        self.pids.append(np.full(len(looks), pid, np.int64))


def _joined(trace: Trace, sections: list[tuple[int, _Section]], damaged: int, asked: WantedColumns, kind: str) -> Trace:
    window = trace.span
    if not isinstance(window, Span):
        raise _NotUsable(say("the profile has no events to put it beside"))
    clock, gathered = _clock(trace, sections), _Gathered(trace)
    for pid, section in sections:
        gathered.take(pid, section, clock, window)
    count = gathered.count
    if not count:
        raise _NotUsable(say("its times are not those of the profile: it is of another run"))
    source = gathered.code(kind)
    strings = Strings(gathered.texts)
    start_ns, tid, stack = np.concatenate(gathered.looks).T
    added: dict[str, NDArray[Any]] = {"start_ns": start_ns, "end_ns": start_ns, "tid": tid, "stack": stack}
    added |= {"pid": np.concatenate(gathered.pids), "source": np.full(count, source, np.int32)}
    added = {name: column for name, column in added.items() if name in asked[Table.SAMPLES]}
    tables = dict(trace.tables)
    known = tables.get(Table.SAMPLES)
    if known is not None:
        added = {name: np.concatenate((known[name], column)) for name, column in added.items()}
    order = np.argsort(added["start_ns"], kind="stable")
    tables[Table.SAMPLES] = Rows(Table.SAMPLES.schema, {name: column[order] for name, column in added.items()}, strings)
    joined = replace(
        trace,
        strings=strings,
        tables={table: Rows(rows.schema, _columns(rows), strings) for table, rows in tables.items() if table in asked},
        stacks=Stacks(
            np.concatenate((trace.stacks.offsets, np.array(gathered.offsets, np.int64))),
            np.concatenate((trace.stacks.frames, np.array(gathered.frames, np.int32))),
        ),
        absent={table: why for table, why in trace.absent.items() if table is not Table.SAMPLES},
    )
    parts = {"count": f"{count:,}", "error": time_text(clock.error_ns)}
    sentence = (
        say("{count} samples of the processor by perf; their times are the wall clock's", count=f"{count:,}")
        if kind == "cpu"
        else say("{count} samples of Python's stacks; their times are the wall clock's, read within {error}", **parts)
    )
    joined = _noted(joined, Severity.INFO, sentence, count)
    lost = say("{count} records of Python's stacks are damaged and left out", count=f"{damaged:,}")
    return _noted(joined, Severity.LOSS, lost, damaged) if damaged else joined


class _Clock(Struct, frozen=True, eq=False):
    """The sampler's clock in that of the profile: what is added to it, at some instants, between which it is a line."""

    instants: Ints
    offset_ns: Ints
    error_ns: int

    def in_profile(self, times_ns: Ints) -> Ints:
        """These times of the sampler as the profile has them."""
        least = int(self.offset_ns.min())  # so that no digits are lost in floating point
        shift = np.interp(times_ns - self.instants[0], self.instants - self.instants[0], self.offset_ns - least)
        in_profile: Ints = times_ns + least + np.rint(shift).astype(np.int64)
        return in_profile


def _clock(trace: Trace, sections: list[tuple[int, _Section]]) -> _Clock:
    zero = trace.origin.wall_zero_ns
    read = np.array([clock for _, section in sections for clock in section.clocks], np.int64).reshape(-1, 3)
    read = read[(read[:, 2] >= read[:, 0]) & (np.abs(read) < 1 << 62).all(axis=1)]
    if zero is None or not len(read):
        raise _NotUsable(say("nothing ties its clock to that of the profile"))
    read = read[np.argsort(read[:, 0], kind="stable")]
    offset_ns = read[:, 1] - (read[:, 0] + read[:, 2]) // 2 - zero
    return _Clock(read[:, 0], offset_ns, int((read[:, 2] - read[:, 0]).max()))


def _columns(rows: Rows) -> dict[str, NDArray[Any]]:
    return {column.name: rows[column.name] for column in rows.schema.columns if column.name in rows}
