"""Pages that migrate are a finding of their own, and the time next to them is theirs, not a wait of the device."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from gpuledger import build_report, open_trace
from gpuledger.trace.tables import Table
from support.profiles.nsys_exports import PID, call, kernel, minimal

US = 1_000
PAGE = 4096
TO_DEVICE, TO_HOST = 11, 12


def migration(start: int, end: int, kind: int, **more: Any) -> dict[str, Any]:
    """As nsys 2025 writes one: no context, no stream, and an id of 0, which no call has."""
    where = {"globalPid": PID, "contextId": 0, "streamId": 0, "correlationId": 0, "srcKind": 7, "dstKind": 7}
    return {"start": start * US, "end": end * US, "copyKind": kind, "bytes": PAGE} | where | more


def launched(*kernels: tuple[int, int, int]) -> dict[str, list[dict[str, Any]]]:
    """(launch, start, end) of each kernel, in microseconds; a launch takes 5."""
    numbered = list(enumerate(kernels, 1))
    return {
        "KERNEL": [kernel(start * US, end * US, correlationId=number) for number, (_, start, end) in numbered],
        "RUNTIME": [call(at * US, (at + 5) * US, correlationId=number) for number, (at, _, _) in numbered],
    }


FAULTING = [migration(20 + 40 * at, 40 + 40 * at, TO_DEVICE) for at in range(10)]
"""Under the first kernel, which stalls for 10 x 20 us."""
READ_BACK = [migration(560 + 60 * at, 580 + 60 * at, TO_HOST) for at in range(10)]
"""The host reads what that kernel wrote: 50 us after it, and page by page, 40 us apart."""


def walked(path: Path, **more: list[dict[str, Any]]) -> Path:
    return minimal(path, **launched((0, 10, 510), (1500, 1510, 1610)), MEMCPY=FAULTING + READ_BACK, **more)


def test_page_faults_are_told_where_they_are_recorded(tmp_path: Path) -> None:
    path = walked(tmp_path / "a.sqlite")
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE CUDA_UM_CPU_PAGE_FAULT_EVENTS (start INTEGER, globalPid INTEGER)")
        database.executemany("INSERT INTO CUDA_UM_CPU_PAGE_FAULT_EVENTS VALUES (?, 1)", [(1,), (2,), (3,)])
    database.close()
    [finding] = [each for each in build_report(open_trace(path)).findings if each.code == "UNIFIED-MEMORY"]
    assert finding.sentences[-1] == ("in the whole profile: 3 host page faults, 0 groups of GPU page faults")


def test_nsys_counts_them_as_the_copies_that_they_are(tmp_path: Path) -> None:
    copies = open_trace(walked(tmp_path / "a.sqlite"))[Table.COPIES]
    assert copies.texts("kind") == ["Unified Host-to-Device"] * 10 + ["Unified Device-to-Host"] * 10
