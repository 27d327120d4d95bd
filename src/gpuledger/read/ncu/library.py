"""NVIDIA's `ncu_report` library: a report in, what its launches say out, in a process of its own.

The library is native code that parses bytes of strangers. Started as `python -m gpuledger.read.ncu.library`, it may
crash, hang or eat memory without harm: `ncu_rep` watches it and reads the file that it leaves.
"""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from gpuledger.read.ncu.launch import is_wanted, plain
from gpuledger.read.ncu.numbers import LARGEST
from gpuledger.read.ncu.units import UnknownUnit, scale, scaled
from gpuledger.trace.kernel_report import Advice

PACKAGE: Final = "ncu_report"


class MeasuredLaunch(msgspec.Struct, array_like=True, frozen=True):
    """One launch as the library tells it. Metrics are numbered: their names are the same for all launches."""

    index: int
    name: str
    metrics: dict[int, float]
    texts: dict[int, str]
    nvtx: list[str]
    advice: list[Advice]


class ChildReply(msgspec.Struct, array_like=True, frozen=True):
    """What the child hands to its parent."""

    names: list[str]
    units: list[str]
    """The unit of each metric where it is not understood, else empty."""
    launches: list[MeasuredLaunch]
    actions: int
    ranges: int
    unknown_units: dict[int, int]
    """By metric, how many values were left out for their unit."""
    implausible: int = 0
    """How many values were left out as larger than any counter can be."""


def main(report: str, target: str, every_metric: bool, text_bytes: int, memory_bytes: int) -> None:
    """Read `report`, write what it says to `target`."""
    _bound(memory_bytes)
    context = importlib.import_module(PACKAGE).load_report(report)
    Path(target).write_bytes(msgspec.msgpack.encode(ReportWalk(every_metric, text_bytes).of(context)))


def _bound(memory_bytes: int) -> None:
    """No more memory than allowed, and no core file when it crashes; where the system has such bounds."""
    try:
        resource = importlib.import_module("resource")
    except ImportError:
        return
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    bound = memory_bytes if hard == resource.RLIM_INFINITY else min(memory_bytes, hard)
    resource.setrlimit(resource.RLIMIT_AS, (bound, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


class ReportWalk:
    """Goes through a report once and numbers the metrics as they come."""

    def __init__(self, every_metric: bool, text_bytes: int) -> None:
        self._every, self._text_bytes = every_metric, text_bytes
        self._numbers: dict[str, int] = {}
        self._units: dict[int, str] = {}
        self._unknown: dict[int, int] = {}
        self._implausible = 0

    def of(self, context: Any) -> ChildReply:
        ranges = [context.range_by_idx(at) for at in range(context.num_ranges())]
        actions = [each.action_by_idx(at) for each in ranges for at in range(each.num_actions())]
        launches = [
            measured for at, action in enumerate(actions) if action and (measured := self._measured(at, action))
        ]
        return ChildReply(
            list(self._numbers),
            [self._units.get(number, "") for number in self._numbers.values()],
            launches,
            len(actions),
            len(ranges),
            self._unknown,
            self._implausible,
        )

    def _measured(self, at: int, action: Any) -> MeasuredLaunch | None:
        """None for a launch of which nothing is left, as the end of a cut file leaves them."""
        name = action.name(action.NameBase_DEMANGLED) or action.name(action.NameBase_FUNCTION)
        if not name and action.workload_type() != action.WorkloadType_KERNEL:
            name = "(range)"
        # a name that is not ASCII is none of NVIDIA's, and the library would not take it back
        names = [each for each in action.metric_names() if each.isascii() and is_wanted(each, self._every)]
        if not names or not name:
            return None
        metrics: dict[int, float] = {}
        texts: dict[int, str] = {}
        for each in names:
            metric = action.metric_by_name(each)
            value = metric.value() if metric is not None and metric.has_value() else None
            if isinstance(value, str) and value:
                texts[self._number(each)] = self._clean(value)
            elif isinstance(value, int | float) and math.isfinite(value):
                self._keep(metrics, each, float(value), metric.unit() or "")
        return MeasuredLaunch(at, self._clean(name), metrics, texts, [*self._nvtx(action)], [*self._advice(action)])

    def _keep(self, metrics: dict[int, float], name: str, value: float, unit: str) -> None:
        number = self._number(name)
        try:
            exponent, _ = scale(unit)
        except UnknownUnit:
            self._units[number] = self._clean(unit)
            self._unknown[number] = self._unknown.get(number, 0) + 1
        else:
            base = scaled(value, exponent)
            if abs(base) < LARGEST:
                metrics[number] = base
            else:
                self._implausible += 1

    def _number(self, name: str) -> int:
        return self._numbers.setdefault(self._clean(name), len(self._numbers))

    def _nvtx(self, action: Any) -> Iterator[str]:
        """Names of the ranges that were open, outermost first."""
        state = action.nvtx_state()
        for domain in (state.domain_by_id(each) for each in state.domains()) if state else ():
            if domain is not None:
                yield from map(self._clean, (*domain.start_end_ranges(), *domain.push_pop_ranges()))

    def _advice(self, action: Any) -> Iterator[Advice]:
        """What NVIDIA's rules said; rules that said nothing are left out."""
        for result in action.rule_results_as_dicts():
            said, gain = result.get("rule_message") or {}, result.get("speedup_estimation") or {}
            message = plain(self._clean(said.get("message") or ""))
            speedup = float(gain.get("speedup", math.nan))
            if message:
                yield Advice(
                    rule=self._clean(result.get("rule_identifier") or ""),
                    title=plain(self._clean(said.get("title") or "")),
                    message=message,
                    speedup_share=speedup / 100 if math.isfinite(speedup) else None,
                    scope={1: "local", 2: "global"}.get(int(gain.get("type", 0)), ""),
                )

    def _clean(self, text: str) -> str:
        """Text that can be written, no longer than it may be."""
        return text[: self._text_bytes].encode("utf-8", "replace").decode()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3] == "every", int(sys.argv[4]), int(sys.argv[5]))
