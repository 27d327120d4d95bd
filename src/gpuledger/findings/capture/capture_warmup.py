"""CAPTURE-WARMUP: the profile shows the start, not the steady state.

Much of the window is model loading, module load, compilation, autotuning or allocation; steady steps come late, or
there are only a few. Shares of the whole profile then describe start-up: large host-to-device copies, `cudaMalloc`,
library loads, kernels that never occur again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from gpuledger.catalog.calls import DeviceOperation
from gpuledger.findings.finding import Evidence, Finding
from gpuledger.findings.rule import Capture, Rule
from gpuledger.messages import say
from gpuledger.trace.spans import holds, total
from gpuledger.units import count_text, time_text


def _graph_capture(rule: Rule[Capture], subject: Capture) -> Sequence[Finding]:
    """A recording of graphs being captured: more is launched into graphs than runs, and none of them is run often."""
    host, work = subject.devices[0].host, subject.devices[0].work
    if not host.captures or 2 * host.launches_per_capture > 1:
        return ()
    calls, launches = host.calls, np.flatnonzero(host.operations == DeviceOperation.KERNEL.number)
    is_captured = np.zeros(len(launches), np.bool_)
    for process, captures in host.captures.items():
        is_captured |= (calls["pid"][launches] == process) & holds(captures, calls["start_ns"][launches])
    count = int(np.count_nonzero(is_captured))
    if count <= len(work):
        return ()
    claim = say(
        "this is a recording of CUDA graphs being captured: {count} of {of} kernel launches go into graphs and run "
        "nothing",
        count=count_text(count),
        of=count_text(len(launches)),
    )
    captured_ns = sum(map(total, host.captures.values()))
    time = say("captures take {time}, once", time=time_text(captured_ns))
    later = Evidence(say("record later, when the graphs are launched"), count=count)
    return [Finding(rule.code, claim, (Evidence(time), later), explains_ns=captured_ns)]


def _warm_up(rule: Rule[Capture], subject: Capture) -> Sequence[Finding]:
    for steps in (device.steps for device in subject.devices):
        if steps is not None and 4 * steps.warm_up > len(steps):
            claim = say(
                "{count} of {steps} steps are warm-up", count=count_text(steps.warm_up), steps=count_text(len(steps))
            )
            advice = Evidence(say("record later, or more steps"), count=steps.warm_up)
            return [Finding(rule.code, claim, (advice,))]
    return ()


GRAPH_CAPTURE: Final = Rule("CAPTURE-WARMUP", _graph_capture, None)

RULE: Final = Rule("CAPTURE-WARMUP", _warm_up, None)
