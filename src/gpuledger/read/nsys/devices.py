"""Which physical GPU a process means by "device 0".

Two ranks that both see device 0 usually run on two GPUs, and two processes on one GPU share it. nsys knows:
TARGET_INFO_CUDA_DEVICE maps (process, CUDA ordinal) to a GPU. Where it is missing the ordinals are taken at their word,
and the trace's health says so if more than one process ran.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuledger.messages import say
from gpuledger.read.nsys.container import NsysExport
from gpuledger.read.nsys.origin import text_rows
from gpuledger.trace.health import Note, Severity
from gpuledger.trace.keys import group
from gpuledger.trace.model import Gpu, os_pid
from gpuledger.trace.spans import Ints
from gpuledger.trace.tables import NOT_RECORDED

UNKNOWN = say("unknown GPU")
"""What a GPU is called that the profile does not describe."""

_FIGURES = {
    "sm_count": "smCount",
    "memory_bytes": "totalMemory",
    "bandwidth_bytes_per_s": "memoryBandwidth",
    "clock_hz": "clockRate",
    "l2_bytes": "l2CacheSize",
}


class NsysDevices:
    """Resolves (process, ordinal) to an index into `gpus`, adding GPUs that the export does not list."""

    def __init__(self, export: NsysExport) -> None:
        self._gpus: list[Gpu] = []
        self._by_ordinal: dict[int, int] = {}
        self._by_process: dict[tuple[int, int], int] = {}
        self._guessed: set[tuple[int, int]] = set()
        by_id: dict[int, int] = {}
        for row in sorted(_listed(export), key=lambda row: row["id"]):
            by_id.setdefault(row["id"], len(self._gpus))
            if row["cuDevice"] is not None:
                self._by_ordinal.setdefault(row["cuDevice"], len(self._gpus))
            self._gpus.append(_gpu(row))
        mapping = ("gpuId", "cudaId", "pid")
        for row in text_rows(export, "TARGET_INFO_CUDA_DEVICE", (), integers=mapping):
            if row["gpuId"] in by_id:
                self._by_process[row["pid"], row["cudaId"]] = by_id[row["gpuId"]]

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        return tuple(self._gpus)

    def resolve(self, pid: Ints, device: Ints) -> NDArray[np.int32]:
        """The physical GPU of each row."""
        first, number = group(pid, device)
        pairs = zip(pid[first].tolist(), device[first].tolist(), strict=True)
        gpus = [self._one(os_pid(process), ordinal) for process, ordinal in pairs]
        return np.array(gpus, np.int32)[number]

    def _one(self, os_pid: int, ordinal: int) -> int:
        if ordinal == NOT_RECORDED:
            return NOT_RECORDED
        if (os_pid, ordinal) in self._by_process:
            return self._by_process[os_pid, ordinal]
        self._guessed.add((os_pid, ordinal))
        if ordinal not in self._by_ordinal:
            self._by_ordinal[ordinal] = len(self._gpus)
            self._gpus.append(Gpu(UNKNOWN))
        return self._by_ordinal[ordinal]

    def notes(self) -> tuple[Note, ...]:
        processes = {os_pid for os_pid, _ in self._guessed}
        if len(processes) < 2:
            return ()
        sentence = say(
            "the export does not say which GPU each of {count} processes used; "
            "device numbers are taken to mean the same GPU in all of them",
            count=len(processes),
        )
        return (Note(Severity.WARNING, "gpus-assumed", sentence, len(processes)),)


def _listed(export: NsysExport) -> list[dict[str, Any]]:
    have = export.tables.get("TARGET_INFO_GPU", frozenset())
    if not have >= {"id", "name"}:
        return []
    texts = [name for name in ("name", "busLocation") if name in have]
    numbers = ["id", "cuDevice", "computeMajor", "computeMinor", *_FIGURES.values()]
    rows = text_rows(export, "TARGET_INFO_GPU", texts, integers=[name for name in numbers if name in have])
    return [dict.fromkeys(numbers) | row for row in rows if row["id"] is not None]


def _gpu(row: dict[str, Any]) -> Gpu:
    capability = (row["computeMajor"], row["computeMinor"])
    return Gpu(
        name=row["name"] or say("unnamed GPU"),
        bus=row.get("busLocation") or None,
        compute_capability=None if None in capability else capability,
        **{ours: row[theirs] for ours, theirs in _FIGURES.items()},
    )
