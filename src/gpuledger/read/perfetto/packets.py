"""A Perfetto trace's packets in, columns out: slices with their track, name, category and arguments; tracks by number.

Field numbers are those of perfetto's protos. Names are interned: a sequence of packets says once what a number means,
until it says that all is forgotten. Slices begin and end in packets of their own, which nest on their track.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gpuledger.read.assembled import TextCodes
from gpuledger.read.protobuf import Damage, MessageColumns, WirePart, message_columns, parts
from gpuledger.trace.keys import group
from gpuledger.trace.spans import Ints
from gpuledger.trace.strings import NO_TEXT
from gpuledger.trace.tables import NOT_RECORDED

_TIMESTAMP, _SEQUENCE, _TRACK_EVENT, _INTERNED, _FLAGS, _COMPRESSED, _STAGE, _DESCRIPTOR = 8, 10, 11, 12, 13, 50, 53, 60
_BEGIN, _END, _INSTANT = 1, 2, 3
CATEGORIES, NAMES, ARGUMENT_NAMES, STAGES, TEXTS = 1, 2, 3, 24, 29
"""What is interned, by its field in InternedData."""
_INTERNED_KINDS: Final = (CATEGORIES, NAMES, ARGUMENT_NAMES, STAGES, TEXTS)


class PerfettoTrack(NamedTuple):
    """What a descriptor says of one track."""

    parent: int = 0
    name: str = ""
    pid: int = NOT_RECORDED
    tid: int = NOT_RECORDED
    process: str = ""


class PerfettoArguments(Struct, frozen=True, eq=False):
    """Arguments of rows: whose each is, what it is called, and its number, or the code of its text."""

    owner: Ints
    name: Ints
    value: Ints
    text: Ints
    codes: TextCodes

    def numbers(self, *names: str, count: int) -> Ints:
        """The number of each row under one of these names."""
        return self._column(self.value, names, count)

    def texts(self, *names: str, count: int) -> Ints:
        return self._column(self.text, names, count)

    def _column(self, values: Ints, names: tuple[str, ...], count: int) -> Ints:
        column = np.full(count, NOT_RECORDED, np.int64)
        chosen = np.isin(self.name, [self.codes.get(name, -2) for name in names])
        column[self.owner[chosen]] = values[chosen]
        return column


class PerfettoSlices(Struct, frozen=True, eq=False):
    """Slices and instants; of GPUs' stages, whose durations are told, the track is the queue."""

    start_ns: Ints
    end_ns: Ints
    track: Ints
    name: Ints
    category: Ints
    flow: Ints
    """The first arrow that begins or ends here; 0 for none."""
    arguments: PerfettoArguments
    gpu: Ints
    event: Ints
    """The number of a stage, by which slices name what they launched."""

    def __len__(self) -> int:
        return len(self.start_ns)


class PerfettoPackets:
    """The packets of one trace. What breaks off at the end is left out, and `is_cut` says so."""

    def __init__(self, content: bytes, codes: TextCodes) -> None:
        self._content, self._bytes, self.codes = content, np.frombuffer(content, np.uint8), codes
        places, self.is_cut = list[WirePart](), False
        try:
            places.extend(part for part in parts(content, 0, len(content)) if part.field == 1)
        except Damage:
            self.is_cut = True
        where = np.array([(part.start, part.end) for part in places], np.int64).reshape(-1, 2)
        self.count = len(where)
        self._fields = message_columns(self._bytes, where[:, 0], where[:, 1])
        self.compressed = int(np.count_nonzero(self._fields.field == _COMPRESSED))
        self.tracks = self._tracks()
        self._generation = self._generations()
        self._meaning = self._interned()
        self.unpaired = 0

    def _text(self, part: WirePart) -> str:
        return self._content[part.start : part.end].decode(errors="backslashreplace")

    def _tracks(self) -> dict[int, PerfettoTrack]:
        tracks = dict[int, PerfettoTrack]()
        own = self._fields.of(_DESCRIPTOR)
        for start, end in zip(own.start.tolist(), own.end.tolist(), strict=True):
            uuid, said = 0, dict[str, Any]()
            for part in parts(self._content, start, end):
                if part.field == 1:
                    uuid = _signed(part.value)
                elif part.field == 2:
                    said["name"] = self._text(part)
                elif part.field == 5:
                    said["parent"] = _signed(part.value)
                elif part.field in (3, 4):
                    name_field, name = (6, "process") if part.field == 3 else (5, "name")
                    for inner in parts(self._content, part.start, part.end):
                        if inner.field == 1:
                            said["pid"] = inner.value
                        elif inner.field == 2 and part.field == 4:
                            said["tid"] = inner.value
                        elif inner.field == name_field:
                            said[name] = self._text(inner)
            tracks[uuid] = tracks.get(uuid, PerfettoTrack())._replace(**said)
        return tracks

    def _generations(self) -> Ints:
        """For each packet the number of its sequence since it last forgot what was interned."""
        sequence, flags = self._fields.column(_SEQUENCE, self.count), self._fields.column(_FLAGS, self.count)
        order = np.argsort(sequence, kind="stable")
        begins = (flags[order] & 1) > 0
        begins |= _changes(sequence[order])
        generation = np.empty(self.count, np.int64)
        generation[order] = np.cumsum(begins)
        return generation

    def _interned(self) -> dict[int, dict[tuple[int, int], int]]:
        meaning: dict[int, dict[tuple[int, int], int]] = {kind: {} for kind in _INTERNED_KINDS}
        own = self._fields.of(_INTERNED)
        for packet, start, end in zip(own.owner.tolist(), own.start.tolist(), own.end.tolist(), strict=True):
            generation = int(self._generation[packet])
            for entry in parts(self._content, start, end):
                if entry.field not in meaning:
                    continue
                inside = list(parts(self._content, entry.start, entry.end))
                number = next((part.value for part in inside if part.field == 1), 0)
                text = next((self._text(part) for part in inside if part.field == 2), "")
                meaning[entry.field][generation, number] = self.codes[text]
        return meaning

    def _meant(self, kind: int, generation: Ints, number: Ints) -> Ints:
        """The codes of interned texts; NO_TEXT where nothing says what a number means, as of 0."""
        first, place = group(generation, number)
        pairs = zip(generation[first].tolist(), number[first].tolist(), strict=True)
        known = np.array([self._meaning[kind].get(pair, NO_TEXT) for pair in pairs], np.int64)
        return known[place] if len(place) else np.empty(0, np.int64)

    def _spelled(self, fields: MessageColumns) -> Ints:
        """The codes of texts that stand where they are used."""
        known = dict[bytes, int]()
        codes = list[int]()
        for start, end in zip(fields.start.tolist(), fields.end.tolist(), strict=True):
            text = self._content[start:end]
            if text not in known:
                known[text] = self.codes[text.decode(errors="backslashreplace")]
            codes.append(known[text])
        return np.array(codes, np.int64)

    def _texts(
        self, fields: MessageColumns, count: int, generation: Ints, kind: int, number_field: int, text_field: int
    ) -> Ints:
        """A text of each message: by its number, or spelled out."""
        text = self._meant(kind, generation, fields.column(number_field, count))
        spelled = fields.of(text_field)
        text[spelled.owner] = self._spelled(spelled)
        return text

    def slices(self, *, ends_first: bool) -> PerfettoSlices:
        """What ran on tracks. At one instant an end comes before a beginning where the packets are not in order."""
        own = self._fields.of(_TRACK_EVENT)
        fields, count = message_columns(self._bytes, own.start, own.end), len(own.owner)
        kind, track = fields.column(9, count), fields.column(11, count)
        time = self._fields.column(_TIMESTAMP, self.count)[own.owner]
        begin, end = self._paired(kind, track, time, ends_first=ends_first)
        brief = np.flatnonzero(kind == _INSTANT)
        rows, last = np.concatenate((begin, brief)), np.concatenate((end, brief))
        generation = self._generation[own.owner]
        name = self._texts(fields, count, generation, NAMES, 10, 23)
        category = self._texts(fields, count, generation, CATEGORIES, 3, 22)
        row_of = np.full(count, -1)
        row_of[rows] = np.arange(len(rows))
        flows, flow = fields.of(47), np.zeros(count, np.int64)
        flow[flows.owner[::-1]] = self._eight_bytes(flows.start)[::-1]
        launched = fields.of(3000)
        stage = message_columns(self._bytes, launched.start, launched.end).column(1, len(launched.owner))
        event = np.zeros(count, np.int64)
        event[launched.owner] = stage
        arguments = self._annotations(fields.of(4), generation, row_of)
        unknown = np.full(len(rows), NOT_RECORDED)
        return PerfettoSlices(
            time[rows], time[last], track[rows], name[rows], category[rows], flow[rows], arguments, unknown, event[rows]
        )

    def _eight_bytes(self, start: Ints) -> Ints:
        octets = self._bytes[np.minimum(start[:, None] + np.arange(8), len(self._bytes) - 1)]
        return np.ascontiguousarray(octets).view("<i8").ravel().astype(np.int64)

    def _paired(self, kind: Ints, track: Ints, time: Ints, *, ends_first: bool) -> tuple[Ints, Ints]:
        """Beginnings of slices and their ends; what has no other is counted."""
        timed = np.flatnonzero((kind == _BEGIN) | (kind == _END))
        second = (kind[timed] == _BEGIN) if ends_first else timed
        order = timed[np.lexsort((second, time[timed], track[timed]))]
        change = np.where(kind[order] == _BEGIN, 1, -1)
        edges = [*np.flatnonzero(_changes(track[order])).tolist(), len(order)]
        level = np.cumsum(change)
        keep = np.ones(len(order), np.bool_)
        for first, last in pairwise(edges):
            here = level[first:last] - (level[first] - change[first])
            lowest = np.minimum.accumulate(np.minimum(here, 0))
            keep[first:last] = (change[first:last] > 0) | (np.diff(lowest, prepend=0) == 0)  # an end of nothing
            level[first:last] = here - lowest
        order, change, level = order[keep], change[keep], level[keep]
        depth = np.where(change > 0, level, level + 1)
        by_depth = np.lexsort((np.arange(len(order)), depth, track[order]))
        row, is_begin = order[by_depth], change[by_depth] > 0
        same = ~(_changes(track[row]) | _changes(depth[by_depth]))[1:]
        pairs = np.flatnonzero(is_begin[:-1] & ~is_begin[1:] & same)
        self.unpaired += len(timed) - 2 * len(pairs)
        return row[pairs], row[pairs + 1]

    def _annotations(self, own: MessageColumns, generation: Ints, row_of: Ints) -> PerfettoArguments:
        fields, count = message_columns(self._bytes, own.start, own.end), len(own.owner)
        generation = generation[own.owner]
        name = self._texts(fields, count, generation, ARGUMENT_NAMES, 1, 10)
        text = self._texts(fields, count, generation, TEXTS, 17, 6)
        value = np.full(count, NOT_RECORDED)
        for number in (2, 3, 4):
            said = fields.of(number)
            value[said.owner] = said.value
        row = row_of[own.owner]
        kept = row >= 0
        return PerfettoArguments(row[kept], name[kept], value[kept], text[kept], self.codes)

    def stages(self) -> PerfettoSlices:
        """What ran on GPUs, as torch tells it: events with their durations, on queues."""
        own = self._fields.of(_STAGE)
        fields, count = message_columns(self._bytes, own.start, own.end), len(own.owner)
        generation = self._generation[own.owner]
        start = self._fields.column(_TIMESTAMP, self.count)[own.owner]
        kind = self._meant(STAGES, generation, fields.column(14, count))
        named = self._texts(fields, count, generation, NAMES, 20, 17)
        extra = fields.of(6)
        said = message_columns(self._bytes, extra.start, extra.end)
        name, text = np.full(len(extra.owner), NO_TEXT), np.full(len(extra.owner), NO_TEXT)
        for field, column in ((1, name), (2, text)):
            spelled = said.of(field)
            column[spelled.owner] = self._spelled(spelled)
        spoken = list(self.codes)
        value = np.array([_whole(spoken[code]) if code >= 0 else NOT_RECORDED for code in text.tolist()], np.int64)
        launch = fields.of(21)
        shape = self._shapes(launch, count)
        arguments = PerfettoArguments(
            np.concatenate((extra.owner, *(np.arange(count),) * 6)),
            np.concatenate((name, *(np.full(count, self.codes[key]) for key in shape))),
            np.concatenate((value, *shape.values())),
            np.concatenate((text, *(np.full(count, NO_TEXT),) * 6)),
            self.codes,
        )
        return PerfettoSlices(
            start,
            start + fields.column(2, count),
            fields.column(13, count),
            np.where(named >= 0, named, kind),
            kind,
            np.zeros(count, np.int64),
            arguments,
            fields.column(11, count),
            fields.column(1, count),
        )

    def _shapes(self, launch: MessageColumns, count: int) -> dict[str, Ints]:
        """Sizes of grids and blocks, one column for each direction."""
        inside = message_columns(self._bytes, launch.start, launch.end)
        shape = dict[str, Ints]()
        for field, name in ((1, "grid"), (2, "block")):
            sized = inside.of(field)
            sizes = message_columns(self._bytes, sized.start, sized.end)
            for direction, letter in enumerate("xyz", 1):
                column = np.full(count, NOT_RECORDED)
                column[launch.owner[sized.owner]] = sizes.column(direction, len(sized.owner))
                shape[f"{name} {letter}"] = column
        return shape


def _whole(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else NOT_RECORDED


def _signed(value: int) -> int:
    """A number as 64 bits with a sign hold it."""
    return value - (1 << 64) if value >= 1 << 63 else value


def _changes(values: Ints) -> NDArray[np.bool_]:
    """Which values differ from the one before; the first does."""
    changes = np.ones(len(values), np.bool_)
    changes[1:] = values[1:] != values[:-1]
    return changes
