"""What NCCL says of its own calls: NVTX ranges with payloads in, descriptions of collectives out.

NCCL marks each call with a range that carries its communicator, message size and peer; nsys stores the values if it is
told to: `nsys export --include-json=true`, or `--include-blobs=true`. What NCCL calls the message is what a rank gives,
but for a reduce-scatter and an all-to-all, where it is that part which goes to one rank. Calls between ncclGroupStart
and ncclGroupEnd are launched when the outermost group ends, so the range of that end describes them together.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from struct import Struct, calcsize, unpack_from
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpuledger.read.columns import NULL, StoredTables
from gpuledger.read.nsys.finish import Raw, TextCoder
from gpuledger.trace.deadline import check
from gpuledger.trace.model import PID_BITS
from gpuledger.trace.spans import Ints

PREFIX: Final = b"nccl"
_COMMUNICATOR, _MESSAGE = "NCCL communicator ID", "Message size [bytes]"
_RANKS, _RANK, _PEER = "No. of ranks", "Rank", "Peer rank"
_GROUP_START, _GROUP_END = "ncclGroupStart", "ncclGroupEnd"
_WHOLE: Final = frozenset(("ncclAllReduce", "ncclAllGather", "ncclBroadcast", "ncclBcast", "ncclReduce", "ncclSend"))
"""Calls whose message is all that a rank gives."""
_PARTS: Final = frozenset(("ncclReduceScatter", "ncclAlltoAll", "ncclAllToAll"))
"""Calls whose message is what a rank gives to each rank."""
_SCHEMAS: Final = "NVTX_PAYLOAD_SCHEMAS"
_ENTRIES: Final = "NVTX_PAYLOAD_SCHEMA_ENTRIES"
_WANTED: Final = frozenset((_COMMUNICATOR, _MESSAGE, _RANKS, _RANK, _PEER))
_FORMATS: Final = {5: "<i", 18: "<Q", 22: "<Q"}
"""NVTX's numbers of types: int, unsigned 64 bits, size_t."""
_HEAD: Final = Struct("<4Q")
_LONGEST: Final = 4096
_MOST_BYTES: Final = 1 << 48
_MOST_RANKS: Final = 1 << 24


class _NcclCall(NamedTuple):
    """A call, or what is launched together; `row` is whose times and thread it has."""

    row: int
    name: str
    communicator: int
    bytes: int
    peer: int


def collective_columns(
    export: StoredTables, coder: TextCoder, raw: Raw, keep: NDArray[np.bool_], table: str
) -> Raw | None:
    """The columns of our table of collectives; None where no call of NCCL has a payload."""
    said, number = _payloads(export, table, np.flatnonzero(keep))
    speaking = np.flatnonzero(np.isin(number, list(said)))
    if not len(speaking):
        return None
    inside = np.isin(raw["domain"], np.unique(raw["domain"][speaking])) & (raw["end_ns"] != NULL)
    names = _names(export, raw["name"][inside])
    chosen = np.flatnonzero(inside & np.isin(raw["name"], list(names)))
    payloads = [said.get(which) for which in number[chosen].tolist()]
    members = _members(raw, chosen, payloads)
    order = np.lexsort((chosen, raw["start_ns"][chosen], raw["tid"][chosen]))
    described: list[_NcclCall] = []
    for thread in np.split(order, np.flatnonzero(np.diff(raw["tid"][chosen[order]])) + 1):
        check()
        calls = [(int(chosen[call]), names[int(raw["name"][chosen[call]])], payloads[call]) for call in thread.tolist()]
        described += _launched(calls, int(raw["tid"][chosen[thread[0]]]) >> PID_BITS, members)
    return _as_columns(coder, raw, described, members)


def may_have_payloads(export: StoredTables) -> bool:
    """Whether any range was recorded with a payload."""
    return _SCHEMAS in export.tables


def has_layouts(export: StoredTables) -> bool:
    """Whether NCCL recorded payloads, even if the export left their values out."""
    return _describes_layouts(export) and _MESSAGE.encode() in export.texts(_ENTRIES, "name").distinct


def _describes_layouts(export: StoredTables) -> bool:
    return export.tables.get(_ENTRIES, frozenset()) >= {"name", "schemaId", "offset", "type"}


def _names(export: StoredTables, ids: Ints) -> dict[int, str]:
    """The functions of NCCL that occur, by the ids of their names."""
    used = np.unique(ids[ids >= 0]).tolist()
    stored = export.texts_by_id("StringIds", "id", "value", used)
    return {number: text.decode(errors="replace") for number, text in stored.items() if text.startswith(PREFIX)}


def _payloads(export: StoredTables, table: str, rows: Ints) -> tuple[dict[int, dict[str, Any]], Ints]:
    """The payloads of NCCL by number, and the number that each of these rows of nsys's table has.

    As JSON where the export has it, else as the bytes that NCCL wrote, of which the export has the layouts.
    """
    layouts = _layouts(export) if "binaryData" in export.tables[table] and _describes_layouts(export) else {}
    ways: tuple[tuple[str, Callable[[bytes], dict[str, Any] | None]], ...] = (
        ("jsonText", _parse),
        ("binaryData", lambda blob: _unpack(blob, layouts)),
    )
    for name, read in ways:
        if name in export.tables[table]:
            column = export.texts(table, name)
            payloads = {number: read(text) for number, text in enumerate(column.distinct)}
            if said := {number: payload for number, payload in payloads.items() if payload is not None}:
                return said, column.numbers[rows]
    return {}, np.full(len(rows), NULL, np.int64)


Layouts = dict[int, list[tuple[str, int, str]]]
"""By the number of a schema: names, where each value lies, and what it is, in the words of `struct`."""


def _layouts(export: StoredTables) -> Layouts:
    columns = export.integers(_ENTRIES, ["schemaId", "offset", "type"]).columns
    numbers = (values.tolist() for values in columns.values())
    layouts: Layouts = {}
    for name, schema, offset, kind in zip(export.texts(_ENTRIES, "name").rows(), *numbers, strict=True):
        text = (name or b"").decode(errors="replace")
        if text in _WANTED and kind in _FORMATS and (offset == NULL or 0 <= offset < _LONGEST):
            layouts.setdefault(schema, []).append((text, max(offset, 0), _FORMATS[kind]))
    return layouts


def _unpack(blob: bytes, layouts: Layouts) -> dict[str, Any] | None:
    """The values of one payload: how many there are, then of each its schema, its length, and where it lies."""
    if not _HEAD.size <= len(blob) <= _LONGEST:
        return None
    _, schema, size, begin = _HEAD.unpack_from(blob)
    values = blob[begin : begin + size] if begin < len(blob) else b""
    return {
        name: unpack_from(form, values, offset)[0]
        for name, offset, form in layouts.get(schema, ())
        if offset + calcsize(form) <= len(values)
    } or None


def _parse(text: bytes) -> dict[str, Any] | None:
    if len(text) > _LONGEST or not any(key.encode() in text for key in (_COMMUNICATOR, _MESSAGE)):
        return None
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return said if isinstance(said, dict) and not said.keys().isdisjoint((_COMMUNICATOR, _MESSAGE)) else None


def _number(said: dict[str, Any], key: str, most: int) -> int:
    value = said.get(key)
    return value if type(value) is int and 0 <= value < most else NULL


Members = dict[tuple[int, int], tuple[int, int]]
"""By process and communicator: how many ranks it has, and which of them the process is."""


def _members(raw: Raw, chosen: Ints, payloads: Sequence[dict[str, Any] | None]) -> Members:
    """What the calls that made or split communicators say of them."""
    members: Members = {}
    for row, said in zip(chosen.tolist(), payloads, strict=True):
        if said is not None and _number(said, _RANKS, _MOST_RANKS) > 0:
            key = (int(raw["tid"][row]) >> PID_BITS, _number(said, _COMMUNICATOR, 1 << 64))
            members[key] = (_number(said, _RANKS, _MOST_RANKS), _number(said, _RANK, _MOST_RANKS))
    return members


def _launched(
    calls: Sequence[tuple[int, str, dict[str, Any] | None]], process: int, members: Members
) -> Iterator[_NcclCall]:
    """What the calls of one thread launch, in the order of their start."""
    depth, grouped = 0, list[_NcclCall]()
    for row, name, said in calls:
        if name == _GROUP_START:
            grouped = grouped if depth else []
            depth += 1
        elif name == _GROUP_END:
            depth = max(depth - 1, 0)
            if not depth and grouped:
                yield _together(row, grouped, process, members)
                grouped = []
        elif said is not None and (size := _number(said, _MESSAGE, _MOST_BYTES)) != NULL:
            communicator, peer = _number(said, _COMMUNICATOR, 1 << 64), _number(said, _PEER, _MOST_RANKS)
            call = _NcclCall(row, name, communicator, size, peer)
            if depth:
                grouped.append(call)
            else:
                yield _together(row, [call], process, members)


def _together(row: int, calls: list[_NcclCall], process: int, members: Members) -> _NcclCall:
    """What is launched together: by name and size where all of it is of one kind and communicator."""
    names = {"ncclSendRecv" if call.name in ("ncclSend", "ncclRecv") else call.name for call in calls}
    communicators, peers = {call.communicator for call in calls}, {call.peer for call in calls}
    is_one = len(names) == 1 and len(communicators) == 1
    ranks, _ = members.get((process, calls[0].communicator), (NULL, NULL))
    given = [size for call in calls if (size := _bytes_given(call, ranks)) is not None]
    is_known = is_one and given and NULL not in given and sum(given) < _MOST_BYTES
    return _NcclCall(
        row,
        calls[0].name if len(calls) == 1 else names.pop() if len(names) == 1 else "",
        communicators.pop() if len(communicators) == 1 else NULL,
        sum(given) if is_known else NULL,
        peers.pop() if len(peers) == 1 else NULL,
    )


def _bytes_given(call: _NcclCall, ranks: int) -> int | None:
    """What a rank gives in a call; NULL where that is not known, None where it only gets something."""
    if call.name == "ncclRecv":
        return None
    if call.name in _PARTS:
        return call.bytes * ranks if ranks != NULL else NULL
    return call.bytes if call.name in _WHOLE else NULL


def _as_columns(coder: TextCoder, raw: Raw, made: Sequence[_NcclCall], members: Members) -> Raw:
    rows = np.array([call.row for call in made], np.intp)
    process = (raw["tid"][rows] >> PID_BITS).tolist()
    keys = zip(process, (call.communicator for call in made), strict=True)
    of_comm = [members.get(key, (NULL, NULL)) for key in keys]
    nothing = np.full(len(rows), NULL, np.int64)

    def texts(said: Sequence[str]) -> Ints:
        return np.array([coder.own(text) if text else NULL for text in said], np.int64)

    return {
        "start_ns": raw["start_ns"][rows],
        "end_ns": raw["end_ns"][rows],
        "tid": raw["tid"][rows],
        "correlation": nothing,
        "name": texts([call.name for call in made]),
        "group": texts([f"{call.communicator:#x}" if call.communicator != NULL else "" for call in made]),
        "ranks": nothing,
        "group_size": np.array([size for size, _ in of_comm], np.int64),
        "in_elements": nothing,
        "out_elements": nothing,
        "dtype": nothing,
        "bytes": np.array([call.bytes for call in made], np.int64),
        "rank": np.array([rank for _, rank in of_comm], np.int64),
        "peer": np.array([call.peer for call in made], np.int64),
    }
