"""What an nsys export says about itself: tool, versions, processes, nsys's own warnings; and its GPUs.

Each process numbers its devices: `NsysDevices` finds the physical GPU that a process means by "device 0".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.messages import say
from gpuledger.read.checked_tables import assumed_gpu
from gpuledger.read.columns import NULL, StoredTables
from gpuledger.read.nsys import schema
from gpuledger.read.request import counted
from gpuledger.trace.keys import distinct, equal, group, take
from gpuledger.trace.model import UNKNOWN_GPU, Gpu, Note, Origin, Private, Process, Severity, os_pid
from gpuledger.trace.spans import Ints
from gpuledger.trace.tables import NOT_RECORDED, Rows, Table


def describe(export: StoredTables, tables: Mapping[Table, Rows], gpus: tuple[Gpu, ...]) -> Origin:
    """Everything but the events."""
    exported = _pairs(export, "META_DATA_EXPORT") or _pairs(export, "EXPORT_META_DATA")
    captured = _pairs(export, "META_DATA_CAPTURE")
    system = _pairs(export, "TARGET_INFO_SYSTEM_ENV")
    product = exported.get("EXPORT_PRODUCT_VERSION", [""])[0]
    cuda = system.get("CudaDriverVersion", [""])[0]
    driver = system.get("NvDriverVersion", [None])[0]
    if driver and driver.isdecimal() and len(driver) > 5:  # before 2023 without points: 5303002 -> 530.30.02
        driver = f"{driver[:3]}.{driver[3:5]}.{driver[5:]}"
    pids = {pid for rows in tables.values() if "pid" in rows for pid in distinct(rows["pid"]).tolist()} - {-1}
    names = {row["pid"]: row["name"] for row in text_rows(export, "PROCESSES", ("name",), integers=("pid",))}
    started = text_rows(export, _STARTED, ("utcTime",))
    epoch_ns = next((row["utcEpochNs"] for row in text_rows(export, _STARTED, (), integers=("utcEpochNs",))), None)
    return Origin(
        tool="nsys",
        container=export.container,
        # nsys prints three parts of its version, and the export stores a fourth, the build: 2025.3.2.0 -> 2025.3.2
        tool_version=".".join(product.split(".")[:3]) or None,
        schema_version=exported.get("EXPORT_SCHEMA_VERSION", [None])[0],
        started_utc=started[0]["utcTime"] if started else None,
        wall_zero_ns=epoch_ns,
        driver_version=driver,
        cuda_version=f"{int(cuda) // 1000}.{int(cuda) % 1000 // 10}" if cuda.isdecimal() else None,  # 13000 -> 13.0
        recorded_ns=next((stop - start for start, stop in recorded(export) if stop > start), None),
        asked_for=tuple(sorted(captured["CAPTURE_EVENT_TYPE"])) if "CAPTURE_EVENT_TYPE" in captured else None,
        gpus=gpus,
        processes=tuple(Process(pid, names.get(os_pid(pid))) for pid in sorted(pids)),
        rank=_from_environment(captured, "RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"),
        world_size=_from_environment(captured, "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"),
        # no two captures of a host begin in the same nanosecond
        capture=None if epoch_ns is None else f"{system.get('Hostname', [''])[0]} {epoch_ns}",
        source_rows=tuple((name, export.count(name)) for name in sorted(export.tables) if schema.holds_events(name)),
        decoding=export.decoding,
        private=_private(captured, system),
    )


_STARTED: Final = "TARGET_INFO_SESSION_START_TIME"


def recorded(export: StoredTables) -> list[tuple[int, int]]:
    """When recording began and ended, by the host's own clock; nothing where the export does not say."""
    rows = text_rows(export, "ANALYSIS_DETAILS", (), ("startTime", "stopTime"))
    return [(row["startTime"], row["stopTime"]) for row in rows if None not in (row["startTime"], row["stopTime"])]


def _from_environment(captured: Mapping[str, list[str]], *names: str) -> int | None:
    """A number that the launcher gave to the process, by the first of these variables that nsys recorded."""
    given = [value for key, values in captured.items() if "ENVIRONMENT" in key for value in values]
    for name in names:
        for value in given:
            variable, _, text = value.partition("=")
            if variable == name and text.strip('"').isdecimal() and len(text) < 9:
                return int(text.strip('"'))
    return None


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


def _pairs(export: StoredTables, table: str) -> dict[str, list[str]]:
    """A table of names and values; a name may come several times."""
    values: dict[str, list[str]] = {}
    for row in text_rows(export, table, ("name", "value")):
        values.setdefault(row["name"], []).append(row["value"])
    return values


def text_rows(
    export: StoredTables, table: str, texts: Iterable[str], integers: Iterable[str] = ()
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


def diagnostics(export: StoredTables) -> tuple[Note, ...]:
    """What nsys itself warned about while it captured, each sentence once."""
    counts, codes = Counter[tuple[str, str]](), {2: "nsys-warning", 3: "nsys-error"}
    for row in text_rows(export, "DIAGNOSTIC_EVENT", ("text",), integers=("severity",)):
        sentence = " ".join(row["text"].split()).rstrip(".")
        # some versions report counts of events as warnings, which they are not
        if row["severity"] in codes and not sentence.startswith("Number of "):
            counts[codes[row["severity"]], sentence] += 1
    return tuple(Note(Severity.WARNING, code, f"nsys: {said}", count) for (code, said), count in counts.items())


_FIGURES = {
    "sm_count": "smCount",
    "memory_bytes": "totalMemory",
    "bandwidth_bytes_per_s": "memoryBandwidth",
    "clock_hz": "clockRate",
    "l2_bytes": "l2CacheSize",
}


class NsysDevices:
    """Resolves (process, ordinal) to an index into `gpus`, adding GPUs that the export does not list."""

    def __init__(self, export: StoredTables, used: Ints) -> None:
        """`used` are the ordinals that anything ran on, in any process."""
        rows = sorted(_gpu_rows(export), key=lambda row: row["id"])
        places = [(row.get("busLocation") or "").lower() for row in rows]
        if all(places) and len(set(places)) == len(places):  # as nvidia-smi numbers them, which `id` need not
            rows = [row for _, row in sorted(zip(places, rows, strict=True), key=lambda entry: entry[0])]
        self._gpus: list[Gpu] = [_gpu(row) for row in rows]
        is_one = len(used) == 1
        self._only_ordinal = int(used[0]) if is_one else None
        self._by_ordinal = dict.fromkeys(used.tolist(), 0)
        if not is_one or len(rows) != 1:  # an export that calls all of its GPUs 0 does not know their ordinals
            known = [(row["cuDevice"], gpu) for gpu, row in enumerate(rows) if row["cuDevice"] is not None]
            self._by_ordinal = dict(known) if len(dict(known)) == len(known) else {}
        self._by_process = _by_process(export, rows)
        self._by_number = {row["id"]: gpu for gpu, row in reversed(list(enumerate(rows)))}
        self._only_of: dict[int, set[int]] = {}
        for (process, _), gpu in self._by_process.items() if is_one else ():
            self._only_of.setdefault(process, set()).add(gpu)
        self._guessed: set[tuple[int, int]] = set()
        self._by_place: set[int] = set()
        self._assumed: Counter[int] = Counter()
        """Rows that do not say where they ran, by the GPU that is assumed."""
        self._unknown: int | None = None

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        return tuple(self._gpus)

    def resolve(self, pid: Ints, device: Ints) -> NDArray[np.int32]:
        first, number = group(pid, device)
        pairs = zip(pid[first].tolist(), device[first].tolist(), strict=True)
        gpus = [self._one(os_pid(process), ordinal) for process, ordinal in pairs]
        return np.array(gpus, np.int32)[number]

    def resolve_work(self, pid: Ints, device: Ints) -> NDArray[np.int32]:
        """The same for what ran on some GPU, also where its row does not say on which."""
        gpus = self.resolve(pid, device)
        lacking = np.flatnonzero(gpus == NOT_RECORDED)
        if not len(lacking):
            return gpus
        first, number = group(pid[lacking])
        likely = np.array([self._likely(os_pid(process)) for process in pid[lacking[first]].tolist()], np.int32)
        gpus = gpus.copy()
        gpus[lacking] = likely[number]
        return gpus

    def count_assumed(self, device: Ints, gpu: NDArray[np.int32]) -> None:
        """Take note of rows that do not say where they ran, and of the GPUs that `resolve_work` gave them."""
        assumed = take(gpu, equal(device, NOT_RECORDED))
        for number, count in enumerate(np.bincount(assumed).tolist()):
            self._assumed[number] += count

    def _likely(self, os_pid: int) -> int:
        """The GPU of all other work, the only one of a process, or of the export; else one that nothing is known of."""
        if self._only_ordinal is not None:
            return self._one(os_pid, self._only_ordinal)
        own = {gpu for (process, _), gpu in self._by_process.items() if process == os_pid}
        if len(own) == 1:
            return own.pop()
        if len(self._gpus) != 1 and self._unknown is None:
            self._gpus.append(Gpu(UNKNOWN_GPU))
            self._unknown = len(self._gpus) - 1
        return 0 if self._unknown is None else self._unknown

    def numbered(self, hardware: Ints) -> NDArray[np.int32]:
        """The physical GPU that TARGET_INFO_GPU lists by each of these numbers; the only one, where there is one."""
        if len(self._gpus) == 1:
            return np.zeros(len(hardware), np.int32)
        first, number = group(hardware)
        gpus = [self._by_number.get(listed, NOT_RECORDED) for listed in hardware[first].tolist()]
        return np.array(gpus, np.int32)[number]

    def _one(self, os_pid: int, ordinal: int) -> int:
        if ordinal == NOT_RECORDED:
            return NOT_RECORDED
        if (os_pid, ordinal) in self._by_process:
            return self._by_process[os_pid, ordinal]
        if len(own := self._only_of.get(os_pid, set())) == 1:
            return next(iter(own))
        self._guessed.add((os_pid, ordinal))
        if ordinal not in self._by_ordinal:
            # a GPU that the export describes without an ordinal, where there is no doubt which; else an unknown one
            free = [gpu for gpu in range(len(self._gpus)) if gpu not in self._by_ordinal.values()]
            if ordinal in free and len({self._gpus[gpu].name for gpu in free}) == 1:
                self._by_place.add(ordinal)
                self._by_ordinal[ordinal] = ordinal
            else:
                self._by_ordinal[ordinal] = len(self._gpus)
                self._gpus.append(Gpu(UNKNOWN_GPU))
        return self._by_ordinal[ordinal]

    def notes(self, *, is_sampled: bool) -> tuple[Note, ...]:
        """What was assumed, and what is not known; `is_sampled`: there are samples, which are held against peaks."""
        notes = [note for gpu, count in sorted(self._assumed.items()) for note in assumed_gpu(count, gpu)]
        if len(processes := {os_pid for os_pid, _ in self._guessed}) > 1:
            sentence = say(
                "the export does not say which GPU each of {count} processes used; a device number is taken "
                "to mean the same GPU in all of them",
                count=len(processes),
            )
            notes.append(Note(Severity.WARNING, "gpus-assumed", sentence, len(processes)))
        notes += counted("gpus-by-place", len(self._by_place))
        described = [gpu for gpu in self._gpus if gpu.name != UNKNOWN_GPU]
        notes += _lacking_figures(self._gpus if is_sampled else described, is_sampled=is_sampled)
        unknown = len(self._gpus) - len(described) if described else 0
        return (*notes, *counted("gpus-unknown", unknown))


def _lacking_figures(gpus: Sequence[Gpu], *, is_sampled: bool) -> list[Note]:
    """What an export does not say of its GPUs and kernels are judged by."""
    asked = {"sm_count": say("how many SMs")}
    if is_sampled:
        asked |= {"clock_hz": say("what clock"), "bandwidth_bytes_per_s": say("what memory bandwidth")}
    notes = []
    for name, figure in asked.items():
        lacking = sum(getattr(gpu, name) is None for gpu in gpus)
        notes += counted("gpu-figures-not-recorded", lacking, figure=figure)
    return notes


def _by_process(export: StoredTables, rows: list[dict[str, Any]]) -> dict[tuple[int, int], int]:
    """The GPU of each (process, ordinal) that TARGET_INFO_CUDA_DEVICE lists."""
    by_id = {row["id"]: gpu for gpu, row in reversed(list(enumerate(rows)))}
    by_uuid = {_uuid(row["uuid"]): gpu for gpu, row in enumerate(rows) if _uuid(row["uuid"])}
    table, numbers = "TARGET_INFO_CUDA_DEVICE", ("gpuId", "cudaId", "pid")
    texts = ("uuid",) if by_uuid and "uuid" in export.tables.get(table, frozenset()) else ()
    listed = text_rows(export, table, texts, integers=numbers)
    gpus = [by_id.get(row["gpuId"], by_uuid.get(_uuid(row.get("uuid")))) for row in listed]
    return {(row["pid"], row["cudaId"]): gpu for row, gpu in zip(listed, gpus, strict=True) if gpu is not None}


def _uuid(text: str | None) -> str:
    """A UUID as both tables have it: some versions write GPU- in front."""
    return (text or "").lower().removeprefix("gpu-")


def _gpu_rows(export: StoredTables) -> list[dict[str, Any]]:
    have = export.tables.get("TARGET_INFO_GPU", frozenset())
    if not have >= {"id", "name"}:
        return []
    texts = [name for name in ("name", "busLocation", "uuid") if name in have]
    numbers = ["id", "cuDevice", "computeMajor", "computeMinor", *_FIGURES.values()]
    rows = text_rows(export, "TARGET_INFO_GPU", texts, integers=[name for name in numbers if name in have])
    return [dict.fromkeys((*numbers, "uuid")) | row for row in rows if row["id"] is not None]


def _gpu(row: dict[str, Any]) -> Gpu:
    capability = (row["computeMajor"], row["computeMinor"])
    return Gpu(
        name=row["name"] or say("unnamed GPU"),
        bus=row.get("busLocation") or None,
        compute_capability=None if None in capability else capability,
        **{ours: row[theirs] for ours, theirs in _FIGURES.items()},
    )
