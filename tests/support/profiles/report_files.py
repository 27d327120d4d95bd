"""Writes reports of Nsight Systems as `read/nsys/report_file.py` describes them: events in, bytes out."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

Value = int | bytes | Mapping[int, "Value | Sequence[Value]"]
Message = Mapping[int, "Value | Sequence[Value]"]

PROCESS = (1 << 48) + (77 << 24)
THREAD = PROCESS + 78
TEXTS = (b"", b"void gemm<float>(int)", b"gemm", b"_Z4gemm", b"cudaLaunchKernel", b"read", b"outer", b"main", b"other")
GPU: Message = {
    1: 0,
    2: b"NVIDIA H200",
    3: b"0000:06:00.0",
    5: b"uuid",
    10: 60 << 20,
    11: 150 << 30,
    14: 132,
    41: 9,
    42: 0,
}


def varint(value: int) -> bytes:
    value &= 2**64 - 1
    parts = bytearray()
    while value >= 128:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes((*parts, value))


def message(fields: Message) -> bytes:
    """Protobuf: a number is a varint, bytes and messages have their length before them, a list is a repeated field."""
    parts = []
    for number, given in fields.items():
        for value in given if isinstance(given, (list, tuple)) else (given,):
            if isinstance(value, int):
                parts.append(varint(number << 3) + varint(value))
            else:
                inside = value if isinstance(value, bytes) else message(value)
                parts.append(varint(number << 3 | 2) + varint(len(inside)) + inside)
    return b"".join(parts)


def lz4(plain: bytes) -> bytes:
    """A block without a match, but where a byte repeats for long."""
    run = next((at for at in range(len(plain) - 40) if plain[at : at + 40] == plain[at : at + 1] * 40), None)
    if run is None:
        return _literals(plain, 0)
    literals, rest = plain[: run + 1], plain[run + 40 :]
    return _literals(literals, 15) + b"\1\0" + bytes((39 - 4 - 15,)) + _literals(rest, 0)


def _literals(plain: bytes, match: int) -> bytes:
    if len(plain) < 15:
        return bytes((len(plain) << 4 | match,)) + plain
    more, last = divmod(len(plain) - 15, 255)
    return bytes((15 << 4 | match,)) + b"\xff" * more + bytes((last,)) + plain


def block(plain: bytes) -> bytes:
    packed = lz4(plain)
    return varint(len(packed)) + varint(len(plain)) + packed


def kernel(start: int, end: int, correlation: int = 1, name: int = 1, node: int | None = None) -> Message:
    shape = dict(zip(range(10, 16), (2, 1, 1, 64, 1, 1), strict=True))
    about = {1: name, 2: 2, 3: 3, **shape, 16: 0, 17: 512, 21: 32} | ({} if node is None else {27: node})
    return {1: 79, 107: {**on_gpu(start, end, correlation), 101: about}}


def copy(start: int, end: int, size: int, kind: int = 1, correlation: int = 2) -> Message:
    return {1: 80, 107: {**on_gpu(start, end, correlation), 102: {1: size, 2: kind, 4: 0, 5: 2}}}


def memset(start: int, end: int, size: int) -> Message:
    return {1: 80, 107: {**on_gpu(start, end, 3), 103: {1: size, 2: 0, 4: 2}}}


def on_gpu(start: int, end: int, correlation: int) -> Message:
    return {1: start, 2: end, 3: correlation, 4: 0, 5: 1, 6: 7, 8: PROCESS}


def call(start: int, end: int, correlation: int, name: int = 4, layer: int = 0, frames: Sequence[int] = ()) -> Message:
    return {
        1: 48,
        108: {
            1: start,
            2: end,
            3: correlation,
            6: layer,
            7: name,
            8: 0,
            13: THREAD,
            15: [{1: each} for each in frames],
        },
    }


def push_pop(start: int, end: int, text: bytes | int) -> Message:
    named: Message = {7: text} if isinstance(text, bytes) else {12: text}
    return {1: 59, 102: {1: 59, 2: start, 9: THREAD, 10: end, 13: 0, **named}}


def report(
    *blocks: Sequence[Message],
    texts: Sequence[bytes] = TEXTS,
    generic: Sequence[Message] = (),
    packing: bytes = b"lz4",
    version: bytes = b"2025.3.1.0",
    sections: Mapping[str, str] = {},
    since_boot: tuple[int, int] = (0, 0),
) -> bytes:
    """A whole report. `sections` renames some of them; `since_boot` is when the recording began and ended."""
    machine = message(
        {
            1: {1: b"Local (CLI)", 2: {1: [{1: 205, 2: b"580.1"}, {1: 611, 2: b"13000"}]}},
            2: {2: {1: [12, 123]}},
            17: since_boot[0],
            18: since_boot[1],
        }
    )
    counts = message({1: sum(map(len, blocks)), 3: len(texts), 9: packing})
    raw = varint(len(machine)) + machine + varint(len(counts)) + counts
    for number, events in enumerate(blocks):
        plain = message({1: list(events), 2: list(generic) if number == 0 else []})
        raw += block(varint(len(plain)) + plain)
    events_end = len(raw)
    plain = message({1: list(texts)})
    raw += block(varint(len(plain)) + plain)
    gpus = message({1: {1: 1 << 48, 2: {7: GPU, 9: {1: 0, 2: 0, 3: 77}}}})
    raw += varint(0) + varint(len(gpus)) + gpus
    whole = b"NVIDIA Tegra Profiler Report 1."
    directory: list[Message] = []
    parts = {
        "Analysis Options Data": b"options",
        "Raw Sampling Data": b"QDTEXT00" + raw,
        "Sampling Data Offsets": message({1: packing, 2: events_end}),
        "UI Data": message({6: version}),
    }
    for name, part in parts.items():
        directory.append({1: sections.get(name, name).encode(), 2: len(whole), 3: len(part)})
        whole += part
    return whole + message({1: directory}) + len(whole).to_bytes(8, "little") + b"U3w[END]"


def of_export(path: Path, block_rows: int = 200) -> bytes:
    """The kernels, copies, calls and ranges of an export as a report, as if one thread had called everything."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as database:
        there = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        strings = database.execute("SELECT id, value FROM StringIds ORDER BY id").fetchall()
        number = {given: at for at, (given, _) in enumerate(strings)}

        def rows(table: str, columns: str) -> list[tuple[Any, ...]]:
            return (
                database.execute(f"SELECT {columns} FROM {table} ORDER BY start").fetchall() if table in there else []
            )

        events = [
            *(
                kernel(start, end, correlation, number[name])
                for start, end, correlation, name in rows(
                    "CUPTI_ACTIVITY_KIND_KERNEL", "start, end, correlationId, demangledName"
                )
            ),
            *(copy(*told) for told in rows("CUPTI_ACTIVITY_KIND_MEMCPY", "start, end, bytes, copyKind, correlationId")),
            *(
                call(start, end, correlation, number[name])
                for start, end, correlation, name in rows(
                    "CUPTI_ACTIVITY_KIND_RUNTIME", "start, end, correlationId, nameId"
                )
            ),
            *(
                push_pop(start, end, (text or "").encode() if text_id is None else number[text_id])
                for start, end, text, text_id in rows("NVTX_EVENTS", "start, end, text, textId")
                if end is not None
            ),
        ]
    blocks = [events[at : at + block_rows] for at in range(0, len(events), block_rows)]
    return report(*blocks, texts=[value.encode() for _, value in strings])
