"""What an nsys export says about itself: tool, versions, GPUs, processes, and nsys's own warnings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from gpuledger.read.nsys import schema as schema
from gpuledger.read.nsys.container import NULL, NsysExport
from gpuledger.trace.columns import distinct
from gpuledger.trace.health import Note, Severity
from gpuledger.trace.model import PID_BITS, Gpu, Origin, Private, Process
from gpuledger.trace.tables import Rows, Table

_SEVERITY_WARNING, _SEVERITY_ERROR = 2, 3

_CAPTURE_OUTCOME = "Number of "
"""How nsys begins its counts of events; they are reported as warnings by some versions, and are none."""


def describe(export: NsysExport, tables: Mapping[Table, Rows], gpus: tuple[Gpu, ...]) -> Origin:
    """Everything but the events."""
    exported = _pairs(export, "META_DATA_EXPORT") or _pairs(export, "EXPORT_META_DATA")
    captured = _pairs(export, "META_DATA_CAPTURE")
    system = _pairs(export, "TARGET_INFO_SYSTEM_ENV")
    product = exported.get("EXPORT_PRODUCT_VERSION", [None])[0]
    started = text_rows(export, _STARTED, ("utcTime",))
    return Origin(
        tool="nsys",
        container=export.container,
        tool_version=_trimmed(product),
        schema_version=exported.get("EXPORT_SCHEMA_VERSION", [None])[0],
        started_utc=started[0]["utcTime"] if started else None,
        driver_version=_driver_version(system.get("NvDriverVersion", [None])[0]),
        cuda_version=_cuda_version(system.get("CudaDriverVersion", [None])[0]),
        asked_for=tuple(sorted(captured["CAPTURE_EVENT_TYPE"])) if "CAPTURE_EVENT_TYPE" in captured else None,
        gpus=gpus,
        processes=_processes(export, tables),
        rank=_from_environment(captured, _RANK),
        world_size=_from_environment(captured, _WORLD_SIZE),
        capture=_capture(export, system),
        source_rows=tuple((name, export.count(name)) for name in sorted(export.tables) if schema.holds_events(name)),
        decoding=export.decoding,
        private=_private(captured, system),
    )


_STARTED: Final = "TARGET_INFO_SESSION_START_TIME"


def _capture(export: NsysExport, system: Mapping[str, list[str]]) -> str | None:
    """The host and when the capture began: no two of a host do in the same nanosecond."""
    started = text_rows(export, _STARTED, (), integers=("utcEpochNs",))
    if not started or started[0]["utcEpochNs"] is None:
        return None
    return f"{system.get('Hostname', [''])[0]} {started[0]['utcEpochNs']}"


_RANK: Final = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
_WORLD_SIZE: Final = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS")


def _from_environment(captured: Mapping[str, list[str]], names: tuple[str, ...]) -> int | None:
    """A number that the launcher gave to the process, by the first of these variables that nsys recorded."""
    given = [value for key, values in captured.items() if "ENVIRONMENT" in key for value in values]
    for name in names:
        for value in given:
            variable, _, text = value.partition("=")
            if variable == name and text.strip('"').isdecimal() and len(text) < 9:
                return int(text.strip('"'))
    return None


def _trimmed(version: str | None) -> str | None:
    """nsys prints three parts of its version, and the export stores a fourth, the build: 2025.3.2.0 -> 2025.3.2."""
    return ".".join(version.split(".")[:3]) if version else None


def _cuda_version(number: str | None) -> str | None:
    """13000 -> 13.0."""
    return f"{int(number) // 1000}.{int(number) % 1000 // 10}" if number and number.isdecimal() else None


def _driver_version(text: str | None) -> str | None:
    """Before 2023 nsys left the points out: 5303002 -> 530.30.02."""
    return f"{text[:3]}.{text[3:5]}.{text[5:]}" if text and text.isdecimal() and len(text) > 5 else text


def _private(captured: Mapping[str, list[str]], system: Mapping[str, list[str]]) -> Private:
    command = captured.get("PROCESS_0:COMMAND", [])
    arguments = [key for key in captured if key.startswith("PROCESS_0:ARGUMENT_")]
    arguments.sort(key=lambda key: int(key.rpartition("_")[2]) if key.rpartition("_")[2].isdecimal() else -1)
    environment = [
        (key, value)
        for source in (captured, system)
        for key, values in source.items()
        for value in values
        if "ENV" in key.upper() and value
    ]
    host = system.get("Hostname", [None])[0]
    return Private(tuple(command + [captured[key][0] for key in arguments]), host, tuple(environment))


def _processes(export: NsysExport, tables: Mapping[Table, Rows]) -> tuple[Process, ...]:
    """The processes that some event belongs to, with their names where the export lists them."""
    seen: set[int] = set()
    for rows in tables.values():
        if "pid" in rows:
            seen.update(distinct(rows["pid"]).tolist())
    seen.discard(-1)
    names: dict[int, str] = {}
    for row in text_rows(export, "PROCESSES", ("name",), integers=("pid",)):
        names[row["pid"]] = row["name"]
    return tuple(Process(pid, names.get(pid & (1 << PID_BITS) - 1)) for pid in sorted(seen))


def _pairs(export: NsysExport, table: str) -> dict[str, list[str]]:
    """A table of names and values; a name may come several times."""
    values: dict[str, list[str]] = {}
    for row in text_rows(export, table, ("name", "value")):
        values.setdefault(row["name"], []).append(row["value"])
    return values


def text_rows(
    export: NsysExport, table: str, texts: Iterable[str], integers: Iterable[str] = ()
) -> list[dict[str, Any]]:
    """A small descriptive table as one dict a row: text as str ('' for NULL), integers as int or None.

    No rows if the table, or one of the columns, is not there.
    """
    texts, integers = tuple(texts), tuple(integers)
    if not export.tables.get(table, frozenset()) >= {*texts, *integers}:
        return []
    columns: dict[str, list[Any]] = {
        name: [(value or b"").decode(errors="backslashreplace") for value in export.texts(table, name).rows()]
        for name in texts
    }
    if integers:
        for name, values in export.integers(table, integers).columns.items():
            columns[name] = [None if value == NULL else value for value in values.tolist()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def diagnostics(export: NsysExport) -> tuple[Note, ...]:
    """What nsys itself warned about while it captured, each sentence once."""
    counts: dict[tuple[int, str], int] = {}
    for row in text_rows(export, "DIAGNOSTIC_EVENT", ("text",), integers=("severity",)):
        sentence = " ".join(row["text"].split()).rstrip(".")
        if row["severity"] in (_SEVERITY_WARNING, _SEVERITY_ERROR) and not sentence.startswith(_CAPTURE_OUTCOME):
            key = (row["severity"], sentence)
            counts[key] = counts.get(key, 0) + 1
    return tuple(
        Note(
            Severity.WARNING,
            "nsys-error" if severity == _SEVERITY_ERROR else "nsys-warning",
            f"nsys: {sentence}",
            count,
        )
        for (severity, sentence), count in counts.items()
    )
