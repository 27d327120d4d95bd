"""Calls on the host: those of CUDA, those of other layers, and what their functions are called."""

from __future__ import annotations

import numpy as np

from gpuledger.trace.columns import by_row
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints
from gpuledger.trace.tables import Rows, Table

CUDA_LAYERS = ("runtime", "driver")
"""Calls of these layers launch GPU work; the others are of libraries and the operating system."""


def of_layers(trace: Trace, *layers: str) -> Rows:
    """The calls that belong to these layers."""
    calls = trace[Table.CALLS]
    wanted = [calls.strings.code(layer) for layer in layers]
    return calls.where(by_row(lambda codes: np.isin(codes, wanted), calls.codes("layer")))


def cuda_calls(trace: Trace) -> Rows:
    """The CUDA runtime and driver calls."""
    return of_layers(trace, *CUDA_LAYERS)


def shortened(function: str) -> str:
    """NVIDIA's display name: a version suffix of `_v` and exactly four characters is cut, once."""
    return function[:-6] if function[-6:-4] == "_v" else function


def short_names(calls: Rows) -> tuple[list[str], Ints]:
    """The display names of functions, and for each call the position of its own."""
    return calls.strings.kinds(calls.codes("name"), shortened)
