"""Launches as tables: by function, the queue, and by range."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from gpuledger.analyse.launch_costs import CallTimes, LaunchCosts
from gpuledger.ledger.activity import shortened
from gpuledger.messages import Message, say
from gpuledger.present.digits import tenths
from gpuledger.present.sheet import Column, Sheet, Unit
from gpuledger.units import time_text

_CALLS: Final = (
    Column("name", say("Call"), Unit.TEXT),
    Column("calls", say("Calls"), Unit.COUNT),
    Column("per_step", say("Per step"), Unit.MEAN),
    Column("total_ns", say("Time"), Unit.NS),
    Column("avg_ns", say("Avg"), Unit.MEAN_NS, detail=1),
    Column("med_ns", say("Med"), Unit.MEAN_NS, detail=2),
    Column("step_percent", say("Share of step"), Unit.SHARE_PERCENT),
)
_QUEUE: Final = (
    Column("figure", say("Figure"), Unit.TEXT),
    Column("value", say("Value"), Unit.MEAN),
    Column("unit", say("Unit"), Unit.TEXT),
)
_QUEUE_WITH_UNITS: Final = (_QUEUE[0], Column("value", say("Value"), Unit.FIGURE))
_RANGES: Final = (
    Column("range", say("Range"), Unit.TEXT),
    Column("instances", say("Instances"), Unit.COUNT),
    Column("launches", say("Launches"), Unit.COUNT),
    Column("per_instance", say("Per instance"), Unit.MEAN),
    Column("total_ns", say("Time"), Unit.NS),
)


def launches_sheets(costs: LaunchCosts, *, with_units: bool = False) -> list[Sheet]:
    """All tables about launches, over the steady steps; for people, with each figure's unit beside it."""
    queue = queue_with_units_sheet(costs) if with_units else queue_sheet(costs)
    return [launch_calls_sheet(costs), waiting_calls_sheet(costs), queue, ranges_sheet(costs)]


def launch_calls_sheet(costs: LaunchCosts) -> Sheet:
    """The calls that launch, by function."""
    return _calls_sheet(costs, costs.launch_calls, "launch_calls", say("Launch calls"))


def waiting_calls_sheet(costs: LaunchCosts) -> Sheet:
    """The calls that wait for the device, by function."""
    return _calls_sheet(costs, costs.waiting_calls, "waiting_calls", say("Calls that wait for the GPU"))


def _calls_sheet(costs: LaunchCosts, functions: Sequence[CallTimes], name: str, title: str) -> Sheet:
    rows = tuple(
        (
            shortened(function.name),
            function.times.count,
            function.times.count / costs.steps,
            function.times.total,
            function.times.average,
            function.times.median,
            100 * function.times.total / costs.steady_ns,
        )
        for function in functions
    )
    return Sheet(
        f"{name}_gpu{costs.gpu}", say("{title}, steady steps, GPU {gpu}", title=title, gpu=costs.gpu), _CALLS, rows
    )


def queue_sheet(costs: LaunchCosts) -> Sheet:
    """How far the host runs ahead, the unit of each figure beside it."""
    return Sheet(
        f"launch_queue_gpu{costs.gpu}",
        say("How far the host runs ahead, steady steps, GPU {gpu}", gpu=costs.gpu),
        _QUEUE,
        tuple(_queue_figures(costs)),
    )


def queue_with_units_sheet(costs: LaunchCosts) -> Sheet:
    """The same for people: each figure with its unit."""
    rows = tuple(
        (figure, time_text(round(value)) if unit == "ns" else f"{tenths(value)} {unit}".rstrip())
        for figure, value, unit in _queue_figures(costs)
    )
    return replace(queue_sheet(costs), columns=_QUEUE_WITH_UNITS, rows=rows)


def _queue_figures(costs: LaunchCosts) -> list[tuple[Message, float, str]]:
    """Name, value and unit."""
    queue = costs.queue
    figures: list[tuple[Message, float, str]] = [(say("GPU activities per step"), queue.activities_per_step, "")]
    if queue.tiny_share is not None:
        figures += [
            (say("of them under 5 us"), 100 * queue.tiny_share, "%"),
            (say("launched by a recorded call"), 100 * queue.launched / queue.activities, "%"),
        ]
    if queue.delays is not None:
        figures += [
            (say("queued, median"), queue.delays.median_ns, "ns"),
            (say("queued, 10th percentile"), queue.delays.p10_ns, "ns"),
            (say("queued, 90th percentile"), queue.delays.p90_ns, "ns"),
            (say("queued over 10 us (host ahead)"), 100 * queue.delays.ahead_share, "%"),
        ]
    return figures


def ranges_sheet(costs: LaunchCosts) -> Sheet:
    """Launches by the ranges that they lie in."""
    rows = tuple(
        (entry.name, entry.instances, entry.launches, entry.launches / entry.instances, entry.total_ns)
        for entry in costs.by_range
    )
    title = say("Launches by range, steady steps, GPU {gpu}", gpu=costs.gpu)
    return Sheet(f"launches_by_range_gpu{costs.gpu}", title, _RANGES, rows)
