"""Small, clean answers: whatever a tool says in, what an agent is sent out; and the rows of a trace behind a finding.

An agent pays for every letter, so lists come in pages with the place where they go on, and names are cut. And it takes
what it reads for words: what a terminal would obey, or nobody sees, is spelled out, as everywhere.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, get_args, get_origin

import numpy as np
from msgspec import Struct

from gpuledger.errors import GpuledgerError
from gpuledger.findings.finding import Finding
from gpuledger.findings.profiled_run import ProfiledRun
from gpuledger.present.safe_text import cut_in_the_middle, visible
from gpuledger.trace.model import os_pid
from gpuledger.trace.tables import Kind, Rows, Table
from gpuledger.verbs.definition import Option, OptionsInOrder, VerbParameter, parameters_of

if TYPE_CHECKING:
    from gpuledger.agents.profiles import AgentProfiles

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


Handle = Annotated[str, Option("What open_profile gave, e.g. p1.")]
Gpu = Annotated[int | None, Option("Only GPU N. Default: the one to look at first.", least=0)]
Offset = Annotated[int, Option("Rows to leave out: the next_offset of an answer.", least=0)]
Limit = Annotated[int, Option("Most rows of a table.", least=1, most=200)]

_TYPES: Final = {bool: "boolean", int: "integer", float: "number"}
_MOST_VALUES: Final = 20


class AgentTool(Struct, frozen=True):
    """A function `(profiles, **arguments) -> AgentAnswer`, with its description and argument schema for agents."""

    answer: Callable[..., AgentAnswer]
    title: str
    name: str
    description: str
    parameters: tuple[VerbParameter, ...]

    @property
    def schema(self) -> Json:
        return {
            "type": "object",
            "properties": {parameter.name: _schema(parameter) for parameter in self.parameters},
            "required": [parameter.name for parameter in self.parameters if parameter.is_required],
            "additionalProperties": False,
        }

    def ask(self, profiles: AgentProfiles, given: Mapping[str, Any]) -> AgentAnswer:
        """What it answers. Arguments that a command line would parse are given, and parsed, as there."""
        parse = {parameter.name: parsing_of(parameter) for parameter in self.parameters}
        try:
            return self.answer(profiles, **{name: parse[name](value) for name, value in given.items()})
        except ValueError as error:
            raise GpuledgerError(str(error)) from None


def tool_of(answer: Callable[..., AgentAnswer], title: str, *more: VerbParameter) -> AgentTool:
    """The tool of a function: its name, its docstring, its parameters and `more`, which it takes as `**`."""
    parameters = [parameter for parameter in parameters_of(answer) if parameter.said is not None]
    description = inspect.cleandoc(answer.__doc__ or "")
    return AgentTool(answer, title, answer.__name__, description, (*parameters, *more))


def parsing_of(parameter: VerbParameter) -> Callable[[Any], Any]:
    """What makes the value of a parameter from that of an argument."""
    if isinstance(parameter.said, OptionsInOrder):
        return lambda words: [_change(parameter.said.options, word) for word in words]
    parse = parameter.said.parse
    if get_origin(parameter.kind) is tuple:
        return lambda values: tuple(values if parse is None else map(parse, values))
    return (lambda value: value) if parse is None else lambda value: parse(str(value))


def _change(options: Mapping[str, Option], word: str) -> tuple[str, Any]:
    name, _, value = word.partition("=")
    if name not in options:
        raise ValueError(f"{word!r}: there are {', '.join(f'{option}=' for option in options)}")
    parse = options[name].parse
    return name, value if parse is None else parse(value)


def _schema(parameter: VerbParameter) -> Json:
    kind, said = parameter.kind, parameter.said
    if isinstance(said, OptionsInOrder):
        told = (f"{name}={option.metavar}: {option.help}" for name, option in said.options.items())
        words = {"type": "string"}
        return {"type": "array", "items": words, "maxItems": _MOST_VALUES, "description": " ".join(told)}
    if get_origin(kind) is tuple:
        inside = VerbParameter("", str if said.parse else get_args(kind)[0], said._replace(help="", most=None))
        most = int(said.most or _MOST_VALUES)
        least = {"minItems": 1} if parameter.is_required else {}
        return {"type": "array", "items": _schema(inside), **least, "maxItems": most, "description": said.help}
    if get_origin(kind) is Literal:
        schema: Json = {"enum": list(get_args(kind))}
    elif kind in _TYPES:
        schema = {"type": _TYPES[kind] if said.parse is None else [_TYPES[kind], "string"]}
        schema |= {"minimum": said.least, "maximum": said.most}
    else:
        schema = {"type": "string", "maxLength": said.most}
    return {name: value for name, value in (schema | {"description": said.help}).items() if value not in (None, "")}
