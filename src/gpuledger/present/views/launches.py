"""Launches as tables: by function, the queue, and by range."""

from __future__ import annotations

import numpy as np

from gpuledger.analyse.activity_bins import launch_delays
from gpuledger.ledger.calls import shortened
from gpuledger.ledger.device import Device
from gpuledger.ledger.ranges import spans_of_time, thread
from gpuledger.present.sheet import Cell, Column, Sheet, Unit
from gpuledger.trace.keys import Positions, group
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import pairs_inside
from gpuledger.trace.statistics import summarise

_TINY_NS = 5_000
_MOST_RANGES = 20


def launches_sheets(trace: Trace, device: Device) -> list[Sheet]:
    """All tables about launches, over the steady steps."""
    gpu = device.gpu
    wait = device.steady_calls & (device.host.kinds == device.host.kind_names.index("sync"))
    made = [
        _by_function(device, device.steady_launches, "launch_calls", "Launch calls"),
        _by_function(device, np.flatnonzero(wait), "waiting_calls", "Calls that wait for the device"),
        _queue(device),
        _by_range(trace, device, device.steady_launches),
    ]
    return [Sheet(f"{sheet.name}_gpu{gpu}", f"{sheet.title}, GPU {gpu}", sheet.columns, sheet.rows) for sheet in made]


def _by_function(device: Device, chosen: Positions, name: str, title: str) -> Sheet:
    calls = device.host.calls.at(chosen)
    first, number = group(calls.codes("name"))
    names = calls.strings.decode(calls.codes("name")[first])
    times = summarise(calls.duration_ns, number)
    columns = (
        Column("name", "Call", Unit.TEXT),
        Column("calls", "Calls", Unit.COUNT),
        Column("per_step", "A step", Unit.MEAN),
        Column("total_ns", "Time", Unit.NS),
        Column("avg_ns", "Avg", Unit.MEAN_NS, detail=1),
        Column("med_ns", "Med", Unit.MEAN_NS, detail=2),
        Column("step_percent", "Of the step", Unit.SHARE_PERCENT),
    )
    rows: list[tuple[Cell, ...]] = [
        (
            shortened(function or ""),
            each.count,
            each.count / device.step_count,
            each.total,
            each.average,
            each.median,
            100 * each.total / device.steady_ns,
        )
        for function, each in zip(names, times, strict=True)
    ]
    rows.sort(key=lambda row: -int(str(row[3])))
    return Sheet(name, f"{title}, steady steps", columns, tuple(rows))


def _queue(device: Device) -> Sheet:
    found = device.found
    here = found.on(device.gpu)
    here = here[device.begins_steady(found.start_ns[here])]
    delay = launch_delays(device)
    length = found.end_ns[here] - found.start_ns[here]
    columns = (
        Column("figure", "Figure", Unit.TEXT),
        Column("value", "Value", Unit.MEAN),
        Column("unit", "Unit", Unit.TEXT),
    )
    rows: list[tuple[Cell, ...]] = [("GPU activities a step", len(here) / device.step_count, "")]
    if len(here):
        rows.append(("of them under 5 us", 100 * float((length < _TINY_NS).mean()), "%"))
        rows.append(("launched by a recorded call", 100 * len(delay) / len(here), "%"))
    if len(delay):
        rows += [
            ("queued, median", float(np.median(delay)), "ns"),
            ("queued, 10th percentile", float(np.percentile(delay, 10)), "ns"),
            ("queued, 90th percentile", float(np.percentile(delay, 90)), "ns"),
            ("queued over 10 us (host ahead)", 100 * float((delay > 10_000).mean()), "%"),
        ]
    return Sheet("launch_queue", "How far the host runs ahead, steady steps", columns, tuple(rows))


def _by_range(trace: Trace, device: Device, chosen: Positions) -> Sheet:
    """Launch calls inside each range, the ranges around it included."""
    calls = device.host.calls.at(chosen)
    ranges = spans_of_time(trace)
    outer, inner = pairs_inside(
        ranges["start_ns"], ranges["end_ns"], thread(ranges), calls["start_ns"], calls["end_ns"], thread(calls)
    )
    first, number = group(ranges.codes("name")[outer])
    times = summarise(calls.duration_ns[inner], number)
    instances = np.bincount(number[group(number, outer)[0]], minlength=len(first))
    names = trace.strings.decode(ranges.codes("name")[outer[first]])
    columns = (
        Column("range", "Range", Unit.TEXT),
        Column("instances", "Instances", Unit.COUNT),
        Column("launches", "Launches", Unit.COUNT),
        Column("per_instance", "Each", Unit.MEAN),
        Column("total_ns", "Time", Unit.NS),
    )
    rows = [
        (name or "", int(count), each.count, each.count / count, each.total)
        for name, count, each in zip(names, instances.tolist(), times, strict=True)
    ]
    rows.sort(key=lambda row: (-row[2], row[0]))
    return Sheet("launches_by_range", "Launches by range, steady steps", columns, tuple(rows[:_MOST_RANGES]))
