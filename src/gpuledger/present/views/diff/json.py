"""A comparison as the document gpuledger.diff/1. Times are whole nanoseconds, per step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from gpuledger.analyse.diff.compare import TimeChange, UseChange, launch_split
from gpuledger.analyse.diff.gate import GateOutcome
from gpuledger.analyse.diff.noise import Controls, Interval
from gpuledger.analyse.diff.pairs import RangePair
from gpuledger.analyse.diff.run_side import KERNEL_TIME, RunKernel, RunRange, RunSide
from gpuledger.present.views.diff.compared import Compared
from gpuledger.present.views.diff.figures import change_share
from gpuledger.present.views.diff.tables import RangeWholes, calls_paired, copies_paired, range_host_ns
from gpuledger.trace.model import NotMeasured


def diff_data(compared: Compared) -> dict[str, Any]:
    """The document."""
    found = compared.diff
    known = found.before.whole != KERNEL_TIME
    wholes = RangeWholes(found)
    return {
        "schema": "gpuledger.diff/1",
        "verdict": found.verdict,
        "step_delta_ns": found.delta_ns if known else None,
        "interval_ns": _interval(found.interval),
        "no_interval": found.interval.reason if isinstance(found.interval, NotMeasured) else None,
        "whole": {
            "what": found.before.whole,
            "before_ns": found.before.median_ns,
            "after_ns": found.after.median_ns,
            "delta_ns": found.delta_ns,
            "delta_share": _share(found.share),
        },
        "before": _side(found.before),
        "after": _side(found.after),
        "overlap": {"before_share": found.overlap.before_share, "after_share": found.overlap.after_share},
        "parts": [{"part": part.name, "ns": part.ns} for part in found.parts],
        "lines": _lines(found.before, found.after),
        "families": _families(found.before, found.after),
        "kernels": [_kernel(change) for change in (*found.changes, *found.comm)],
        "launches": _launches(compared),
        "calls": [
            {
                "name": name,
                "before": _counted(*one),
                "after": _counted(*other),
                "delta_ns": round(other[1] - one[1]),
            }
            for name, one, other in calls_paired(found)
        ],
        "ranges": [_range(compared, pair, wholes) for pair in found.ranges],
        "memory": _memory(compared),
        "controls": _controls(found.controls),
        "gates": [_gate(each) for each in compared.outcomes],
        "notes": list(found.notes),
        "use": _use(found.use),
    }


def _use(changes: Sequence[UseChange] | None) -> list[dict[str, Any]] | None:
    if not changes:
        return None if changes is None else []
    from gpuledger.present.views.diff.use import use_json

    return use_json(changes)


def _interval(interval: Interval | NotMeasured) -> list[int] | None:
    return None if isinstance(interval, NotMeasured) else [math.floor(interval.low_ns), math.ceil(interval.high_ns)]


def _share(share: float) -> float | None:
    """None for what was not there before."""
    return share if math.isfinite(share) else None


def _side(side: RunSide) -> dict[str, Any]:
    return {
        "name": side.name,
        "tool": side.tool,
        "gpu": side.gpu_name,
        "device": side.gpu,
        "clock_hz": side.clock_hz,
        "busy_clock_hz": None if side.busy_clock_hz is None else round(side.busy_clock_hz),
        "ranks": side.ranks,
        "gpus": [{"device": gpu, "step_ns": ns} for gpu, ns in side.gpus.items()],
        "steps_by": side.source,
        "runs": list(side.run_steps),
        "steps": side.steps,
        "step_ns": side.median_ns if side.whole != KERNEL_TIME else None,
        "mean_ns": round(side.mean_ns) if side.whole != KERNEL_TIME else None,
        "losses": list(side.losses),
    }


def _lines(before: RunSide, after: RunSide) -> list[dict[str, Any]]:
    """Ledger lines, means over the steps."""
    names = dict.fromkeys((*before.lines, *after.lines))
    return [{"line": name, **_moved(before.line_mean_ns(name), after.line_mean_ns(name))} for name in names]


def _families(before: RunSide, after: RunSide) -> list[dict[str, Any]]:
    def times(side: RunSide) -> dict[str, float]:
        sums: dict[str, float] = {}
        for kernel in side.kernels:
            sums[kernel.family] = sums.get(kernel.family, 0.0) + kernel.time_ns / side.steps
        return sums

    old, new = times(before), times(after)
    return [{"family": name, **_moved(old.get(name, 0.0), new.get(name, 0.0))} for name in dict.fromkeys((*old, *new))]


def _moved(before: float, after: float) -> dict[str, Any]:
    share = _share(change_share(before, after))
    return {
        "before_ns": round(before),
        "after_ns": round(after),
        "delta_ns": round(after) - round(before),
        "delta_share": share,
    }


def _kernel(change: TimeChange) -> dict[str, Any]:
    return {
        "match": change.pair.level,
        "family": change.pair.first.family,
        "before": [_shape(kernel) for kernel in change.pair.before],
        "after": [_shape(kernel) for kernel in change.pair.after],
        "calls_before": change.calls[0],
        "calls_after": change.calls[1],
        "each_before_ns": round(change.each_ns[0]),
        "each_after_ns": round(change.each_ns[1]),
        **_moved(*change.ns),
        "by_calls_ns": round(change.by_calls_ns),
        "by_time_per_call_ns": round(change.by_time_ns),
        "by_mix_ns": round(change.by_mix_ns),
    }


def _shape(kernel: RunKernel) -> dict[str, Any]:
    return {
        "name": kernel.name,
        "grid": list(kernel.grid),
        "block": list(kernel.block),
        "place": list(kernel.place),
        "calls": kernel.calls,
        "ns": kernel.time_ns,
    }


def _counted(calls: float, time_ns: float) -> dict[str, Any]:
    return {"calls": calls, "ns": round(time_ns), "each_ns": round(time_ns / calls) if calls else None}


def _launches(compared: Compared) -> dict[str, Any] | None:
    found, split = compared.diff, launch_split(compared.diff.before, compared.diff.after)
    if split is None or found.before.launches is None or found.after.launches is None:
        return None
    sides = [
        (launches.calls / steps, launches.time_ns / steps)
        for launches, steps in ((found.before.launches, found.before.steps), (found.after.launches, found.after.steps))
    ]
    return {
        "before": _counted(*sides[0]),
        "after": _counted(*sides[1]),
        "by_number_ns": round(split[0]),
        "by_cost_ns": round(split[1]),
    }


def _range(compared: Compared, pair: RangePair, wholes: RangeWholes) -> dict[str, Any]:
    found = compared.diff
    of_whole = wholes.of(pair)
    host = range_host_ns(found, pair)
    share = change_share(*host)
    corrected = None
    if isinstance(found.controls, Controls) and found.controls.corrects(pair):
        corrected = (1 + share) / found.controls.ratio - 1
    return {
        "match": pair.level,
        "unchanged": pair.unchanged,
        "before": _held(pair.before, found.before.steps),
        "after": _held(pair.after, found.after.steps),
        "host_delta_ns": round(host[1] - host[0]),
        "host_delta_share": _share(share),
        "corrected_share": corrected,
        "before_of_whole": of_whole[0],
        "after_of_whole": of_whole[1],
    }


def _held(held: RunRange | None, steps: int) -> dict[str, Any] | None:
    if held is None:
        return None
    return {
        "name": held.name,
        "instances": held.instances / steps,
        "host_ns": round(held.host_ns / steps),
        "gpu_ns": None if held.gpu_ns is None else round(held.gpu_ns / steps),
        "wait_ns": None if held.wait_ns is None else round(held.wait_ns / steps),
    }


def _memory(compared: Compared) -> list[dict[str, Any]]:
    found = compared.diff
    rows: list[dict[str, Any]] = []
    for kind, one, other in copies_paired(found):
        rows.append({"what": kind, "before": _copied(*one), "after": _copied(*other)})
    peaks = (found.before.peak_bytes, found.after.peak_bytes)
    if any(peak is not None for peak in peaks):
        sides = [{"count": None, "bytes": peak, "ns": None} for peak in peaks]
        rows.append({"what": "peak in use", "before": sides[0], "after": sides[1]})
    return rows


def _copied(count: float, size: float | None, time_ns: float) -> dict[str, Any]:
    return {"count": count, "bytes": None if size is None else round(size), "ns": round(time_ns)}


def _controls(guards: Controls | NotMeasured) -> dict[str, Any] | None:
    if isinstance(guards, NotMeasured):
        return None
    return {
        "ranges": list(guards.names),
        "before_ns": guards.before_ns,
        "after_ns": guards.after_ns,
        "change_share": guards.ratio - 1,
        "interval_ns": _interval(guards.interval),
        "may_be_noise": guards.is_noise,
        "calls_seen": guards.known,
        "corrected_step_delta_ns": guards.corrected_delta_ns,
    }


def _gate(outcome: GateOutcome) -> dict[str, Any]:
    return {
        "gate": outcome.gate.text,
        "measures": outcome.gate.measures,
        "before": outcome.before,
        "after": outcome.after,
        "change_share": _share(outcome.share),
        "interval": _bounds(outcome.interval),
        "tripped": outcome.tripped,
        "may_be_noise": outcome.in_noise,
    }


def _bounds(interval: Interval | NotMeasured) -> Sequence[float] | None:
    return None if isinstance(interval, NotMeasured) else [interval.low_ns, interval.high_ns]
