"""Small random nsys exports, full of the corners that real captures rarely have.

`python tests/support/profiles/random_export.py FOLDER COUNT` writes COUNT of them. Times are tiny integers, so that
ties, touching bounds and equal intervals abound. What each holds depends on its number alone. NVIDIA's own tables
of them are the oracle in `captures/random`, see its README.
"""

from __future__ import annotations

import random
import sqlite3
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

HOST: Final = 1 << 48
SCHEMA: Final = {
    "StringIds": "id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL",
    "CUPTI_ACTIVITY_KIND_KERNEL": """start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
        contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER,
        globalPid INTEGER, demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, mangledName INTEGER,
        launchType INTEGER, cacheConfig INTEGER, registersPerThread INTEGER NOT NULL, gridX INTEGER NOT NULL,
        gridY INTEGER NOT NULL, gridZ INTEGER NOT NULL, blockX INTEGER NOT NULL, blockY INTEGER NOT NULL,
        blockZ INTEGER NOT NULL, staticSharedMemory INTEGER NOT NULL, dynamicSharedMemory INTEGER NOT NULL,
        localMemoryPerThread INTEGER NOT NULL, localMemoryTotal INTEGER NOT NULL, gridId INTEGER NOT NULL,
        sharedMemoryExecuted INTEGER, graphNodeId INTEGER, sharedMemoryLimitConfig INTEGER""",
    "CUPTI_ACTIVITY_KIND_MEMCPY": """start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
        contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER,
        globalPid INTEGER, bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL, deprecatedSrcId INTEGER, srcKind INTEGER,
        dstKind INTEGER, srcDeviceId INTEGER, srcContextId INTEGER, dstDeviceId INTEGER, dstContextId INTEGER,
        migrationCause INTEGER, graphNodeId INTEGER, virtualAddress INTEGER, copyCount INTEGER""",
    "CUPTI_ACTIVITY_KIND_MEMSET": """start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
        contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER,
        globalPid INTEGER, value INTEGER NOT NULL, bytes INTEGER NOT NULL, graphNodeId INTEGER, memKind INTEGER""",
    "CUPTI_ACTIVITY_KIND_RUNTIME": """start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL,
        globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL,
        callchainId INTEGER""",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": """start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
        contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER,
        globalPid INTEGER, graphId INTEGER NOT NULL, graphExecId INTEGER NOT NULL""",
    "NVTX_EVENTS": """start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER,
        category INTEGER, color INTEGER, text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER,
        domainId INTEGER, uint64Value INTEGER, int64Value INTEGER, doubleValue REAL, uint32Value INTEGER,
        int32Value INTEGER, floatValue REAL, jsonTextId INTEGER, jsonText TEXT, binaryData TEXT""",
    "OSRT_API": """start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL, globalTid INTEGER,
        nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, nestingLevel INTEGER, callchainId INTEGER NOT NULL""",
    "ENUM_CUDA_MEMCPY_OPER": "id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT",
    "META_DATA_EXPORT": "name TEXT NOT NULL, value TEXT",
}
KERNELS: Final = (
    "void k<(int)1>(T1 *)",
    "gemm_tn",
    "void at::native::reduce<(int)512, float>(T3)",
    'quoted"name',
    "[odd] name",
    "k",
)
FUNCTIONS: Final = (
    "cudaLaunchKernel_v7000",
    "cudaLaunchKernel_v3020",
    "cuLaunchKernelEx",
    "cudaGraphLaunch_v10000",
    "cudaMemcpyAsync_v3020",
    "bar_vabcd",
    "x_v3020_v7000",
)
OS_FUNCTIONS: Final = ("poll", "read", "pthread_cond_wait", "[Unknown]")
RANGES: Final = ("step", "layer", "a, b", "", "attention")


class Draw:
    """One export in the making. A feature is on or off for the whole of it."""

    def __init__(self, number: int) -> None:
        self.random = random.Random(number)
        self.strings: dict[str, int] = {}
        self.number = number

    def feature(self, chance: float = 0.4) -> bool:
        return self.random.random() < chance

    def text(self, value: str) -> int:
        return self.strings.setdefault(value, 10 + 3 * len(self.strings))

    def span(self, latest: int, longest: int) -> tuple[int, int]:
        start = self.random.randrange(latest)
        return start, start + self.random.randrange(longest + 1)


def write(path: Path, number: int) -> None:
    """Write export `number` to `path`."""
    draw = Draw(number)
    pick, below = draw.random.choice, draw.random.randrange
    latest = pick((30, 200, 5000))
    processes = [HOST | (100 + each) << 24 for each in range(1 + draw.feature())]
    threads = [process | (100 + each) for process in processes for each in range(1 + draw.feature())]
    for texts in (KERNELS, FUNCTIONS, OS_FUNCTIONS, RANGES):
        for value in draw.random.sample(texts, len(texts)):
            draw.text(value)
    rows: dict[str, list[tuple[object, ...]]] = {}
    ids = list(range(1, 12 + below(20)))
    twice, orphans, no_id, graphs = (draw.feature() for _ in range(4))
    runtime = rows["CUPTI_ACTIVITY_KIND_RUNTIME"] = []
    for correlation in ids:
        for thread in threads if twice and below(3) == 0 else [pick(threads)]:
            known = None if no_id and below(6) == 0 else correlation
            start, end = draw.span(latest, latest // 6)
            runtime.append((start, end, below(2), thread, known, draw.text(pick(FUNCTIONS)), 0, None))
    launchable = ids + ([90, 91] if orphans else [])
    kernels = rows["CUPTI_ACTIVITY_KIND_KERNEL"] = []
    for _ in range(5 + below(30)):
        name, process = draw.text(pick(KERNELS)), pick(processes)
        known = None if no_id and below(6) == 0 else pick(launchable)
        start, end = draw.span(latest, latest // 4)
        device = below(2)
        shape = [pick((1, 2, 7, 10, 100000)), pick((1, 64)), 1, pick((32, 128)), 1, 1]
        kernels.append(
            (start, end, device, 1, 0, 7 + below(2), known, process, name, name, name, 1, 1, 32)
            + (*shape, 0, 0, 0, 0, 0, None, 5 if graphs else None, 0)
        )
    if draw.feature(0.7):
        strange = draw.feature(0.3)
        rows["CUPTI_ACTIVITY_KIND_MEMCPY"] = [
            (*draw.span(latest, latest // 4), 0, 1, 0, 7, pick(launchable), pick(processes))
            + (below(200_000), pick((1, 2, 8, 10, 99) if strange else (1, 2, 8)))
            + (None, 1, 2, 0, 1, 0, 1, None, None, None, 1)
            for _ in range(1 + below(15))
        ]
    if draw.feature(0.5):
        rows["CUPTI_ACTIVITY_KIND_MEMSET"] = [
            (
                *draw.span(latest, latest // 4),
                0,
                1,
                0,
                7,
                pick(launchable),
                pick(processes),
                0,
                500 * below(300),
                None,
                2,
            )
            for _ in range(1 + below(6))
        ]
    if draw.feature(0.3):
        rows["CUPTI_ACTIVITY_KIND_GRAPH_TRACE"] = [
            (*draw.span(latest, latest // 2), 0, 1, 0, 7, pick(ids), pick(processes), 1, 2) for _ in range(1 + below(4))
        ]
    if draw.feature(0.8):
        rows["NVTX_EVENTS"] = list(_annotations(draw, latest, threads))
    if draw.feature(0.5):
        rows["OSRT_API"] = [
            (*draw.span(latest, latest // 4), pick((27, 27, 27, 31, 32)), pick(threads), draw.text(pick(OS_FUNCTIONS)))
            + (0, below(2), 0)
            for _ in range(1 + below(12))
        ]
    _store(path, rows, draw)


def _annotations(draw: Draw, latest: int, threads: list[int]) -> Iterable[tuple[object, ...]]:
    pick, below = draw.random.choice, draw.random.randrange
    unended, no_text, elsewhere, domains, inline, unnamed = (draw.feature(0.35) for _ in range(6))

    def event(
        start: int, end: int | None, kind: int, text: str | None, thread: int, ended: int | None, domain: int | None
    ) -> tuple[object, ...]:
        stored = text if inline or kind == 75 else None
        text_id = None if text is None or stored is not None else draw.text(text)
        return (start, end, kind, None, None, None, stored, thread, ended, text_id, domain, *[None] * 9)

    if domains:
        for thread in sorted({thread & ~0xFFFFFF for thread in threads}):
            yield event(-below(50), None, 75, pick(("NCCL", "CCCL")), thread | 100, None, 1)
            if draw.feature():
                yield event(-below(50), None, 75, "second", thread | 100, None, 1)
    for _ in range(3 + below(14)):
        start, end = draw.span(latest, latest // 2)
        text = None if no_text and below(4) == 0 else pick(RANGES)
        kind = pick((59, 59, 59, 60, 34, 70, 71))
        thread = pick(threads)
        domain = pick((0, 1, 2, None) if unnamed else (0, 1)) if domains else 0
        ended = pick((None, thread, thread + 1)) if elsewhere and kind in (60, 71) else None
        open_end = kind == 34 or (unended and below(3) == 0)
        yield event(start, None if open_end else end, kind, text, thread, ended, domain)


def _store(path: Path, rows: dict[str, list[tuple[object, ...]]], draw: Draw) -> None:
    path.unlink(missing_ok=True)
    labels = (
        "Unknown",
        "Host-to-Device",
        "Device-to-Host",
        *[f"Kind {each}" for each in range(3, 8)],
        "Device-to-Device",
    )
    rows["ENUM_CUDA_MEMCPY_OPER"] = [
        (at, f"KIND_{at}", label) for at, label in enumerate((*labels, "Host-to-Host", "Peer-to-Peer"))
    ]
    rows["META_DATA_EXPORT"] = [
        ("EXPORT_PRODUCT_VERSION", "2025.3.2.0"),
        ("EXPORT_SCHEMA_VERSION", "3.20.3"),
        ("EXPORT_SCHEMA_VERSION_MAJOR", "3"),
        ("EXPORT_SCHEMA_VERSION_MINOR", "20"),
        ("EXPORT_SCHEMA_VERSION_MICRO", "3"),
    ]
    rows["StringIds"] = [(number, text) for text, number in draw.strings.items()]
    with sqlite3.connect(path) as database:
        for table, values in rows.items():
            database.execute(f"CREATE TABLE {table} ({SCHEMA[table]})")
            if values:
                marks = ", ".join("?" * len(values[0]))
                database.executemany(f"INSERT INTO {table} VALUES ({marks})", values)
    database.close()


if __name__ == "__main__":
    folder, count = Path(sys.argv[1]), int(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    for each in range(count):
        write(folder / f"random{each:03d}.sqlite", each)
