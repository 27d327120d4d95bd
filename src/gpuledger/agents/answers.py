"""Small, clean answers: whatever a tool says in, what an agent is sent out; and the rows of a trace behind a finding.

An agent pays for every letter, so lists come in pages with the place where they go on, and names are cut. And it takes
what it reads for words: what a terminal would obey, or nobody sees, is spelled out, as everywhere.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from msgspec import Struct

from gpuledger.findings.finding import Finding
from gpuledger.findings.profiled_run import ProfiledRun
from gpuledger.present.safe_text import cut_in_the_middle, visible
from gpuledger.trace.model import os_pid
from gpuledger.trace.tables import Kind, Rows, Table

Json = dict[str, Any]

MOST_LETTERS: Final = 6_000  # of one answer's rows

LONGEST_TEXT: Final = 300  # of a name or a sentence


class OurWords(str):
    """A text of several lines that is part of the package: it is sent as it is."""

    __slots__ = ()


class AgentAnswer(Struct, frozen=True):
    """What one call of a tool gives: an object as JSON, and a picture where there is one."""

    content: Json
    picture: bytes | None = None  # a PNG file


def paged(rows: Sequence[Any], offset: int, limit: int, letters: int = MOST_LETTERS) -> Json:
    """The rows from `offset` on, as many as were asked for and fit; where they go on, if they do; and how many are."""
    shown: list[Any] = []
    left = letters
    for row in map(cleaned, rows[offset : offset + limit]):
        left -= len(written(row))
        if left < 0 and shown:
            break
        shown.append(row)
    after = offset + len(shown)
    return {"rows": shown, "total": len(rows), "next_offset": after if after < len(rows) else None}


def picked(content: Mapping[str, Any], *keys: str) -> Json:
    """Some of a document's keys, as it has them."""
    return {key: content[key] for key in keys}


def cleaned(content: Any) -> Any:
    """The same with every text made visible and cut, keys too: some are names from a profile."""
    if isinstance(content, OurWords):
        return content
    if isinstance(content, str):
        return cut_in_the_middle(visible(content), LONGEST_TEXT)
    if isinstance(content, Mapping):
        return {cleaned(str(key)): cleaned(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [cleaned(value) for value in content]
    return content


def written(content: Any) -> str:
    """JSON without spaces between."""
    return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


_TABLES: Final = {
    Table.CALLS: ("name", "pid", "tid"),
    Table.KERNELS: ("name", "gpu", "stream"),
    Table.COPIES: ("kind", "gpu", "stream", "bytes"),
}
"""Where correlations lead, and what is told of a row besides its times."""

_MOST_OF_ONE: Final = 3  # rows of one table with one correlation: a launch of a graph may have thousands


def evidence_rows(run: ProfiledRun, found: Finding, most: int) -> list[dict[str, Any]]:
    """Of the first piece of evidence that names launches or calls: what each is in the tables, `most` of them.

    Instants are told from the run's zero, as everywhere.
    """
    piece = next((piece for piece in found.evidence if piece.correlations), None)
    if piece is None:
        return []
    return [
        row
        for correlation in piece.correlations[:most]
        for table in _TABLES
        for row in _rows(run, table, piece.pid, correlation)
    ]


def _rows(run: ProfiledRun, table: Table, pid: int | None, correlation: int) -> list[dict[str, Any]]:
    rows = run.trace[table]
    here = rows["correlation"] == correlation
    if pid is not None:
        here &= rows["pid"] == pid
    return [
        {
            "table": table.value,
            "correlation": correlation,
            "start_ns": int(rows["start_ns"][position]) - run.zero_ns,
            "end_ns": int(rows["end_ns"][position]) - run.zero_ns,
            **{name: _value(rows, name, position) for name in _TABLES[table]},
        }
        for position in np.flatnonzero(here)[:_MOST_OF_ONE].tolist()
    ]


def _value(rows: Rows, name: str, position: int) -> int | str | None:
    value = int(rows[name][position])
    if name == "pid":
        return os_pid(value)
    return rows.strings.text(value) if rows.schema[name].kind is Kind.TEXT else value


HANDLE: Final = {"type": "string", "description": "What open_profile gave, e.g. p1."}
DEVICE: Final = {"type": "integer", "minimum": 0, "description": "Only GPU N. Default: the one to look at first."}
OFFSET: Final = {"type": "integer", "minimum": 0, "description": "Rows to leave out: the next_offset of an answer."}
LIMIT: Final = {"type": "integer", "minimum": 1, "maximum": 200, "description": "Most rows of a table."}


class AgentTool(Struct, frozen=True):
    """A function `(profiles, **arguments) -> AgentAnswer`; its name and docstring are the tool's."""

    answer: Callable[..., AgentAnswer]
    arguments: Mapping[str, Mapping[str, Any]]  # the JSON schema of each
    title: str
    required: tuple[str, ...] = ("handle",)

    @property
    def name(self) -> str:
        return self.answer.__name__

    @property
    def description(self) -> str:
        return inspect.cleandoc(self.answer.__doc__ or "")

    @property
    def schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {name: dict(schema) for name, schema in self.arguments.items()},
            "required": list(self.required),
            "additionalProperties": False,
        }
