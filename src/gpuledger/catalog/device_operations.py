"""Which CUDA and HIP functions put work on the device, and what kind of work.

A successful call of one of these leaves a record on the device's side of a profile. Only a copy or memset of no bytes
leaves none. Functions whose work a profiler may leave out (host functions, prefetches, HIP's copies, which its runtime
does on the processor where they are small) are none of them.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final


class DeviceOperation(StrEnum):
    """What a call puts on the device."""

    KERNEL = "kernel"
    COPY = "copy"
    GRAPH = "graph"

    @property
    def number(self) -> int:
        """Its position among the operations, which is how columns hold it."""
        return DEVICE_OPERATIONS.index(self)


DEVICE_OPERATIONS: Final = tuple(DeviceOperation)

NO_OPERATION: Final = -1
"""Stands in a column for a call that puts nothing on the device."""

_PATTERNS: Final = (
    (DeviceOperation.GRAPH, re.compile(r"^(cuda|cu|hip)GraphLaunch")),
    (
        DeviceOperation.KERNEL,
        re.compile(r"^cudaLaunch$|^(cuda|cu|hip)(Ext)?(Module)?Launch(Cooperative)?Kernel(?!MultiDevice)"),
    ),
    (DeviceOperation.COPY, re.compile(r"^(cuda|cu)Mem(cpy|set)")),  # not cuMemSetAccess
)

CAPTURE_BEGINS: Final = re.compile(r"StreamBeginCapture")
CAPTURE_ENDS: Final = re.compile(r"StreamEndCapture")
"""Between the two, launches are written into a graph and run nothing."""

CHANGES_GRAPHS: Final = re.compile(r"NodeSetEnabled|ConditionalHandleCreate")
"""After such calls, not every launch of a graph runs all of its nodes."""


def operation_number(function: str) -> int:
    """What a function puts on the device, as a number, by its name without a version suffix; or NO_OPERATION."""
    kinds = (kind.number for kind, pattern in _PATTERNS if pattern.search(function))
    return next(kinds, NO_OPERATION)
