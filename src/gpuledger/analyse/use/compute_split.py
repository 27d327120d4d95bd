"""The compute lines of the books split by use: a device and its samples in, time by line and class out.

An instant of compute belongs to the kernel that started first, as in the books, and so to that kernel's class; the
classes of a line sum to it. Without samples, and in graphs whose kernels were not recorded, all is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuledger.analyse.use.use_class import CLASSES, UNKNOWN, UseClass
from gpuledger.ledger.activity import GRAPH_FAMILY, State
from gpuledger.ledger.books import compute_by
from gpuledger.ledger.device import Device
from gpuledger.ledger.lines import Line
from gpuledger.trace.columns import distinct

TimeByClass = Mapping[UseClass, int]


@dataclass(frozen=True, slots=True)
class ComputeSplit:
    """Compute by line of the books, and within each by class; every class is there."""

    window: Mapping[Line, TimeByClass]
    steady: Mapping[Line, TimeByClass]
    """Of the steady stretch, as `Device.line_ns`."""

    @property
    def steady_total(self) -> TimeByClass:
        """All compute of the steady stretch."""
        return {name: sum(times[name] for times in self.steady.values()) for name in CLASSES}


def compute_split(device: Device, class_of_row: NDArray[np.int8] | None) -> ComputeSplit:
    """One GPU's compute, by the classes that `UseOfKernels` has; None: nothing was sampled."""
    books = device.ledger
    if class_of_row is None:
        return ComputeSplit(_unknown(books.total()), _unknown(device.line_ns))
    own = device.work.of(device.gpu)
    families = len(own.families)
    is_kernel = (own.state == State.COMPUTE) & (own.family != own.families.index(GRAPH_FAMILY))
    number = np.full(len(own), UNKNOWN)
    number[is_kernel] = class_of_row[own.row[is_kernel]]
    label = np.where(own.state == State.COMPUTE, own.family * len(CLASSES) + number, -1)
    edges = distinct(np.array([*books.window, *np.clip(device.steady, *books.window)]))
    times = compute_by(own, books.busy, edges, label, families * len(CLASSES)).reshape(-1, families, len(CLASSES))
    steady = (edges[:-1] >= device.steady.start_ns) & (edges[:-1] < device.steady.end_ns)
    return ComputeSplit(*(_by_line(own.families, part.sum(axis=0).tolist()) for part in (times, times[steady])))


def _unknown(lines: Mapping[Line, int]) -> dict[Line, TimeByClass]:
    nothing = dict.fromkeys(CLASSES, 0)
    return {line: nothing | {UseClass.UNKNOWN: ns} for line, ns in lines.items() if line.is_compute}


def _by_line(families: tuple[str, ...], times: list[list[int]]) -> dict[Line, TimeByClass]:
    """Families without time are left out, as in the books."""
    return {
        Line.of_family(family): dict(zip(CLASSES, of_family, strict=True))
        for family, of_family in zip(families, times, strict=True)
        if any(of_family)
    }
