"""The events of one stream in, raw columns out, batch by batch: what is held are the columns and one batch.

A large trace is read on several cores: cut between events into parts, each read by a process of its own, which are put
together column by column, with no column held twice.
"""

from __future__ import annotations

import os
import signal
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from gpuledger.errors import GpuledgerError
from gpuledger.limits import Limits
from gpuledger.read.assembled import Columns, TextCodes, together
from gpuledger.read.request import GPU_METRICS, Progress, WantedColumns, too_many_rows
from gpuledger.read.source import Source, opened
from gpuledger.read.stream import GZIP, ByteStream, Gunzipped, PlainFile, RejoinedStream, read_ahead, unpacked_size
from gpuledger.read.torch.columns import (
    AUTOGRAD,
    CATEGORIES,
    LEFT_ALONE,
    ON_THREAD,
    Shaper,
    are_usual,
    as_kinetos,
    by_category,
    counter_values,
    narrowed,
)
from gpuledger.read.torch.events import BETWEEN, EventStream, nanoseconds
from gpuledger.trace.model import Note
from gpuledger.trace.strings import NO_TEXT
from gpuledger.trace.tables import Kind, Table

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

Feed = tuple[Table, str]
"""A table, and the category of events that rows of it come from."""


class GatheredEvents(Struct, frozen=True):
    """What was read. Text columns hold positions in `texts`; it can travel between processes."""

    feeds: dict[Feed, Columns]
    texts: list[str]
    metadata: dict[str, Any]
    notes: list[Note]
    process_names: dict[int, str]
    seen: dict[str, int]
    events: int
    untimed: int
    begin_end: int
    unknown: dict[str, int]
    names_cut: int
    has_named_threads: bool
    """Threads that have no number got one that means nothing in another part."""
    head: bytes = b""
    """How the text begins."""


def gather(stream: ByteStream, name: str, wanted: WantedColumns, limits: Limits, progress: Progress) -> GatheredEvents:
    """Read what `wanted` names of one stream."""
    events = EventStream(stream, name, limits)
    gathering = _Gathering(name, wanted, limits)
    for batch in events.batches():
        gathering.take(batch)
        del batch  # before the next one is made
        progress("events", gathering.events)
    return gathering.finish(events)


_NO_EVENT: Final = ("M", "s", "t", "f", "")
"""Names of things, arrows between events, and what is empty."""
_NOT_WORK: Final = ("Trace", "Record Window End", "Iteration Start", "mtia")
"""What the profiler says of itself; and what is counted elsewhere. By category, where there is none by name."""


def _args(events: list[Any]) -> list[Any]:
    """The arguments of events; none where their category has none that is read."""
    return [event.args for event in events] if events and hasattr(events[0], "args") else []


class _Gathering:
    def __init__(self, name: str, wanted: WantedColumns, limits: Limits) -> None:
        self._name, self._limits = name, limits
        self._wanted = wanted
        self.codes = TextCodes(limits.text_bytes)
        self._shaper = Shaper(self.codes, with_inputs="inputs" in wanted.get(Table.RANGES, ()))
        self.events = 0
        self._parts: dict[Feed, list[Columns]] = {}
        self._rows: Counter[Table] = Counter()
        self._process_names: dict[int, str] = {}
        self._seen: dict[str, int] = {}
        self._untimed = self._begin_end = 0
        self._unknown: Counter[str] = Counter()

    def take(self, batch: list[Any]) -> None:
        self.events += len(batch)
        have_length = are_usual(batch)
        if not have_length:
            for event in batch:
                if event.pid in AUTOGRAD and event.ph == "X" and not event.cat:
                    as_kinetos(event)
            # threads that have no number get theirs in the order of the text, however it is cut
            self._shaper.meet(event for event in batch if event.cat in ON_THREAD and event.ph == "X")
        for category, events in by_category(batch).items():
            self._seen[category] = self._seen.get(category, 0) + len(events)
            if category not in CATEGORIES:
                if category not in LEFT_ALONE:
                    self._take_others(category, events)
                continue
            if not have_length:
                self._begin_end += sum(event.ph in ("B", "E") for event in events)
                self._unknown[category] += sum(event.ph not in ("X", "B", "E", "M") for event in events)
                events = [event for event in events if event.ph == "X"]
            args = _args(events)
            for table, kind, shape in CATEGORIES[category]:
                if table in self._wanted:
                    self._add((table, category), kind, shape, events, args)

    def _take_others(self, category: str, events: list[Any]) -> None:
        """Names of processes, memory events and counters of GPUs; others are counted."""
        memory, samples = [], []
        for event in events:
            if event.ph == "M" and event.name == "process_name" and isinstance(event.pid, int):
                if -(2**63) <= event.pid < 2**63:  # no event can be of another: columns have 64 bits
                    self._process_names.setdefault(event.pid, event.args.name)
            elif event.ph == "i" and event.name == "[memory]":
                memory.append(event)
            elif event.ph == "C" and (values := counter_values(event)):
                samples += values
            elif event.ph == "C":
                self._unknown[f"counter {event.name}"] += 1
            elif event.ph not in _NO_EVENT and not (category or event.name).startswith(_NOT_WORK):
                self._unknown[category or event.name or "no category"] += 1
        if samples:
            self._seen[GPU_METRICS] = self._seen.get(GPU_METRICS, 0) + len(samples)
            if Table.METRICS in self._wanted:
                self._add((Table.METRICS, category), "sample", Shaper.samples, samples, _args(samples))
        if memory and Table.ALLOCS in self._wanted:
            self._add((Table.ALLOCS, category), "memory", Shaper.allocs, memory, _args(memory))

    def _add(self, feed: Feed, kind: str, shape: Callable[..., Columns], events: list[Any], args: list[Any]) -> None:
        table = feed[0]
        if table is Table.COLLECTIVES:
            if not args or not hasattr(args[0], "collective") or not any(map(attrgetter("collective"), args)):
                return
            events = [event for event in events if event.args.collective]
            args = _args(events)
        if not events:
            return
        self._rows[table] += len(events)
        if self._rows[table] > self._limits.rows_per_table:
            raise too_many_rows(self._name, table.value, self._limits.rows_per_table)
        start, timed = nanoseconds([event.ts for event in events])
        if not timed.all():
            self._untimed += int((~timed).sum())
            events = [event for event, good in zip(events, timed.tolist(), strict=True) if good]
            args, start = _args(events), start[timed]
            if not events:
                return
        length, has_length = nanoseconds([event.dur for event in events])
        self._untimed += 0 if kind in ("memory", "sample") else int((~has_length).sum())
        columns = shape(self._shaper, events, args, kind) | {"start_ns": start, "end_ns": start + length}
        self._parts.setdefault(feed, []).append(narrowed(table, columns))

    def finish(self, events: EventStream) -> GatheredEvents:
        return GatheredEvents(
            feeds={feed: together(self._parts.pop(feed)) for feed in list(self._parts)},
            texts=list(self.codes),
            metadata=events.metadata,
            notes=events.notes(),
            process_names=self._process_names,
            seen=self._seen,
            events=self.events,
            untimed=self._untimed,
            begin_end=self._begin_end,
            unknown=dict(+self._unknown),
            names_cut=self.codes.cut,
            has_named_threads=bool(self._shaper.named_threads),
            head=events.head,
        )


_SLAB: Final = 4 << 20
"""So many bytes of a column travel at a time."""


def send(sending: Connection, part: GatheredEvents | None) -> None:
    """Hand a part to `receive` in another process, column by column, each given up; None if it could not be read."""
    if part is None:
        sending.send(None)
        return
    columns = [(feed, key) for feed, columns in part.feeds.items() for key in columns]
    shapes = [(part.feeds[feed][key].dtype.str, part.feeds[feed][key].shape) for feed, key in columns]
    sending.send((replace(part, feeds={}), columns, shapes))
    for feed, key in columns:
        for slab in _slabs(part.feeds[feed].pop(key)):
            sending.send_bytes(slab)


def receive(receiving: Connection) -> GatheredEvents | None:
    """A part that another process has read and sends with `send`."""
    announced = receiving.recv()
    if announced is None:
        return None
    part: GatheredEvents = announced[0]
    for (feed, key), (dtype, shape) in zip(*announced[1:], strict=True):
        values = part.feeds.setdefault(feed, {})[key] = np.empty(shape, dtype)
        for slab in _slabs(values):
            receiving.recv_bytes_into(slab)
    return part


def _slabs(values: NDArray[Any]) -> Iterator[memoryview]:
    letters = values.reshape(-1).view(np.uint8).data
    for first in range(0, len(letters), _SLAB):
        yield letters[first : first + _SLAB]


def merged(parts: Sequence[GatheredEvents]) -> GatheredEvents:
    """The parts of one trace together, in their order; they give up their columns."""
    codes: dict[str, int] = {}
    for part in parts:
        code = np.array([*(codes.setdefault(text, len(codes)) for text in part.texts), NO_TEXT], np.int32)
        for (table, _), columns in part.feeds.items():
            for key in columns.keys() & _texts(table):
                columns[key] = code[columns[key]]
    feeds = dict.fromkeys(feed for part in parts for feed in part.feeds)
    return GatheredEvents(
        feeds={feed: together([part.feeds.pop(feed) for part in parts if feed in part.feeds]) for feed in feeds},
        texts=list(codes),
        metadata={key: value for part in parts for key, value in part.metadata.items()},
        notes=[note for part in parts for note in part.notes],
        process_names={pid: name for part in reversed(parts) for pid, name in part.process_names.items()},
        seen={key: sum(part.seen.get(key, 0) for part in parts) for part in parts for key in part.seen},
        events=sum(part.events for part in parts),
        untimed=sum(part.untimed for part in parts),
        begin_end=sum(part.begin_end for part in parts),
        unknown=dict(sum((Counter(part.unknown) for part in parts), Counter[str]())),
        names_cut=sum(part.names_cut for part in parts),
        has_named_threads=any(part.has_named_threads for part in parts),
        head=parts[0].head,
    )


def _texts(table: Table) -> set[str]:
    return {column.name for column in table.schema.columns if column.kind is Kind.TEXT}


def by_table(whole: GatheredEvents) -> tuple[dict[Table, Columns], list[str]]:
    """The columns of each table, and the texts: in an order that does not depend on how the trace was cut.

    Rows come by category, and within one as they stand in the trace. Texts come as the rows first name them.
    """
    tables: dict[Table, Columns] = {}
    for table in Table:
        feeds = sorted((feed for feed in whole.feeds if feed[0] is table), key=lambda feed: feed[1])
        if feeds:
            tables[table] = together([whole.feeds.pop(feed) for feed in feeds])
    coded = [(columns, key) for table, columns in tables.items() for key in sorted(columns.keys() & _texts(table))]
    order = _order_of_naming([columns[key] for columns, key in coded], whole.texts)
    code = np.full(len(order) + 1, NO_TEXT, np.int32)
    code[order] = np.arange(len(order))
    for columns, key in coded:
        columns[key] = code[columns[key]]
    return tables, [whole.texts[code] for code in order]


def _order_of_naming(columns: Sequence[NDArray[Any]], texts: list[str]) -> list[int]:
    """Codes in the order in which columns first name them, one column after another; then those that none names."""
    order: dict[int, None] = {}
    for codes in columns:
        first = np.full(len(texts) + 1, len(codes))
        first[codes[::-1]] = np.arange(len(codes))[::-1]  # of several the last one stays
        first[NO_TEXT] = len(codes)
        named = np.flatnonzero(first < len(codes))
        order |= dict.fromkeys(named[first[named].argsort()].tolist())
    rest = sorted(set(range(len(texts))) - order.keys(), key=texts.__getitem__)
    return [*order, *rest]


WORTH_IT: Final = 48 << 20
"""A shorter text is read before a process has started."""

_WINDOW: Final = 1 << 20

_Span = tuple[int, int | None]
"""Where a part begins and ends: at the first end of an event from there on. None is the text's end."""


def gather_in_parts(source: Source, wanted: WantedColumns, limits: Limits, progress: Progress) -> GatheredEvents | None:
    """The whole file; None where it has to be read in one piece."""
    is_packed = source.head.startswith(GZIP)
    size = unpacked_size(source) if is_packed else source.size
    most = 4 if is_packed else 8  # more processes would only unpack the same
    count = min(os.cpu_count() or 1, size // (WORTH_IT // 2), most)
    if size < WORTH_IT or count < 2 or not _may_fork():
        return None
    import multiprocessing  # with sockets and subprocesses

    edges = [size * part // count for part in range(count)]
    spans = list(zip(edges, [*edges[1:], None], strict=True))
    context = multiprocessing.get_context("fork")
    children = []
    # Ctrl-C is the parent's to answer: children never see it, and it ends them
    usual = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        for span in spans[1:]:
            receiving, sending = context.Pipe(duplex=False)
            child = context.Process(target=_send, args=(sending, source, span, wanted, limits), daemon=True)
            with warnings.catch_warnings():
                # Python 3.12 counts the idle threads of numpy's linear algebra, which no part uses
                warnings.simplefilter("ignore", DeprecationWarning)
                child.start()
            sending.close()
            children.append((child, receiving))
        signal.pthread_sigmask(signal.SIG_SETMASK, usual)
        first = _part(source, spans[0], wanted, limits, progress)
        return None if first is None else _whole(first, [receiving for _, receiving in children], limits)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, usual)
        for child, receiving in children:
            receiving.close()
            child.terminate()
            child.join()


def _may_fork() -> bool:
    """Whether this process can be copied: it runs no other thread, and may have children."""
    import multiprocessing

    is_alone = threading.active_count() == 1 and not multiprocessing.current_process().daemon
    return is_alone and "fork" in multiprocessing.get_all_start_methods()


def _whole(first: GatheredEvents, others: list[Connection], limits: Limits) -> GatheredEvents | None:
    """All parts together; None if one of them is missing, or odd: then it is looked at in one piece."""
    parts = [first]
    try:
        for receiving in others:
            if (part := receive(receiving)) is None:
                return None
            parts.append(part)
    except (EOFError, OSError):  # a child died
        return None
    is_odd = (
        any(part.has_named_threads for part in parts)
        or any(part.notes for part in parts[:-1])
        or any(note.code != "trace-cut-off" for note in parts[-1].notes)
        or any(first.metadata.keys() & part.metadata.keys() for part in parts[1:])
    )
    if is_odd:
        return None
    whole = merged(parts)
    rows = Counter[Table]()
    for (table, _), columns in whole.feeds.items():
        rows[table] += len(columns["start_ns"])
    return whole if max(rows.values(), default=0) <= limits.rows_per_table else None


class _Part:
    """A part of a text, with a few bytes before and after it so that it is a trace by itself.

    The neighbours of a part look at the same bytes from the same place for where it begins and ends.
    """

    def __init__(self, stream: ByteStream, start: int, end: int | None) -> None:
        self._stream, self._before, self._is_ended, self.end_notes = stream, b"", False, stream.end_notes
        self._left = None if end is None else end - start
        if start:
            window, cut = _next_cut(stream)
            begins = window.index(b",", cut) + 1  # the comma before the first event
            self._before, self._stream = b'{"traceEvents": [', RejoinedStream(window[begins:], stream)
            if self._left is not None:
                self._left -= begins
                if self._left < 0:
                    raise ValueError("an event is longer than the part that it ends in")

    def read(self, size: int = -1, /) -> bytes:
        if self._before:
            text, self._before = self._before, b""
            return text
        if self._left is None:
            return self._stream.read(size)
        if self._left:
            text = self._stream.read(min(size, self._left))
            if not text:
                raise ValueError("the text ends before its part does")
            self._left -= len(text)
            return text
        if self._is_ended:
            return b""
        self._is_ended = True
        window, cut = _next_cut(self._stream)
        return window[:cut] + b"]}"


def _next_cut(stream: ByteStream) -> tuple[bytes, int]:
    """The next bytes of a text, and where in them an event ends for the first time."""
    window = b""
    while len(window) < _WINDOW and (more := stream.read(_WINDOW - len(window))):
        window += more
    match = BETWEEN.search(window)
    if match is None:
        raise ValueError("no event ends near")
    return window, match.start() + 1


@contextmanager
def _text_from(source: Source, start: int, limits: Limits) -> Iterator[ByteStream]:
    """What a file holds, from a place on."""
    with opened(source) as file:
        if not source.head.startswith(GZIP):
            file.seek(start)
            yield PlainFile(file)
            return
        text = Gunzipped(PlainFile(file), source.name, limits)
        while start and (passed := len(text.read(min(start, _WINDOW)))):
            start -= passed
        with read_ahead(text) as stream:
            yield stream


def _part(
    source: Source, span: _Span, wanted: WantedColumns, limits: Limits, progress: Progress
) -> GatheredEvents | None:
    try:
        with _text_from(source, span[0], limits) as text:
            return gather(_Part(text, *span), source.name, wanted, limits, progress)
    except (GpuledgerError, ValueError):
        return None


def _send(sending: Connection, source: Source, span: _Span, wanted: WantedColumns, limits: Limits) -> None:
    send(sending, _part(source, span, wanted, limits, lambda _table, _rows: None))
    sending.close()
