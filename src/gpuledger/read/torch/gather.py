"""The events of one stream in, raw columns out, batch by batch: what is held are the columns and one batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final

from gpuledger.limits import Limits
from gpuledger.read.request import Progress, WantedColumns, too_many_rows
from gpuledger.read.stream import ByteStream
from gpuledger.read.torch.columns import CATEGORIES, ON_THREAD, Columns, Shaper, TextCodes, narrowed, together
from gpuledger.read.torch.event_types import LEFT_ALONE, are_usual, by_category
from gpuledger.read.torch.events import EventStream
from gpuledger.read.torch.exact_ns import nanoseconds
from gpuledger.trace.health import Note
from gpuledger.trace.tables import Table

Feed = tuple[Table, str]
"""A table, and the category of events that rows of it come from."""


@dataclass(frozen=True, slots=True)
class GatheredEvents:
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
    names_cut: int
    has_named_threads: bool
    """Threads that have no number got one that means nothing in another part."""


def gather(stream: ByteStream, name: str, wanted: WantedColumns, limits: Limits, progress: Progress) -> GatheredEvents:
    """Read what `wanted` names of one stream."""
    events = EventStream(stream, name, limits)
    gathering = _Gathering(name, wanted, limits)
    for batch in events.batches():
        gathering.take(batch)
        del batch  # before the next one is made
        progress("events", gathering.events)
    return gathering.finish(events)


_COLLECTIVE: Final = attrgetter("collective")


def _args(events: list[Any]) -> list[Any]:
    """The arguments of events; none where their category has none that is read."""
    return [event.args for event in events] if events and hasattr(events[0], "args") else []


class _Gathering:
    """Collects the columns of all batches."""

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

    def take(self, batch: list[Any]) -> None:
        """Add one batch."""
        self.events += len(batch)
        have_length = are_usual(batch)
        if not have_length:  # threads that have no number get theirs in the order of the text, however it is cut
            self._shaper.meet(event for event in batch if event.cat in ON_THREAD and event.ph == "X")
        for category, events in by_category(batch).items():
            self._seen[category] = self._seen.get(category, 0) + len(events)
            if category not in CATEGORIES:
                if category not in LEFT_ALONE:
                    self._take_others(category, events)
                continue
            if not have_length:
                self._begin_end += sum(event.ph in ("B", "E") for event in events)
                events = [event for event in events if event.ph == "X"]
            args = _args(events)
            for table, kind, shape in CATEGORIES[category]:
                if table in self._wanted:
                    self._add((table, category), kind, shape, events, args)

    def _take_others(self, category: str, events: list[Any]) -> None:
        """Names of processes, and memory events."""
        memory = []
        for event in events:
            if event.ph == "M" and event.name == "process_name" and isinstance(event.pid, int):
                if -(2**63) <= event.pid < 2**63:  # no event can be of another: columns have 64 bits
                    self._process_names.setdefault(event.pid, event.args.name)
            elif event.ph == "i" and event.name == "[memory]":
                memory.append(event)
        if memory and Table.ALLOCS in self._wanted:
            self._add((Table.ALLOCS, category), "memory", Shaper.allocs, memory, _args(memory))

    def _add(self, feed: Feed, kind: str, shape: Callable[..., Columns], events: list[Any], args: list[Any]) -> None:
        table = feed[0]
        if table is Table.COLLECTIVES:
            if not args or not hasattr(args[0], "collective") or not any(map(_COLLECTIVE, args)):
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
        self._untimed += 0 if kind == "memory" else int((~has_length).sum())
        columns = shape(self._shaper, events, args, kind) | {"start_ns": start, "end_ns": start + length}
        self._parts.setdefault(feed, []).append(narrowed(table, columns))

    def finish(self, events: EventStream) -> GatheredEvents:
        """All batches together."""
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
            names_cut=self.codes.cut,
            has_named_threads=self._shaper.has_named_threads,
        )
