"""The events of a trace in, raw columns out: one stream at a time, or the parts of a large file merged again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuledger.limits import Limits
from gpuledger.model.health import Note
from gpuledger.model.strings import NO_TEXT
from gpuledger.model.tables import NOT_RECORDED, Kind, Table
from gpuledger.read.event_types import LEFT_ALONE, by_category
from gpuledger.read.events import EventStream
from gpuledger.read.exact import nanoseconds
from gpuledger.read.export import Progress, Wanted, too_many_rows
from gpuledger.read.stream import Bytes
from gpuledger.read.torch_columns import CATEGORIES, Codes, Columns, Shaper


@dataclass(frozen=True, slots=True)
class Gathered:
    """What was read. Text columns hold positions in `texts`; it can travel between processes."""

    tables: dict[Table, Columns]
    texts: list[str]
    metadata: dict[str, Any]
    notes: list[Note]
    process_names: dict[int, str]
    seen: dict[str, int]
    events: int
    untimed: int
    begin_end: int
    names_cut: int
    has_named_threads: bool
    """Threads that have no number got one that means nothing in another part."""


def gather(stream: Bytes, name: str, wanted: Wanted, limits: Limits, progress: Progress) -> Gathered:
    """Read what `wanted` names of one stream."""
    events = EventStream(stream, name, limits)
    gathering = _Gathering(name, wanted, limits)
    for batch in events.batches():
        gathering.take(batch)
        progress("events", gathering.events)
    return gathering.finish(events)


def merged(parts: Sequence[Gathered]) -> Gathered:
    """The parts of one trace together, in their order."""
    codes: dict[str, int] = {}
    tables: dict[Table, list[Columns]] = {}
    for part in parts:
        code = np.array([*(codes.setdefault(text, len(codes)) for text in part.texts), NO_TEXT])
        for table, columns in part.tables.items():
            texts = {column.name for column in table.schema.columns if column.kind is Kind.TEXT}
            tables.setdefault(table, []).append(
                {key: code[values] if key in texts else values for key, values in columns.items()}
            )
    return Gathered(
        tables={table: _together(each) for table, each in tables.items()},
        texts=list(codes),
        metadata={key: value for part in parts for key, value in part.metadata.items()},
        notes=[note for part in parts for note in part.notes],
        process_names={pid: name for part in reversed(parts) for pid, name in part.process_names.items()},
        seen={key: sum(part.seen.get(key, 0) for part in parts) for part in parts for key in part.seen},
        events=sum(part.events for part in parts),
        untimed=sum(part.untimed for part in parts),
        begin_end=sum(part.begin_end for part in parts),
        names_cut=sum(part.names_cut for part in parts),
        has_named_threads=any(part.has_named_threads for part in parts),
    )


def _together(parts: list[Columns]) -> Columns:
    """The columns of all parts in a row; what one lacks is filled in."""
    keys = sorted(set().union(*parts))
    for part in parts:
        for key in keys:
            part.setdefault(key, np.full(len(part["start_ns"]), NOT_RECORDED))
    return {key: np.concatenate([part[key] for part in parts]) for key in keys}


class _Gathering:
    """Collects the columns of all batches."""

    def __init__(self, name: str, wanted: Wanted, limits: Limits) -> None:
        self._name, self._limits = name, limits
        self._wanted = wanted
        self.codes = Codes(limits.text_bytes)
        self._shaper = Shaper(self.codes, with_inputs="inputs" in wanted.get(Table.RANGES, ()))
        self.events = 0
        self._parts: dict[Table, list[Columns]] = {}
        self._rows: Counter[Table] = Counter()
        self._process_names: dict[int, str] = {}
        self._seen: dict[str, int] = {}
        self._untimed = self._begin_end = 0

    def take(self, batch: list[Any]) -> None:
        """Add one batch."""
        self.events += len(batch)
        for category, events in by_category(batch).items():
            self._seen[category] = self._seen.get(category, 0) + len(events)
            if category not in CATEGORIES:
                if category not in LEFT_ALONE:
                    self._take_others(events)
                continue
            if [event.ph for event in events].count("X") < len(events):
                self._begin_end += sum(event.ph in ("B", "E") for event in events)
                events = [event for event in events if event.ph == "X"]
            for table, kind, shape in CATEGORIES[category]:
                if table in self._wanted:
                    self._add(table, kind, shape, events)

    def _take_others(self, events: list[Any]) -> None:
        """Names of processes, and memory events."""
        memory = []
        for event in events:
            if event.ph == "M" and event.name == "process_name" and isinstance(event.pid, int):
                self._process_names.setdefault(event.pid, event.args.name)
            elif event.ph == "i" and event.name == "[memory]":
                memory.append(event)
        if memory and Table.ALLOCS in self._wanted:
            self._add(Table.ALLOCS, "memory", Shaper.allocs, memory)

    def _add(self, table: Table, kind: str, shape: Callable[..., Columns], events: list[Any]) -> None:
        if table is Table.COLLECTIVES:
            events = [event for event in events if event.args.collective]
        if not events:
            return
        self._rows[table] += len(events)
        if self._rows[table] > self._limits.rows_per_table:
            raise too_many_rows(self._name, table.value, self._limits.rows_per_table)
        start, timed = nanoseconds([event.ts for event in events])
        if not timed.all():
            self._untimed += int((~timed).sum())
            events = [event for event, good in zip(events, timed.tolist(), strict=True) if good]
            start = start[timed]
            if not events:
                return
        length, has_length = nanoseconds([event.dur for event in events])
        self._untimed += 0 if kind == "memory" else int((~has_length).sum())
        columns = shape(self._shaper, events, kind) | {"start_ns": start, "end_ns": start + length}
        self._parts.setdefault(table, []).append(columns)

    def finish(self, events: EventStream) -> Gathered:
        """All batches together."""
        return Gathered(
            tables={table: _together(parts) for table, parts in self._parts.items()},
            texts=list(self.codes),
            metadata=events.metadata,
            notes=events.notes(),
            process_names=self._process_names,
            seen=self._seen,
            events=self.events,
            untimed=self._untimed,
            begin_end=self._begin_end,
            names_cut=self.codes.cut,
            has_named_threads=self._shaper.has_named_threads,
        )
