"""Where a torch.profiler trace comes from: its metadata in, GPUs, versions and rank out."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from gpuledger.messages import say
from gpuledger.trace.health import Note, Severity
from gpuledger.trace.model import NOT_DESCRIBED, Gpu, Origin, Process
from gpuledger.trace.spans import Ints
from gpuledger.trace.tables import NOT_RECORDED, Rows, Table
from gpuledger.units import count_text

_YEAR_2015_NS: Final = 1_420_070_400 * 1_000_000_000
_YEAR_2100_NS: Final = 4_102_444_800 * 1_000_000_000


class TorchDevices:
    """The GPUs that a trace uses, by torch's own numbers: device 7 is GPU 7 here, and what was not used has no name.

    Numbers that no machine has are taken for names, and their GPUs are numbered from 0 in their order.
    """

    def __init__(self, metadata: Mapping[str, Any], used: Sequence[Ints], most: int) -> None:
        numbers = np.unique(np.concatenate([np.empty(0, np.int64), *used]))
        self._numbers = numbers = numbers[numbers != NOT_RECORDED]
        self._is_plain = bool(len(numbers)) and numbers[0] >= 0 and numbers[-1] < most
        listed = metadata.get("deviceProperties")
        known = [gpu for gpu in listed if isinstance(gpu, dict)] if isinstance(listed, list) else []
        by_id = {_int(gpu.get("id")): gpu for gpu in known}
        # AMD numbers agents, not devices: where the number says nothing, equal GPUs still say what they are
        same = known[0] if known and all(gpu.get("name") == known[0].get("name") for gpu in known) else {}
        described = {number: _gpu(by_id.get(number, same)) for number in numbers.tolist()}
        if self._is_plain:
            self.gpus = tuple(described.get(number, Gpu(NOT_DESCRIBED)) for number in range(int(numbers[-1]) + 1))
        else:
            self.gpus = tuple(described.values())

        self._assumed = 0
        """Rows of work that do not say where they ran."""
        self._likely = 0

    def resolve_work(self, device: Ints) -> Ints:
        """The same for what ran on some GPU, also where its event does not say on which: the one with most work."""
        gpus = self.resolve(device)
        lacking = gpus == NOT_RECORDED
        if not lacking.any():
            return gpus
        if not self.gpus:
            self.gpus = (Gpu(NOT_DESCRIBED),)
        if not lacking.all():
            self._likely = int(np.bincount(gpus[~lacking]).argmax())
        self._assumed += int(lacking.sum())
        return np.where(lacking, self._likely, gpus)

    def notes(self) -> tuple[Note, ...]:
        """What was assumed."""
        if not self._assumed:
            return ()
        sentence = say(
            "{count} rows of GPU work do not say which GPU they ran on; {gpu} is assumed",
            count=count_text(self._assumed),
            gpu=f"GPU {self._likely}",
        )
        return (Note(Severity.LOSS, "gpu-not-recorded", sentence, self._assumed),)

    def resolve(self, device: Ints) -> Ints:
        """Number of the GPU; NOT_RECORDED where the event names none."""
        if not len(self._numbers):
            return np.full(len(device), NOT_RECORDED)
        if self._is_plain:
            return device
        index = np.minimum(np.searchsorted(self._numbers, device), len(self._numbers) - 1)
        return np.where(self._numbers[index] == device, index, NOT_RECORDED)


def _gpu(properties: Mapping[str, Any]) -> Gpu:
    major, minor = (_int(properties.get(key)) for key in ("computeMajor", "computeMinor"))
    name = properties.get("name")
    return Gpu(
        name=name if isinstance(name, str) and name else say("GPU, name not recorded"),
        compute_capability=None if major is None or minor is None else (major, minor),
        sm_count=_int(properties.get("numSms")),
        memory_bytes=_int(properties.get("totalGlobalMem")),
    )


def _int(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def describe(
    metadata: Mapping[str, Any],
    container: str,
    devices: TorchDevices,
    process_names: Mapping[int, str],
    tables: Mapping[Table, Rows],
    seen: Mapping[str, int],
) -> Origin:
    """The origin of one trace."""
    distributed = metadata.get("distributedInfo")
    job = distributed if isinstance(distributed, dict) else {}
    pids = sorted({int(pid) for rows in tables.values() if "pid" in rows for pid in np.unique(rows["pid"]) if pid >= 0})
    schema = metadata.get("schemaVersion")
    return Origin(
        tool="torch.profiler",
        container=container,
        schema_version=None if schema is None else str(schema)[:20],
        started_utc=_started(metadata.get("baseTimeNanoseconds"), tables),
        wall_zero_ns=_wall_zero(metadata.get("baseTimeNanoseconds"), tables),
        cuda_version=_version(metadata.get("cuda_runtime_version")),
        gpus=devices.gpus,
        processes=tuple(Process(pid, process_names.get(pid)) for pid in pids),
        rank=_int(job.get("rank")),
        world_size=_int(job.get("world_size")),
        source_rows=tuple(sorted((category or "no category", count) for category, count in seen.items())),
    )


def _began_ns(base: object, tables: Mapping[Table, Rows]) -> int | None:
    """When the first event began, in ns since 1970; None where the trace's clock is another one."""
    first = min((int(rows["start_ns"].min()) for rows in tables.values() if len(rows)), default=0)
    began = (_int(base) or 0) + first
    return began if _YEAR_2015_NS < began < _YEAR_2100_NS else None


def _wall_zero(base: object, tables: Mapping[Table, Rows]) -> int | None:
    return None if _began_ns(base, tables) is None else _int(base) or 0


def _started(base: object, tables: Mapping[Table, Rows]) -> str | None:
    """When the first event began: times count from a base that the trace names, in older ones from 1970."""
    began = _began_ns(base, tables)
    if began is None:
        return None
    return datetime.datetime.fromtimestamp(began // 1_000_000_000, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S")


def _version(number: object) -> str | None:
    value = _int(number)
    return None if value is None or value <= 0 else f"{value // 1000}.{value % 1000 // 10}"
