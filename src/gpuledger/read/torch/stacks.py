"""Python stacks of the calls that may block, from the Python functions that torch recorded around them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.trace.model import thread_number
from gpuledger.trace.stacks import Stacks, torch_frame
from gpuledger.trace.tables import NOT_RECORDED, Table

MAY_BLOCK: Final = re.compile(r"Synchronize|Memcpy|Malloc|Free|HostAlloc|HostRegister|ModuleLoad|Instantiate")
"""Calls whose place in the program is worth knowing; the others are too many."""

_DEEPEST: Final = 200


def call_stacks(raw: Mapping[Table, dict[str, NDArray[Any]]], codes: dict[str, int]) -> Stacks:
    """Sets the `stack` of such calls; gives the stacks."""
    if Table.CALLS not in raw or Table.RANGES not in raw:
        return Stacks()
    calls, ranges = raw[Table.CALLS], raw[Table.RANGES]
    python = np.flatnonzero(ranges["kind"] == codes.get("python", -2))
    texts = list(codes)
    wanted = [code for code in np.unique(calls["name"]).tolist() if MAY_BLOCK.search(texts[code])]
    chosen = np.flatnonzero(np.isin(calls["name"], wanted))
    if not len(python) or not len(chosen):
        return Stacks()
    innermost = _innermost(ranges, python, calls, chosen)
    stack = np.full(len(calls["name"]), NOT_RECORDED)
    number: dict[int, int] = {}
    frames: list[int] = []
    offsets = [0]
    parent, names = ranges["parent"], ranges["name"]
    for call, row in zip(chosen.tolist(), innermost.tolist(), strict=True):
        if row < 0:
            continue
        if row not in number:
            number[row] = len(number)
            at = row
            for _ in range(_DEEPEST):
                if at < 0:
                    break
                frames.append(codes[torch_frame(texts[names[at]])])
                at = int(parent[at])
            offsets.append(len(frames))
        stack[call] = number[row]
    calls["stack"] = stack
    return Stacks(np.array(offsets, np.int64), np.array(frames, np.int32))


def _innermost(
    ranges: Mapping[str, NDArray[Any]],
    python: NDArray[np.intp],
    calls: Mapping[str, NDArray[Any]],
    chosen: NDArray[np.intp],
) -> NDArray[np.intp]:
    """The innermost Python function around each chosen call; -1 for none."""
    owner = thread_number(ranges["pid"], ranges["tid"])
    caller = thread_number(calls["pid"], calls["tid"])
    found = np.full(len(chosen), -1, np.intp)
    for thread in np.unique(caller[chosen]).tolist():
        mine = python[owner[python] == thread]
        if not len(mine):
            continue
        mine = mine[np.lexsort((-ranges["end_ns"][mine], ranges["start_ns"][mine]))]
        here = np.flatnonzero(caller[chosen] == thread)
        at = np.searchsorted(ranges["start_ns"][mine], calls["start_ns"][chosen[here]], side="right") - 1
        row = np.where(at >= 0, mine[np.maximum(at, 0)], -1)
        for _ in range(_DEEPEST):
            outside = (row >= 0) & (ranges["end_ns"][row] < calls["start_ns"][chosen[here]])
            if not outside.any():
                break
            row[outside] = ranges["parent"][row[outside]]
        found[here] = row
    return found
