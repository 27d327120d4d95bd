"""The kernels of a step as a timeline alone shows them: in the order of execution, with time and share of compute."""

from __future__ import annotations

from typing import Final

from gpuledger.analyse.kernels.step_kernels import StepOverview
from gpuledger.catalog.kernel_families import family
from gpuledger.catalog.kernel_names import label
from gpuledger.ledger.device import Device
from gpuledger.messages import Message, say
from gpuledger.present.sheet import Cell, Column, Sheet, Unit
from gpuledger.present.views.kernels import shape_text
from gpuledger.units import count_text

_COLUMNS: Final = (
    Column("number", "#", Unit.ID),
    Column("kernel", say("Kernel"), Unit.TEXT, shorten=label),
    Column("calls", say("Calls"), Unit.COUNT),
    Column("time_ns", say("Time per step"), Unit.NS),
    Column("share_percent", say("Share"), Unit.SHARE_PERCENT),
    Column("call_ns", say("One call"), Unit.NS, detail=1),
    Column("family", say("Family"), Unit.TEXT, detail=3),
    Column("range", say("Place"), Unit.TEXT, detail=2),
    Column("layers", say("Layers"), Unit.COUNT, detail=4),
    Column("grid", say("Grid"), Unit.TEXT, detail=5),
    Column("block", say("Block"), Unit.TEXT, detail=6),
)


def step_kernels_sheet(overview: StepOverview, device: Device, families: tuple[tuple[str, str], ...] = ()) -> Sheet:
    """One row per kernel: like launches at one place together, in the order in which each is first launched."""
    steps, whole_ns = device.step_count, overview.time_ns
    rows: list[tuple[Cell, ...]] = [
        (
            number,
            kernel.name,
            kernel.calls,
            kernel.time_ns // steps,
            100 * kernel.time_ns / whole_ns,
            kernel.mean_ns,
            family(kernel.name, families),
            " > ".join(kernel.place),
            overview.layers if kernel.in_layer else None,
            shape_text(kernel.grid),
            shape_text(kernel.block),
        )
        for number, kernel in enumerate(overview.entries, 1)
    ]
    unrecorded = say("(graphs whose kernels were not recorded)")
    foot = [_foot(unrecorded, overview.other_ns, overview, steps)] if overview.other_ns else []
    calls = sum(kernel.calls for kernel in overview.entries)
    foot.append(_foot(say("compute"), whole_ns, overview, steps, calls))
    return Sheet(f"kernels_gpu{device.gpu}", _title(device), _COLUMNS, tuple(rows), tuple(foot))


def _title(device: Device) -> Message:
    if device.steps is None:
        return say("Kernels of the window in execution order, GPU {gpu} (shares of compute)", gpu=device.gpu)
    return say(
        "Kernels in execution order, GPU {gpu} (calls in all {steps} steps; shares of compute)",
        gpu=device.gpu,
        steps=count_text(device.step_count),
    )


def _foot(name: str, time_ns: int, overview: StepOverview, steps: int, calls: int | None = None) -> tuple[Cell, ...]:
    share = 100 * time_ns / overview.time_ns if overview.time_ns else None
    return (None, name, calls, time_ns // steps, share, *(None,) * (len(_COLUMNS) - 5))
