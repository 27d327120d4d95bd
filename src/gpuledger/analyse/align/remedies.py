"""What to do about a check that does not pass, from what is usually wrong with a mock."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from gpuledger.analyse.align.sequence_alignment import INSERTED
from gpuledger.analyse.align.side_by_side import SideBySide
from gpuledger.analyse.align.verdicts import (
    EXTRA_KERNELS,
    FAIL,
    GRAPH,
    LATENCY,
    MISSING_KERNELS,
    NOT_MEASURED,
    SHAPE,
    WARN,
    AlignCheck,
)
from gpuledger.catalog.name_likeness import EXACT, NONE
from gpuledger.messages import say

_OTHER_KERNEL: Final = say(
    "The mock calls another implementation, or the model fuses what the mock runs separately: "
    "build the mock from the framework's own class, with the model's backend, data type and "
    "quantization."
)
_OTHER_TILE: Final = say(
    "Libraries choose the tile by size, alignment and data type: give the mock the model's batch, sequence length, "
    "head counts, tensor-parallel split and data type."
)
_MORE_CALLS: Final = say(
    "The mock calls a kernel more often: move initialization, metadata and input preparation out "
    "of its forward, or batch what it runs one by one, as the model does."
)
_FEWER_CALLS: Final = say(
    "The mock calls a kernel less often: check the number of heads, experts, chunks and micro-batches per forward."
)
_MISSING: Final = say(
    "Something the operation depends on is not set up in the mock: the KV-cache manager, "
    "quantization, position embeddings, a communicator; or the model fuses it in."
)
_EXTRA: Final = say(
    "Look for initialization, input preparation or debugging code inside the mock's forward; if "
    "the model fuses it into another kernel, use the fused path. --mock-range=REGEX leaves out "
    "what surrounds the forward."
)
_GRAPH_MOCK: Final = say("Capture the mock's forward in a CUDA graph and time its replay, as the model does.")
_GRAPH_MODEL: Final = say("The model runs without CUDA graphs: time the mock without one, or switch the model's on.")
_GRAPH_PARTLY: Final = say("Capture the same part of the operation in the graph on both sides.")
_SHAPE: Final = say(
    "The grid follows the sizes of the input: give the mock the model's batch, sequence and KV length and head counts."
)
_OTHER_GPU: Final = say("The two profiles are of different GPUs: record both on the same one.")
_FASTER: Final = say(
    "The kernels have the same launch shape and take less time. Most likely the mock, which "
    "repeats one layer, finds weights and inputs still in the GPU's cache, while in the model "
    "other layers run in between: rotate over several copies of the weights, or flush the cache "
    "between forwards. Otherwise compare the KV length, data types and clocks."
)
_SLOWER: Final = say(
    "The kernels have the same launch shape and take more time: compare the KV length, data "
    "layout and clocks, and look for other work on the GPU at the same time."
)
_OTHER_INPUT: Final = say(
    "The launch shapes differ, so the inputs differ: align these first, then compare times again."
)
_INPUT_UNKNOWN: Final = say(
    "Launch shapes are unknown here, so compare the inputs first: batch, sequence and KV length, "
    "data types. Profiles have them; tables do not."
)
_NOT_REPLAYED: Final = say("The model replays a CUDA graph: time the mock's replay too.")


_FIXED: Final = {MISSING_KERNELS: _MISSING, EXTRA_KERNELS: _EXTRA, SHAPE: _SHAPE}


def with_remedies(checks: tuple[AlignCheck, ...], sides: SideBySide) -> tuple[AlignCheck, ...]:
    """The checks, those that do not pass with what to do about it."""
    return tuple(
        replace(check, remedy=remedy(check, sides, checks)) if check.verdict in (WARN, FAIL) else check
        for check in checks
    )


def remedy(check: AlignCheck, sides: SideBySide, checks: tuple[AlignCheck, ...]) -> str:
    """What to do about one check that does not pass."""
    match check.check:
        case "names":
            return _OTHER_KERNEL if sides.rows_at(NONE) or not sides.rows_at(EXACT) else _OTHER_TILE
        case "counts":
            return _MORE_CALLS if any(row.level == INSERTED for row in sides.rows) else _FEWER_CALLS
        case "graph":
            return _graph(sides)
        case "latency":
            return _latency(sides, checks)
    return _FIXED[check.check]


def _graph(sides: SideBySide) -> str:
    mock, e2e = ({bool(kernel.in_graph) for kernel in side.kernels} for side in (sides.mock, sides.e2e))
    if len(mock) > 1 or len(e2e) > 1:
        return _GRAPH_PARTLY
    return _GRAPH_MOCK if e2e == {True} else _GRAPH_MODEL


def _latency(sides: SideBySide, checks: tuple[AlignCheck, ...]) -> str:
    """The first reason that the profiles give; else what is left."""
    verdicts = {check.check: check.verdict for check in checks}
    if sides.mock.gpu_name != sides.e2e.gpu_name:
        return _OTHER_GPU
    if verdicts[SHAPE] == WARN:
        return _OTHER_INPUT
    if verdicts[SHAPE] == NOT_MEASURED:
        return _INPUT_UNKNOWN
    figures = next(check.figures for check in checks if check.check == LATENCY)
    ratio = figures["ratio"]
    slower = isinstance(ratio, float) and ratio > 1
    if slower and verdicts[GRAPH] == WARN and all(kernel.in_graph for kernel in sides.e2e.kernels):
        return _NOT_REPLAYED
    return _SLOWER if slower else _FASTER
