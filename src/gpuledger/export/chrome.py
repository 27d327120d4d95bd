"""A timeline in Chrome's trace-event format: sections in, JSON out, a chunk at a time.

For viewers that know no Perfetto trace. Slices are complete events, which nest by time on a thread; so every track is a
thread, and every GPU a process. Times are microseconds since the timeline's beginning, with all digits. Texts go
through the JSON encoder, each once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.export.timeline import Levels, Records, TimelineSection, Track, TrackKind
from gpuledger.trace.spans import Ints

CHUNK: Final = 16_384


def as_json(text: str) -> str:
    """A text as JSON writes it, in ASCII, so that nothing hides in the file; what is no Unicode is spelled out."""
    return json.dumps(text.encode("utf-8", "backslashreplace").decode())


class Spelled:
    """Texts of lists as JSON, each made when it is first used."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Sequence[str], dict[int, str]]] = {}

    def __call__(self, texts: Sequence[str], codes: Ints) -> list[str]:
        # the texts are kept beside what was made of them, so that no other list comes to have their identity
        _, known = self._known.setdefault(id(texts), (texts, {}))
        for code in np.unique(codes).tolist():
            if code not in known:
                known[code] = as_json(texts[code]) if code >= 0 else ""
        return [known[code] for code in codes.tolist()]


class ChromeWriter:
    """Encodes sections. `base_ns` is the time that becomes 0."""

    def __init__(self, base_ns: int = 0) -> None:
        self._base = base_ns
        self._spelled = Spelled()
        self._place: dict[int, tuple[int, int]] = {}
        self._counters: dict[int, tuple[str, str]] = {}

    def write(self, sections: Iterable[TimelineSection]) -> Iterator[bytes]:
        """The whole document."""
        yield b'{"displayTimeUnit":"ns","baseTimeNanoseconds":%d,"traceEvents":[\n' % self._base
        # the first event needs no comma before it
        yield b'{"ph":"M","name":"trace","pid":0,"tid":0,"args":{"made_by":"gpuledger"}}'
        for section in sections:
            for lines in self._section(section):
                if lines:
                    yield b",\n" + ",\n".join(lines).encode()
        yield b"\n]}\n"

    def _section(self, section: TimelineSection) -> Iterator[list[str]]:
        yield [line for track in section.tracks for line in self._description(track)]
        if section.records is not None:
            # of what begins at one instant on a track, the outer has to come first
            order = np.lexsort((section.records.rank, section.records.start_ns, section.records.track))
            for first in range(0, len(order), CHUNK):
                yield self._events(section.records, order[first : first + CHUNK], section.offset_ns)
        for levels in section.levels:
            yield self._levels(levels, section.offset_ns)

    def _description(self, track: Track) -> list[str]:
        self._place[track.uuid] = (track.pid, track.tid)
        name, order, of = as_json(track.name), track.order, "thread"
        match track.kind:
            case TrackKind.COUNTER:
                self._counters[track.uuid] = (name, as_json(track.unit))
                return []
            case TrackKind.GROUP:
                of = "process"
            case TrackKind.PROCESS:
                of, order = "process", order + 1000
        where = f'"pid":{track.pid},"tid":{track.tid}'
        return [
            f'{{"ph":"M","name":"{of}_name",{where},"args":{{"name":{name}}}}}',
            f'{{"ph":"M","name":"{of}_sort_index",{where},"args":{{"sort_index":{order}}}}}',
        ]

    def _events(self, records: Records, chosen: NDArray[np.intp], offset_ns: int) -> list[str]:
        times = _micros(np.maximum(records.start_ns[chosen] - offset_ns - self._base, 0))
        lengths = _micros(records.end_ns[chosen] - records.start_ns[chosen])
        places = [self._place[uuid] for uuid in records.track[chosen].tolist()]
        where = [f'"pid":{pid},"tid":{tid}' for pid, tid in places]
        names = self._spelled(records.titles, records.title[chosen])
        categories = self._spelled(records.categories, records.category[chosen])
        instant = records.instant[chosen].tolist()
        lines = [
            f'{{"ph":"i","s":"t","name":{name},"cat":{category},{place},"ts":{time},"args":{{{more}}}}}'
            if brief
            else f'{{"ph":"X","name":{name},"cat":{category},{place},"ts":{time},"dur":{length},"args":{{{more}}}}}'
            for brief, name, category, place, time, length, more in zip(
                instant, names, categories, where, times, lengths, self._arguments(records, chosen), strict=True
            )
        ]
        return lines + self._arrows(records, chosen, where, times)

    def _arguments(self, records: Records, chosen: NDArray[np.intp]) -> list[str]:
        """The arguments of each record, without the braces."""
        members = [""] * len(chosen)
        for argument in records.arguments:
            values = argument.values.take(chosen)
            rows = np.flatnonzero(values != argument.values.absent)
            name = as_json(argument.name)
            if argument.texts is None:
                shown: Sequence[object] = values[rows].tolist()
            else:
                shown = self._spelled(argument.texts, values[rows])
            for row, value in zip(rows.tolist(), shown, strict=True):
                before = members[row]
                members[row] = f"{before},{name}:{value}" if before else f"{name}:{value}"
        return members

    def _arrows(self, records: Records, chosen: NDArray[np.intp], where: list[str], times: list[str]) -> list[str]:
        """Arrows begin at calls and end at what they launched."""
        if records.first_flow is None or records.flows is None:
            return []
        first, count = records.first_flow.take(chosen), records.flows.take(chosen)
        begins = '"ph":"s"' if records.begins_arrows else '"ph":"f","bp":"e"'
        return [
            f'{{{begins},"name":"launch","cat":"launch","id":{number},{where[row]},"ts":{times[row]}}}'
            for row in np.flatnonzero(count > 0).tolist()
            for number in range(int(first[row]), int(first[row] + count[row]))
        ]

    def _levels(self, levels: Levels, offset_ns: int) -> list[str]:
        name, unit = self._counters[levels.track]
        pid, _ = self._place[levels.track]
        times = _micros(np.maximum(levels.at_ns - offset_ns - self._base, 0))
        return [
            f'{{"ph":"C","name":{name},"pid":{pid},"tid":0,"ts":{time},"args":{{{unit}:{value}}}}}'
            for time, value in zip(times, levels.value.tolist(), strict=True)
        ]


def _micros(ns: NDArray[Any]) -> list[str]:
    """Microseconds, exactly."""
    whole, rest = np.divmod(ns, 1000)
    return [f"{a}.{b:03d}" for a, b in zip(whole.tolist(), rest.tolist(), strict=True)]
