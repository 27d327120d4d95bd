"""A small decoder of Perfetto traces, written from the format's public description and sharing nothing with the writer.

It does what Perfetto's engine does: sorts events by time, those of one time in the order of the file, and keeps a stack
per track. An end without a beginning, or a beginning without an end, is an error here.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Slice:
    track: int
    name: str
    category: str
    start: int
    end: int = -1
    depth: int = 0
    arguments: dict[str, Any] = field(default_factory=dict)
    flows: list[int] = field(default_factory=list)
    instant: bool = False


@dataclass
class Decoded:
    tracks: dict[int, dict[str, Any]]
    slices: list[Slice]
    counters: list[tuple[int, int, float]]

    def path(self, uuid: int) -> tuple[str, ...]:
        """Names from the outermost heading in."""
        track = self.tracks[uuid]
        above = track.get("parent")
        return (*(self.path(above) if above else ()), track["name"])

    def on(self, name: str) -> list[Slice]:
        """What lies on tracks of this name, in order of time."""
        mine = {uuid for uuid, track in self.tracks.items() if track["name"] == name}
        return sorted((each for each in self.slices if each.track in mine), key=lambda each: (each.start, each.end))

    @property
    def arrows(self) -> int:
        """How many arrows have two ends."""
        ends: dict[int, int] = {}
        for each in self.slices:
            for flow in each.flows:
                ends[flow] = ends.get(flow, 0) + 1
        assert set(ends.values()) <= {2}
        return len(ends)


def fields(octets: bytes) -> list[tuple[int, Any]]:
    """(field number, value) of a message."""
    found: list[tuple[int, Any]] = []
    at, end = 0, len(octets)
    while at < end:
        key, at = (octets[at], at + 1) if octets[at] < 0x80 else varint(octets, at)
        value: Any
        if key & 7 == 0:
            value, at = (octets[at], at + 1) if octets[at] < 0x80 else varint(octets, at)
        elif key & 7 == 2:
            length, at = (octets[at], at + 1) if octets[at] < 0x80 else varint(octets, at)
            value, at = octets[at : at + length], at + length
            assert at <= end, "a field longer than its message"
        elif key & 7 == 1:
            value, at = octets[at : at + 8], at + 8
        else:
            raise AssertionError(f"wire type {key & 7}")
        found.append((key >> 3, value))
    return found


def varint(octets: bytes, at: int) -> tuple[int, int]:
    """The number at some place, and the place after it; most are of one byte, which is faster seen than asked here."""
    value = shift = 0
    while True:
        octet = octets[at]
        at += 1
        value |= (octet & 0x7F) << shift
        shift += 7
        if octet < 0x80:
            assert shift <= 70, "a varint of more than ten bytes"
            return value & (1 << 64) - 1, at


def signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def decode(octets: bytes) -> Decoded:
    tracks: dict[int, dict[str, Any]] = {}
    interned: dict[int, dict[int, str]] = {1: {}, 2: {}, 3: {}, 29: {}}
    events: list[tuple[int, int, dict[str, Any]]] = []
    for number, packet in fields(octets):
        assert number == 1
        parts = dict(fields(packet))
        assert parts[10] == 1
        if 60 in parts:
            track = track_of(parts[60])
            tracks[track["uuid"]] = track
        for kind, entry in fields(parts.get(12, b"")):
            known = dict(fields(entry))
            assert known[1] not in interned[kind]
            interned[kind][known[1]] = known[2].decode("utf-8")
        if 11 in parts:
            events.append((parts[8], len(events), event_of(parts[11], interned)))
    slices, counters = [], []
    stacks: dict[int, list[Slice]] = {}
    for time, _, event in sorted(events, key=lambda each: each[:2]):
        assert event["track"] in tracks, "an event on a track that was not described"
        stack = stacks.setdefault(event["track"], [])
        if event["type"] == 4:
            counters.append((event["track"], time, event["value"]))
        elif event["type"] == 2:
            stack.pop().end = time
        else:
            made = Slice(event["track"], event["name"], event["category"], time, depth=len(stack))
            made.arguments, made.flows = event["arguments"], event["flows"]
            slices.append(made)
            if event["type"] == 3:
                made.end, made.instant = time, True
            else:
                stack.append(made)
    assert not any(stacks.values()), "a slice that never ends"
    return Decoded(tracks, slices, counters)


def track_of(octets: bytes) -> dict[str, Any]:
    parts = dict(fields(octets))
    track: dict[str, Any] = {"uuid": parts[1], "parent": parts.get(5, 0), "name": "", "order": parts.get(12)}
    if 2 in parts:
        track["name"] = parts[2].decode()
    if 3 in parts:
        process = dict(fields(parts[3]))
        track |= {"pid": process[1], "name": process[6].decode()}
    if 4 in parts:
        thread = dict(fields(parts[4]))
        track |= {"pid": thread[1], "tid": thread[2], "name": thread[5].decode()}
    return track


def event_of(octets: bytes, interned: dict[int, dict[int, str]]) -> dict[str, Any]:
    event: dict[str, Any] = {"arguments": {}, "flows": [], "name": "", "category": ""}
    for number, value in fields(octets):
        match number:
            case 9:
                event["type"] = value
            case 11:
                event["track"] = value
            case 3:
                event["category"] = interned[1][value]
            case 10:
                event["name"] = interned[2][value]
            case 30:
                event["value"] = signed(value)
            case 44:
                [event["value"]] = struct.unpack("<d", value)
            case 47:
                [flow] = struct.unpack("<Q", value)
                event["flows"].append(flow)
            case 4:
                note = dict(fields(value))
                event["arguments"][interned[3][note[1]]] = interned[29][note[17]] if 17 in note else signed(note[4])
            case _:
                raise AssertionError(f"field {number}")
    return event
