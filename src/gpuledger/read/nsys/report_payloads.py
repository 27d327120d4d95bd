"""Payloads of NVTX in a report -> the JSON that `nsys export --include-json=true` writes of them.

NCCL says so what its calls moved, and nsys which functions of Python ran. A payload is the bytes of a C struct; the
report has the layout of each: names, types, offsets, and for a type of the program's own its number.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from struct import calcsize, unpack_from
from typing import Any, Final, NamedTuple

from gpuledger.read.nsys.report_events import texts_of
from gpuledger.read.protobuf import Damage, fields

_FORMATS: Final = {
    3: "<b",
    4: "<h",
    5: "<i",
    6: "<q",
    7: "<q",
    12: "<B",
    13: "<H",
    14: "<I",
    15: "<I",
    16: "<I",
    17: "<Q",
    18: "<Q",
    22: "<Q",
    80: "<Q",
}
"""NVTX's numbers of types, as far as they were seen; 80 is the number of a text."""
_COUNTED_BY: Final = 48
"""The flags of an array whose length is another field, by its place."""
_DEEPEST: Final = 8
_MOST_VALUES: Final = 10_000


class _Entry(NamedTuple):
    name: str
    type: int
    flags: int
    offset: int
    counted_by: int


class PayloadLayout(NamedTuple):
    """One kind of payload."""

    name: str
    entries: tuple[_Entry, ...]
    size: int


class PayloadLayouts:
    """The layouts and enumerations of a report, by process, domain and number."""

    def __init__(self, message: bytes) -> None:
        self.layouts: dict[tuple[int, int, int], PayloadLayout] = {}
        self.labels: dict[tuple[int, int, int], dict[int, str]] = {}
        for process in texts_of(message, 3):
            try:
                self._add(process)
            except Damage:  # what was whole before it counts
                continue

    def _add(self, process: bytes) -> None:
        pid = _number(dict(fields(process)), 1)
        for described in texts_of(process, 2):
            of = dict(fields(described))
            entries = tuple(
                _Entry(_name(entry, 7), *(_number(entry, number) for number in (1, 2, 3, 4)))
                for entry in (dict(fields(each)) for each in texts_of(described, 4))
            )
            self.layouts[pid, _number(of, 9), _number(of, 1)] = PayloadLayout(_name(of, 5), entries, _number(of, 6))
        for described in texts_of(process, 4):
            of = dict(fields(described))
            pairs = [dict(fields(pair)) for pair in texts_of(described, 4)]
            self.labels[pid, _number(of, 1), _number(of, 2)] = {_number(pair, 2): _name(pair, 1) for pair in pairs}

    def text(self, pid: int, domain: int, number: int, payload: bytes) -> bytes | None:
        """A payload as JSON; None where its layout is not known, or it is shorter than that says."""
        layout = self.layouts.get((pid, domain, number))
        if layout is None:
            return None
        try:
            values = self._values(pid, domain, layout, payload, 0, 0)
        except Damage:
            return None
        whole = {layout.name: values} if layout.name else values
        return json.dumps(whole, separators=(",", ":"), ensure_ascii=False).encode(errors="replace")

    def _values(
        self, pid: int, domain: int, layout: PayloadLayout, payload: bytes, start: int, deep: int
    ) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for entry in layout.entries:
            at = start + entry.offset
            if entry.flags == _COUNTED_BY:
                values[entry.name] = self._array(pid, domain, layout.entries, values, entry, payload, at, deep)
            elif entry.flags == 0:
                values[entry.name] = self._value(pid, domain, entry.type, payload, at, deep)[0]
        return values

    def _array(
        self,
        pid: int,
        domain: int,
        entries: Sequence[_Entry],
        values: Mapping[str, Any],
        entry: _Entry,
        payload: bytes,
        at: int,
        deep: int,
    ) -> list[Any]:
        counted = values.get(entries[entry.counted_by].name) if entry.counted_by < len(entries) else None
        if not isinstance(counted, int) or not 0 <= counted <= min(len(payload), _MOST_VALUES):
            raise Damage
        members = list[Any]()
        for _ in range(counted):
            value, size = self._value(pid, domain, entry.type, payload, at, deep)
            if size == 0:
                raise Damage
            members.append(value)
            at += size
        return members

    def _value(self, pid: int, domain: int, kind: int, payload: bytes, at: int, deep: int) -> tuple[Any, int]:
        """The value of this type, and how many bytes it takes."""
        if (inner := self.layouts.get((pid, domain, kind))) is not None and deep < _DEEPEST:
            return self._values(pid, domain, inner, payload, at, deep + 1), inner.size
        labels = self.labels.get((pid, domain, kind))
        form = "<i" if labels is not None else _FORMATS.get(kind)
        if form is None or at + calcsize(form) > len(payload):
            raise Damage
        number = unpack_from(form, payload, at)[0]
        return number if labels is None else labels.get(number, number), calcsize(form)


def _number(message: Mapping[int, int | bytes], number: int) -> int:
    value = message.get(number, 0)
    return value if isinstance(value, int) else 0


def _name(message: Mapping[int, int | bytes], number: int) -> str:
    value = message.get(number, b"")
    return value.decode(errors="replace") if isinstance(value, bytes) else ""
