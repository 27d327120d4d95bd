"""A profile in, the forwards of the operation out: of a mock those of its busiest GPU, of a model those of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gpuledger.analyse.align.alignment import Isolation
from gpuledger.analyse.align.forwards import ForwardKernel, Forwards, gathered
from gpuledger.analyse.align.operation_kernels import (
    OperationKernels,
    by_pattern,
    by_range,
    by_sequence,
    by_steps,
    matching_names,
)
from gpuledger.errors import NothingRecorded
from gpuledger.ledger.device import Device, analysed
from gpuledger.ledger.steps import Wanted
from gpuledger.messages import say
from gpuledger.trace.model import Trace

_ALL: Final = Isolation("auto")
"""A mock is the operation, all of it."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """The forwards on each GPU that runs the operation, and what is to be said about how they were found."""

    forwards: tuple[Forwards, ...]
    notes: tuple[str, ...]


def of_mock(
    trace: Trace, profile: str, wanted: Wanted, mock_range: str | None = None, isolation: Isolation = _ALL
) -> Ranks:
    """A forward of the mock is a step of it, or a range that matches; with a pattern, what matches of it."""
    devices = analysed(trace, profile, wanted)
    busiest = max(devices, key=lambda device: device.compute_ns)
    operation = by_steps(busiest, profile) if mock_range is None else by_range(trace, busiest, profile, mock_range)
    if isolation.kernel_pattern is not None:
        operation = matching_names(trace, busiest, profile, operation, isolation.kernel_pattern)
    several = (
        say(
            "{profile}: {count} GPUs in use; GPU {gpu}, the busiest, is taken as the mock",
            profile=profile,
            count=len(devices),
            gpu=busiest.gpu,
        ),
    )
    notes = (*operation.notes, *(several if len(devices) > 1 else ()))
    return Ranks((gathered(trace, busiest, profile, operation.kernel, operation.forward),), notes)


def of_model(trace: Trace, profile: str, wanted: Wanted, isolation: Isolation, mock: Sequence[ForwardKernel]) -> Ranks:
    """The operation on every GPU of the model; a GPU that does not run it is left out if another one does."""
    forwards: list[Forwards] = []
    notes: list[str] = []
    refused: list[NothingRecorded] = []
    for device in analysed(trace, profile, wanted):
        try:
            operation = _isolated(trace, device, profile, isolation, mock)
        except NothingRecorded as error:
            refused.append(error)
            continue
        forwards.append(gathered(trace, device, profile, operation.kernel, operation.forward))
        notes += operation.notes
    if not forwards:
        raise refused[0]
    return Ranks(tuple(forwards), tuple(dict.fromkeys(notes)))


def _isolated(
    trace: Trace, device: Device, profile: str, isolation: Isolation, mock: Sequence[ForwardKernel]
) -> OperationKernels:
    if isolation.expression is None:
        return by_sequence(trace, device, profile, mock)
    if isolation.by == "range":
        return by_range(trace, device, profile, isolation.expression)
    return by_pattern(trace, device, profile, isolation.expression, mock)
