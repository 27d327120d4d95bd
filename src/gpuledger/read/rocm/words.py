"""AMD's words for what all its profilers record, and ours: copies, agents, sizes of launches, who calls what."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np

from gpuledger.messages import say
from gpuledger.read.assembled import RawTables, ints, recorded
from gpuledger.trace.model import Gpu, Origin, Process, Trace
from gpuledger.trace.spans import Ints
from gpuledger.trace.tables import NOT_RECORDED, Table

OWN_WORK: Final = re.compile(r"::writeRows$|^hcc_activity_callback$|^rpd_|^roctracer_")
"""What rocmProfileData records of itself."""


def layer_of(domain: str, name: str) -> str | None:
    """The layer of a call by the domain that it was traced in, or its name; None of what is an annotation."""
    if domain.startswith("HIP") or name.startswith(("hip", "__hip")):
        return "runtime"
    return "driver" if domain.startswith("HSA") or name.startswith("hsa_") else None


def blocks(grid: Ints, workgroup: Ints) -> Ints:
    """AMD counts a launch in threads: its blocks, where both are recorded."""
    known = (grid > 0) & (workgroup > 0)
    return np.where(known, -(-grid // np.where(known, workgroup, 1)), NOT_RECORDED)


def streams(stream: Ints, queue: Ints) -> Ints:
    """HIP's stream; the queue of the hardware where streams were not traced, as then all are the default one."""
    stream, queue = recorded(stream), recorded(queue)
    return stream if (stream > 0).any() else queue


def agent_gpu(agent: Mapping[str, Any]) -> Gpu:
    """One GPU, from what rocprofv3 writes of an agent."""
    banks = agent.get("mem_banks")
    bank = banks[0] if isinstance(banks, list) and banks and isinstance(banks[0], dict) else {}
    clock = _positive(agent.get("max_engine_clk_fcompute"))
    names = (agent.get(key) for key in ("product_name", "name"))
    name = next((text for text in names if isinstance(text, str) and text), None)
    return Gpu(
        name=name or say("GPU, name not recorded"),
        sm_count=_positive(agent.get("cu_count")),
        memory_bytes=_positive(bank.get("size_in_bytes")),
        clock_hz=None if clock is None else clock * 10**6,
    )


def _positive(value: object) -> int | None:
    return value if type(value) is int and 0 < value < 2**60 else None


class FreedSizes:
    """Sizes of releases, which AMD gives by their address alone."""

    def __init__(self) -> None:
        self._bytes: dict[tuple[int, int], tuple[int, int]] = {}

    def take(self, pid: int, is_release: bool, address: int, size: int, device: int) -> tuple[int, int]:
        """Bytes and GPU of one event; events must come in the order of time."""
        if not is_release:
            self._bytes[pid, address] = (size, device)
            return size, device
        return self._bytes.pop((pid, address), (NOT_RECORDED, NOT_RECORDED))


def add_allocations(raw: RawTables, events: Iterable[tuple[int, int, bool, int, int, int]]) -> None:
    """(start, pid, whether it is a release, address, bytes, device) of memory of GPUs -> rows."""
    sizes, kept = FreedSizes(), []
    for start, pid, is_release, address, size, device in sorted(events):
        amount, where = sizes.take(pid, is_release, address, size, device)
        if where != NOT_RECORDED and amount > 0:
            kept.append((start, pid, is_release, address, amount, where))
    if not kept:
        return
    start_ns, pids, releases, addresses, amounts, devices = zip(*kept, strict=True)
    count, texts = len(kept), ("Deallocation" if is_release else "Allocation" for is_release in releases)
    raw.add(
        Table.ALLOCS,
        {
            "start_ns": ints(start_ns),
            "end_ns": ints(start_ns),
            "pid": ints(pids),
            "device": ints(devices),
            "operation": raw.codes.column(texts),
            "bytes": ints(amounts),
            "address": recorded(ints(addresses)),
            "memory_kind": raw.codes.column(["Device"] * count),
        },
    )


def finish(
    raw: RawTables,
    described: Mapping[int, Gpu],
    most_gpus: int,
    origin: dict[str, Any],
    commands: Mapping[int, str | None],
    source_rows: Mapping[str, int],
) -> Trace:
    """The trace of what was gathered; `commands` are the processes by their numbers, the main one first.

    Numbers of GPUs up to `most_gpus` are kept; where they are those of agents, of which CPUs are the first, it is 0.
    """
    gpus = raw.place_on_gpus(described, most_gpus)
    rows = tuple(sorted((name, count) for name, count in source_rows.items() if count))
    processes = tuple(Process(pid, name) for pid, name in sorted(commands.items()))
    said = Origin(gpus=gpus, processes=processes, source_rows=rows, **origin)
    return raw.trace(said, next(iter(commands), 0))
