"""Small traces as text, and tables by hand. tests/cases/README.md has the notation.

called("0-10 cudaLaunchKernel -> s7: 12-30 gemm", "40-50 cudaMalloc")     in microseconds
trace("s0: 0-10 gemm", "s1: 5-15 nccl")                                  in nanoseconds
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from msgspec.structs import replace

from gpuledger.analyse.memory.figures import TO_DEVICE
from gpuledger.messages import say
from gpuledger.trace.model import Gpu, Note, NotMeasured, Origin, Process, Severity, Trace
from gpuledger.trace.spans import depths, parents
from gpuledger.trace.strings import Stacks, Strings
from gpuledger.trace.tables import NOT_RECORDED, Kind, Rows, Table

Given = Mapping[str, Any]


def table(which: Table, strings: Strings, count: int, **columns: Any) -> Rows:
    """A table of `count` rows; columns that are not given hold 0, or nothing where that makes more sense."""
    filled = {}
    for column in which.schema.columns:
        shape = (count, 3) if column.kind is Kind.TRIPLE else (count,)
        given = columns.get(column.name, np.full(shape, _blank(column.kind, column.name)))
        if column.kind is Kind.TEXT and len(given) and isinstance(given[0], str):
            given = [strings.code(text) for text in given]
        filled[column.name] = np.asarray(given, column.kind.dtype).reshape(shape)
    return Rows(which.schema, filled, strings)


def _blank(kind: Kind, name: str) -> int:
    return NOT_RECORDED if kind is Kind.TEXT or name in ("end_tid", "parent", "stack") else 0


def of_tables(strings: Strings, tables: dict[Table, Rows], gpu: Gpu | str = "test GPU") -> Trace:
    """A trace of these tables; the others were not recorded."""
    absent = {each: NotMeasured(f"no {each.value}") for each in Table if each not in tables}
    origin = Origin(
        "test", "memory", gpus=(Gpu(gpu) if isinstance(gpu, str) else gpu,), processes=(Process(0, "test"),)
    )
    return Trace(origin, (), strings, tables, absent)


def with_health(made: Trace, codes: Iterable[str]) -> Trace:
    """The trace with notes of what a reader lost."""
    return replace(
        made, health=tuple(Note(Severity.LOSS, code, say("work starts before its launch")) for code in codes)
    )


def columns_of(rows: Rows, *names: str) -> list[tuple[Any, ...]]:
    """Some columns of a table as tuples, text spelled out."""
    texts: Sequence[Sequence[Any]] = [
        rows.texts(name) if rows.schema[name].kind is Kind.TEXT else rows[name].tolist() for name in names
    ]
    return list(zip(*texts, strict=True))


def trace(*lines: str, **known: Any) -> Trace:
    """A trace in nanoseconds, of kernels at least."""
    return traced("\n".join(("in ns", *lines)), **known)


def called(*lines: str) -> Trace:
    """A trace in microseconds, with a table of calls even if it is empty."""
    return traced("\n".join((*lines, "tables calls kernels")))


# lines, loops and values


@dataclass
class Statement:
    """A line, or a header with what stands under it."""

    text: str
    body: list[Statement] = field(default_factory=list)


_HEADER = re.compile(
    r"(?P<head>(?:\{.+?\}|\S+) times(?: every \S+)?|for \w+ in .+?|range .+?|unrecorded):"
    r"(?: +(?P<rest>.+))?$"
)
_LOOP = re.compile(r"(?:(?P<count>\S+) times|for (?P<name>\w+) in (?P<values>.+?))(?: every (?P<every>\S+))?")
_UNITS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_SIZES = {"kB": 1_000, "MB": 1_000_000, "GB": 1_000_000_000}


def statements(text: str) -> list[Statement]:
    """The lines of a block, by their indentation; `#` begins a comment."""
    root = Statement("")
    open_at = [(-1, root)]
    for line in text.splitlines():
        bare = re.sub(r"(^|\s+)# .*$", "", line).rstrip()
        if not bare.strip():
            continue
        indent = len(bare) - len(bare.lstrip())
        while open_at[-1][0] >= indent:
            open_at.pop()
        open_at.append((indent, _on_one_line(bare.strip(), open_at[-1][1].body)))
    return root.body


def _on_one_line(line: str, into: list[Statement]) -> Statement:
    """Statements between semicolons: what follows a header is its body, up to `end`. Returns what may have more."""
    bodies, who, last, rest = [into], "", Statement(line), line
    while rest:
        if header := _HEADER.match(rest):
            last, rest = Statement(header["head"]), header["rest"] or ""
            bodies[-1].append(last)
            bodies.append(last.body)
            continue
        text, _, rest = (part.strip(" ;") for part in rest.partition("; "))
        if text == "end":
            bodies.pop()
            if not bodies:
                raise ValueError(f"`end` closes nothing: {line!r}")
        if text in ("end", ""):
            continue
        named = _WHO.match(text)
        who = named[0] if named else who
        bodies[-1].append(Statement(text if named else who + text))
    return last


def _unknown_header(head: str) -> AbstractContextManager[None]:
    raise ValueError(f"{head!r} stands around nothing here")


def run(
    block: Iterable[Statement],
    does: Callable[[str, int], None],
    within: Callable[[str], AbstractContextManager[None]] = _unknown_header,
    known: Given | None = None,
    at_ns: int = 0,
) -> None:
    """Go through a block: `does` takes a line and by how much a loop moves it, `within` stands for other headers."""
    known = dict(known or {})
    for statement in block:
        text = filled(statement.text, known)
        if not statement.body:
            does(text, at_ns)
        elif loop := _LOOP.fullmatch(text):
            every = time_ns(loop["every"], known["unit_ns"]) if loop["every"] else 0
            values = loop["values"].split(" ") if loop["name"] else range(int(loop["count"]))
            for round_, value in enumerate(values):
                bound = {loop["name"] or "n": number_or_text(value)}
                bound |= {} if loop["name"] else {"m": known.get("n")}
                run(statement.body, does, within, {**known, **bound}, at_ns + round_ * every)
        else:
            with within(text):
                run(statement.body, does, within, known, at_ns)


def number_or_text(value: Any) -> Any:
    is_number = isinstance(value, int) or re.fullmatch(r"-?\d+(\.\d+)?", value) is not None
    return value if isinstance(value, int) or not is_number else float(value) if "." in value else int(value)


def filled(text: str, known: Given) -> str:
    """`{name}` and `{a + b}` by their values."""

    def value(match: re.Match[str]) -> str:
        return str(eval(match[1], {"__builtins__": {"round": round, "str": str}}, dict(known)))  # noqa: S307

    return re.sub(r"\{([^{}]+)\}", value, text)


def time_ns(text: str, unit_ns: int) -> int:
    """`12`, `1.5ms`."""
    match = re.fullmatch(r"(-?[\d.]+)(ns|us|ms|s)?", text)
    if match is None:
        raise ValueError(f"not a time: {text!r}")
    return round(float(match[1]) * (_UNITS[match[2]] if match[2] else unit_ns))


def number(text: str) -> int:
    """`-1`, `400MB`."""
    match = re.fullmatch(r"(-?[\d.]+)(kB|MB|GB)?", text)
    if match is None:
        raise ValueError(f"not a number: {text!r}")
    return round(float(match[1]) * _SIZES.get(match[2], 1))


def gpu_of(text: str) -> Gpu:
    """`NVIDIA H200 sm_count=132 compute_capability=9.0`."""
    given = dict(re.findall(r" (\w+)=(\S+)", text))
    more: dict[str, Any] = {
        key: tuple(map(int, value.split("."))) if key == "compute_capability" else number(value)
        for key, value in given.items()
    }
    return Gpu(re.sub(r" \w+=\S+", "", text), **more)


# traces

_WHO = re.compile(
    r"(?:p(?P<pid>\d+) )?(?:gpu(?P<gpu>\d+) )?(?:(?P<what>ranges|ops|python|samples|collectives|counter .+?) ?)?"
    r"(?:t(?P<tid>\d+)|s(?P<stream>\d+))?: "
)
_TIMES = re.compile(r"(?P<start>-?[\d.]+(?:ns|us|ms|s)?)-(?P<end>-?[\d.]+(?:ns|us|ms|s)?)(?: (?P<rest>.*))?")
_RAN = re.compile(r" -> (?=(?:gpu\d+ )?s\d+: )")
_KINDS = {"ranges": "push_pop", "ops": "op", "python": "python"}
_SHORT = {"launch": "cudaLaunchKernel", "sync": "cudaDeviceSynchronize"}
_MORE = ("blocks", "memory", "stack")


class TraceText:
    """What the lines of a trace say, as rows of tables."""

    def __init__(self, unit_ns: int) -> None:
        self.unit_ns = unit_ns
        self.rows: dict[Table, list[dict[str, Any]]] = {}
        self.about: dict[str, list[str]] = {}

    def add(self, line: str, at_ns: int) -> None:
        """One line: who did it, and what."""
        about = re.match(r"(gpu|process|tool|health|tables) (?!s\d)", line)
        if about is not None:
            self.about.setdefault(about[1], []).append(line[about.end() :])
            return
        who = _WHO.match(line)
        text = line if who is None else line[who.end() :]
        given = {} if who is None else {key: who[key] for key in ("pid", "gpu", "tid", "stream") if who[key]}
        what = None if who is None else who["what"]
        common = {key: int(value) for key, value in given.items()}
        if what == "samples":
            self._samples(text, common, at_ns)
        elif what is not None and what.startswith("counter"):
            self._counter(what.removeprefix("counter "), text, at_ns)
        elif what == "collectives":
            self.rows.setdefault(Table.COLLECTIVES, []).append(self._row(Table.COLLECTIVES, text, common, at_ns))
        elif what is not None:
            row = self._row(Table.RANGES, text, {"kind": _KINDS[what], "domain": ""} | common, at_ns)
            self.rows.setdefault(Table.RANGES, []).append(row)
        elif "stream" in common:
            self._work(text, common, at_ns)
        else:
            self._call(text, common, at_ns)

    def _call(self, text: str, common: dict[str, Any], at_ns: int) -> None:
        call, *ran = _RAN.split(text)
        calls = self.rows.setdefault(Table.CALLS, [])
        row = self._row(Table.CALLS, call, {"tid": 0, "correlation": len(calls) + 1} | common, at_ns)
        row["name"] = _SHORT.get(row["name"], row["name"])
        row.setdefault("layer", "os" if row["name"].islower() else "runtime")
        calls.append(row)
        for each in ran:
            who = _WHO.match(each)
            assert who is not None
            given = {key: int(who[key]) for key in ("gpu", "stream") if who[key]}
            pid = {key: common[key] for key in ("pid",) if key in common}
            self._work(each[who.end() :], {"correlation": row["correlation"]} | pid | given, at_ns)

    def _work(self, text: str, common: dict[str, Any], at_ns: int) -> None:
        name = (_TIMES.fullmatch(text) or {"rest": ""})["rest"] or ""
        is_copy = re.match(r"[\w ]+-to-\w+|Memset|odd|-(?= )", name) is not None
        which = Table.COPIES if is_copy else Table.GRAPHS if name.startswith("whole graph") else Table.KERNELS
        row = self._row(which, text, {"graph_node": -1} | common, at_ns)
        if is_copy:
            row["kind"], host = row.pop("name"), row.pop("memory", None)
            sides = (host, "Device") if row["kind"] in TO_DEVICE else ("Device", host)
            row["kind"] = -1 if row["kind"] == "-" else row["kind"]
            row |= {side: memory for side, memory in zip(("src_kind", "dst_kind"), sides, strict=True) if memory}
        elif which is Table.GRAPHS:
            del row["name"], row["graph_node"]
        self.rows.setdefault(which, []).append(row)

    def _row(self, which: Table, text: str, common: dict[str, Any], at_ns: int) -> dict[str, Any]:
        """`10-20 name key=value`: what a row holds."""
        times = _TIMES.fullmatch(text)
        if times is None:
            raise ValueError(f"expected START-END NAME, got {text!r}")
        start, end = (at_ns + time_ns(times[side], self.unit_ns) for side in ("start", "end"))
        row, name = {"start_ns": start, "end_ns": end} | common, f" {times['rest'] or ''}"
        known = {column.name: column.kind for column in which.schema.columns}
        while more := re.search(r" (\w+)=(\[.*?\]|\S+)$", name):
            if more[1] not in (*known, *_MORE):
                break
            name, key, value = name[: more.start()], more[1], more[2].strip("[]")
            if key == "blocks" and which is Table.KERNELS:
                row |= {"grid": (number(value), 1, 1), "block": (256, 1, 1)}
            elif key in known and known[key] is Kind.TRIPLE:
                row[key] = tuple(number(part) for part in value.split(","))
            elif key == "stack":
                row["stack"] = tuple(value.split(" < "))
            elif key == "memory" or known[key] is Kind.TEXT:
                row[key] = -1 if value == "-" else value
            else:
                row[key] = number(value)
        return row | {"name": name.strip() or "k"}

    def _samples(self, text: str, common: dict[str, Any], at_ns: int) -> None:
        match = re.fullmatch(r"(\S+?)-(\S+) every (\S+) (.+)", text)
        if match is None:
            raise ValueError(f"expected START-END every PERIOD FUNCTION < CALLER, got {text!r}")
        start, end, period = (time_ns(match[place], self.unit_ns) for place in (1, 2, 3))
        stack = {"source": "python", "stack": tuple(match[4].split(" < "))}
        self.rows.setdefault(Table.SAMPLES, []).extend(
            {"start_ns": at_ns + at, "end_ns": at_ns + at} | stack | common for at in range(start, end, period)
        )

    def _counter(self, name: str, text: str, at_ns: int) -> None:
        stamp, value = text.split(" ")
        at = at_ns + time_ns(stamp, self.unit_ns)
        row = {"start_ns": at, "end_ns": at, "name": name, "value": number(value)}
        self.rows.setdefault(Table.METRICS, []).append(row)

    def trace(self) -> Trace:
        """All of it."""
        wanted = {Table(name) for line in self.about.get("tables", ()) for name in line.split()}
        rows = {Table.KERNELS: [], **{which: [] for which in wanted}, **self.rows}
        stacks = list(dict.fromkeys(row["stack"] for each in rows.values() for row in each if "stack" in row))
        texts = [value for each in rows.values() for row in each for value in row.values() if isinstance(value, str)]
        strings = Strings(dict.fromkeys((*texts, *(frame for stack in stacks for frame in stack))))
        tables = {which: self._table(which, strings, each, stacks) for which, each in rows.items()}
        made = of_tables(strings, tables, gpu_of(self.about.get("gpu", ["test GPU"])[-1]))
        frames = [strings.code(frame) for stack in stacks for frame in stack]
        offsets = np.cumsum([0, *map(len, stacks)])
        processes = tuple(Process(pid, name) for pid, name in enumerate(self.about.get("process", ["test"])))
        origin = replace(made.origin, tool=self.about.get("tool", ["test"])[-1], processes=processes)
        if stacks:
            made = replace(made, stacks=Stacks(offsets.astype(np.int64), np.array(frames, np.int32)))
        return with_health(replace(made, origin=origin), self.about.get("health", ()))

    def _table(self, which: Table, strings: Strings, rows: list[dict[str, Any]], stacks: list[tuple[str, ...]]) -> Rows:
        columns: dict[str, Any] = {}
        for column in which.schema.columns:
            blank = (0, 0, 0) if column.kind is Kind.TRIPLE else _blank(column.kind, column.name)
            values = [row.get(column.name, blank) for row in rows]
            if column.name == "stack":
                values = [stacks.index(value) if isinstance(value, tuple) else value for value in values]
            if column.kind is Kind.TEXT:
                values = [strings.code(value) if isinstance(value, str) else value for value in values]
            columns[column.name] = values
        if which is Table.RANGES:
            columns["parent"] = _enclosing(columns)
            columns["depth"] = depths(columns["parent"])
        return table(which, strings, len(rows), **columns)


def _enclosing(ranges: Mapping[str, Any]) -> Any:
    """Of each range the one of its kind and thread that directly encloses it."""
    start, end, kind, pid, tid = (
        np.array(ranges[name], np.int64) for name in ("start_ns", "end_ns", "kind", "pid", "tid")
    )
    parent = np.full(len(start), -1)
    for each in np.unique(kind):
        mine = np.flatnonzero(kind == each)
        up = parents(start[mine], end[mine], pid[mine] * 1_000 + tid[mine])
        parent[mine] = np.where(up >= 0, mine[up], -1)
    return parent


def traced(text: str, unit_ns: int = 1_000, **known: Any) -> Trace:
    """The trace that a block describes."""
    if text.startswith("in "):
        unit, _, text = text.removeprefix("in ").partition("\n")
        unit_ns = _UNITS[unit.strip()]
    made = TraceText(unit_ns)
    run(statements(text), made.add, known={"unit_ns": unit_ns, **known})
    return made.trace()
