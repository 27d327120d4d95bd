"""The tables of an export by NVIDIA's names, as views over ours: queries written for sqlite3 run as they are written.

`StringIds` gives every text its own text as id, so that `demangledName` is a name and joins as the number does. Where
SQLite and DuckDB differ, SQLite counts: `end` may be a column, 0x1000000 is a number, and 7 / 2 is 3.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final

_TIMES: Final = {"start": "start_ns", "end": "end_ns"}
_PID: Final = {"globalPid": "pid << 24"}
_TID: Final = {"globalTid": "(pid << 24) + tid"}
_WHERE: Final = {"deviceId": "gpu", "contextId": "context", "streamId": "stream", "correlationId": "correlation"}
_ON_GPU: Final = _TIMES | _WHERE | _PID
_CALLS: Final = _TIMES | _TID | {"correlationId": "correlation", "nameId": "name", "returnValue": "result"}
_COPY_KINDS: Final = {"Host-to-Device": 1, "Device-to-Host": 2, "Device-to-Device": 8, "Host-to-Host": 9}
_COPY_KIND: Final = " ".join(
    ("CASE kind", *(f"WHEN '{kind}' THEN {code}" for kind, code in _COPY_KINDS.items()), "END")
)
_EVENT_TYPE: Final = "CASE kind WHEN 'mark' THEN 34 WHEN 'start_end' THEN 60 ELSE 59 END"

_VIEWS: Final[Mapping[str, tuple[str, Mapping[str, str], str]]] = {
    "cupti_activity_kind_kernel": (
        "kernels",
        _ON_GPU
        | {"demangledName": "name", "shortName": "short_name", "mangledName": "mangled_name"}
        | {f"{what}{axis.upper()}": f"{what}_{axis}" for what in ("grid", "block") for axis in "xyz"}
        | {"registersPerThread": "registers", "staticSharedMemory": "smem_static_bytes"}
        | {"dynamicSharedMemory": "smem_dynamic_bytes", "graphId": "graph", "graphNodeId": "graph_node"},
        "TRUE",
    ),
    "cupti_activity_kind_memcpy": ("copies", _ON_GPU | {"bytes": "bytes", "copyKind": _COPY_KIND}, "kind <> 'Memset'"),
    "cupti_activity_kind_memset": ("copies", _ON_GPU | {"bytes": "bytes"}, "kind = 'Memset'"),
    "cupti_activity_kind_graph_trace": ("graphs", _ON_GPU | {"graphId": "graph", "graphExecId": "graph_exec"}, "TRUE"),
    "cupti_activity_kind_synchronization": ("syncs", _ON_GPU, "TRUE"),
    "cupti_activity_kind_runtime": ("calls", _CALLS, "layer IN ('runtime', 'driver')"),
    "osrt_api": ("calls", _CALLS, "layer = 'os'"),
    "nvtx_events": (
        "ranges",
        _TIMES | _TID | {"text": "name", "textId": "NULL", "eventType": _EVENT_TYPE, "domainId": "domain"},
        "kind IN ('push_pop', 'start_end', 'mark')",
    ),
}
"""By NVIDIA's name: our table, what each of its columns is of ours, and which rows."""

_TEXTS: Final = {"kernels": ("name", "short_name", "mangled_name"), "calls": ("name",), "ranges": ("name",)}
STRINGS, COPY_OPERATIONS = "stringids", "enum_cuda_memcpy_oper"
NAMES: Final = frozenset((*_VIEWS, STRINGS, COPY_OPERATIONS))

_WORD: Final = re.compile(r"[A-Za-z_]\w*")


def columns_of_ours(names: Collection[str], asked: Collection[str], whole: Collection[str]) -> dict[str, set[str]]:
    """Of each of our tables, the columns that these tables need for columns of theirs, in lower case."""
    needed: dict[str, set[str]] = {}
    for name in names & _VIEWS.keys():
        table, columns, condition = _VIEWS[name]
        wanted = [ours for theirs, ours in columns.items() if name in whole or theirs.lower() in asked]
        needed.setdefault(table, set()).update(_WORD.findall(" ".join((*wanted, condition))))
    if STRINGS in names:
        for table in needed.keys() & _TEXTS.keys():
            needed[table].update(_TEXTS[table])
    return needed


def views(names: Collection[str], held: Mapping[str, Collection[str]]) -> Iterator[str]:
    """What makes these tables, where ours have these columns; whole numbers are divided as SQLite does."""
    if names:
        yield "SET integer_division = true"
    for name in sorted(names & _VIEWS.keys()):
        table, columns, condition = _VIEWS[name]
        shown = [
            f'{ours} AS "{theirs}"'
            for theirs, ours in columns.items()
            if set(_WORD.findall(re.sub(r"'[^']*'|[A-Z]+", "", ours))) <= set(held[table])
        ]
        yield f'CREATE VIEW "{name}" AS SELECT {", ".join(shown)} FROM "{table}" WHERE {condition}'
    if STRINGS in names:
        columns_of = [(table, column) for table in _TEXTS if table in held for column in _TEXTS[table]]
        texts = " UNION ".join(f'SELECT "{column}" FROM "{table}"' for table, column in columns_of) or "SELECT NULL"
        every = f"({texts}) AS texts(text) WHERE text IS NOT NULL"
        yield f'CREATE VIEW "{STRINGS}" AS SELECT DISTINCT text AS id, text AS value FROM {every}'
    if COPY_OPERATIONS in names:
        rows = ", ".join(f"({code}, '{label}', '{label}')" for label, code in _COPY_KINDS.items())
        yield f'CREATE VIEW "{COPY_OPERATIONS}" AS SELECT * FROM (VALUES {rows}) AS kinds(id, name, label)'


_TOKEN: Final = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/|\w+|\S", re.DOTALL)
_BEFORE_OPERAND: Final = re.compile(
    r"[^\w'\")]|(?:select|distinct|where|and|or|not|when|then|else|case|on|by|having|between|in|like|is|as)?$"
)
"""After these a value comes, so that no CASE ends there."""


def from_sqlite(sql: str) -> str:
    """The same for DuckDB: `end` in quotes wherever it is a column, as where a value is expected; no hexadecimals."""
    pieces: list[str] = []
    last, before, cases = 0, "", 0
    for token in _TOKEN.finditer(sql):
        word = token[0].lower()
        if word == "end":
            is_column = bool(_BEFORE_OPERAND.match(before)) or not cases
            cases -= not is_column
            word = '"end"' if is_column else word
        elif re.fullmatch(r"0x[0-9a-f]{1,15}", word):
            word = str(int(word, 16))
        if word != token[0].lower():
            pieces += (sql[last : token.start()], word)
            last = token.end()
        cases += word == "case"
        if not word.startswith(("--", "/*")):
            before = word
    return "".join((*pieces, sql[last:]))
