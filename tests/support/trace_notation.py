"""Traces that fit on one line: `trace("s0: 0-10 gemm", "s1: 5-15 nccl")`.

Each line is one kernel: stream, start, end and, if it matters, a name. For calls and ranges, columns are given by hand
to `table`, which fills in what a test does not care about.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuledger.trace.model import Gpu, NotMeasured, Origin, Process, Trace
from gpuledger.trace.strings import Strings
from gpuledger.trace.tables import NOT_RECORDED, Kind, Rows, Table

_LINE = re.compile(r"s(?P<stream>\d+): (?P<start>-?\d+)-(?P<end>-?\d+)(?: (?P<name>.+))?")


def table(which: Table, strings: Strings, count: int, **columns: Any) -> Rows:
    """A table of `count` rows; columns that are not given hold 0, or nothing where that makes more sense."""
    filled = {}
    for column in which.schema.columns:
        shape = (count, 3) if column.kind is Kind.TRIPLE else (count,)
        blank = NOT_RECORDED if column.kind is Kind.TEXT or column.name in ("end_tid", "parent", "stack") else 0
        given = columns.get(column.name, np.full(shape, blank))
        if column.kind is Kind.TEXT and len(given) and isinstance(given[0], str):
            given = [strings.code(text) for text in given]
        filled[column.name] = np.asarray(given, column.kind.dtype).reshape(shape)
    return Rows(which.schema, filled, strings)


def trace(*kernels: str) -> Trace:
    """A trace of kernels alone."""
    found = [_matched(line) for line in kernels]
    names = [match["name"] or "k" for match in found]
    strings = Strings(dict.fromkeys(names))
    rows = table(
        Table.KERNELS,
        strings,
        len(found),
        start_ns=[int(match["start"]) for match in found],
        end_ns=[int(match["end"]) for match in found],
        stream=[int(match["stream"]) for match in found],
        name=names,
    )
    return of_tables(strings, {Table.KERNELS: rows})


def of_tables(strings: Strings, tables: dict[Table, Rows], gpu: Gpu | str = "test GPU") -> Trace:
    """A trace of these tables; the others were not recorded."""
    absent = {each: NotMeasured(f"no {each.value}") for each in Table if each not in tables}
    origin = Origin(
        "test", "memory", gpus=(Gpu(gpu) if isinstance(gpu, str) else gpu,), processes=(Process(0, "test"),)
    )
    return Trace(origin, (), strings, tables, absent)


def _matched(line: str) -> re.Match[str]:
    match = _LINE.fullmatch(line)
    if match is None:
        raise ValueError(f"not a kernel: {line!r}")
    return match


def columns_of(rows: Rows, *names: str) -> list[tuple[Any, ...]]:
    """Some columns of a table as tuples, text spelled out."""
    texts: Sequence[Sequence[Any]] = [
        rows.texts(name) if rows.schema[name].kind is Kind.TEXT else rows[name].tolist() for name in names
    ]
    return list(zip(*texts, strict=True))
