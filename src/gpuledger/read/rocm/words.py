"""AMD's words for what all its profilers record, and ours: copies, agents, sizes of launches, who calls what."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.read.assembled import Columns, RawTables, ints, recorded
from gpuledger.trace.model import UNNAMED_GPU, Gpu, Origin, Process, Trace
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
        name=name or UNNAMED_GPU,
        sm_count=_positive(agent.get("cu_count")),
        memory_bytes=_positive(bank.get("size_in_bytes")),
        clock_hz=None if clock is None else clock * 10**6,
    )


def _positive(value: object) -> int | None:
    return value if type(value) is int and 0 < value < 2**60 else None


def bare_symbol(name: str) -> str:
    """A kernel's name without what marks its symbol in a code object."""
    return name.removesuffix(" [clone .kd]").removesuffix(".kd")


def launch_columns(grid: Ints, workgroup: Ints, registers: Ints, fixed: Ints, shared: Ints) -> Columns:
    """Sizes of launches. AMD counts a grid in threads, and what is fixed as part of a launch's shared memory."""
    return {
        "grid": blocks(grid, workgroup),
        "block": workgroup,
        "registers": np.where(registers > 0, registers, NOT_RECORDED),
        "smem_static_bytes": fixed,
        "smem_dynamic_bytes": np.where(shared >= 0, np.maximum(shared - np.maximum(fixed, 0), 0), NOT_RECORDED),
    }


def call_numbers(correlation: Ints) -> Ints:
    """The numbers of the calls that launched work; AMD's profilers count them from 1."""
    return np.where(correlation > 0, correlation, NOT_RECORDED)


def range_columns(raw: RawTables, columns: Columns, domain: str | NDArray[Any]) -> Columns:
    """Columns of annotations: one that ends when it begins is a mark."""
    is_mark = columns["start_ns"] == columns["end_ns"]
    kinds = np.where(is_mark, raw.codes["mark"], raw.codes["push_pop"])
    domains = np.full(len(is_mark), raw.codes[domain]) if isinstance(domain, str) else domain
    return {key: values for key, values in columns.items() if key != "correlation"} | {"kind": kinds, "domain": domains}


def add_allocations(raw: RawTables, events: Iterable[tuple[int, int, bool, int, int, int]]) -> None:
    """(start, pid, whether it is a release, address, bytes, device) of memory of GPUs -> rows.

    AMD gives a release by its address alone: it has the size and GPU of the allocation there.
    """
    held: dict[tuple[int, int], tuple[int, int]] = {}
    kept = []
    for start, pid, is_release, address, size, device in sorted(events):
        if is_release:
            amount, where = held.pop((pid, address), (NOT_RECORDED, NOT_RECORDED))
        else:
            amount, where = held[pid, address] = size, device
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
