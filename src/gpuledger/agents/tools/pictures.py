"""A stretch of a run as a picture, for a model that can look."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpuledger.agents.answers import AgentAnswer
from gpuledger.agents.profiles import AgentProfiles
from gpuledger.agents.tools.tool import DEVICE, HANDLE, AgentTool
from gpuledger.analyse.timeline.events import lead_ns
from gpuledger.errors import GpuledgerError, MissingPackage
from gpuledger.ledger.device import Device
from gpuledger.ledger.step_variation import variation
from gpuledger.present.charts.png import png
from gpuledger.present.views.timeline_picture import timeline_picture as drawn
from gpuledger.trace.spans import Span
from gpuledger.units import instant_text, parse_stretch


def timeline_picture(
    profiles: AgentProfiles, handle: str, step: int | None = None, time: str | None = None, device: int | None = None
) -> AgentAnswer:
    """Draw the timeline of one step or stretch as an image: idle time by cause, GPU streams, host threads.

    Without step or time, the step of median length, from its first launch call on. Bars are colored by kernel family,
    kind of call or cause of idle time (see the legend); idle time is hatched. `time` of the answer is the stretch that
    is shown, to be given again with a part of it to zoom in.
    """
    opened = profiles.of(handle)
    on = opened.device(device)
    span = _step(on, step) if time is None else _stretch(on, opened.run.zero_ns, time)
    try:
        picture = drawn(opened.run, on, span, str)
        content = png(picture)
    except ModuleNotFoundError:
        raise MissingPackage(
            "a picture needs the package vl-convert-python, which is not installed",
            hint="`pip install 'gpuledger[charts]'` installs it",
        ) from None
    zero_ns = opened.run.zero_ns
    ends = [instant_text(end - zero_ns).replace(" ", "") for end in span]
    return AgentAnswer(
        {
            "handle": handle,
            "device": on.gpu,
            "start_ns": span.start_ns - zero_ns,
            "end_ns": span.end_ns - zero_ns,
            "time": ":".join(ends),
            "shows": picture.description,
            "legend": [words for _, words in picture.legend],
        },
        content,
    )


def _step(device: Device, number: int | None) -> Span:
    """A step with the launches that lead to it; the window where there are no steps."""
    varied = variation(device)
    if varied is None:
        if number is None:
            return device.ledger.window
        raise GpuledgerError("no steps were found in this profile", hint="give `time` instead, e.g. 0.5s:0.51s")
    steps = varied.steps
    if number is None:
        number = steps.warm_up + int(np.flatnonzero(steps.steady_ns == varied.median_ns)[0])
    if number >= len(steps):
        raise GpuledgerError(f"no step {number}", found=f"there are {len(steps)}, counted from 0")
    core = Span(int(steps.start_ns[number]), int(steps.end_ns[number]))
    return Span(core.start_ns - lead_ns(device.work, device.host, core), core.end_ns)


def _stretch(device: Device, zero_ns: int, time: str) -> Span:
    window = device.ledger.window
    try:
        first, last = parse_stretch(time)
    except ValueError as error:
        raise GpuledgerError(str(error)) from None
    start = window.start_ns if first is None else zero_ns + first
    end = window.end_ns if last is None else zero_ns + last
    if start >= end:
        raise GpuledgerError(f"{time!r} ends before it begins")
    return Span(start, end)


TOOLS: Final = (
    AgentTool(
        timeline_picture,
        {
            "handle": HANDLE,
            "step": {"type": "integer", "minimum": 0, "description": "By its number, as steps lists them."},
            "time": {"type": "string", "maxLength": 80, "description": "A:B, e.g. 0.5s:0.52s or integer ns."},
            "device": DEVICE,
        },
        title="Picture of the timeline",
    ),
)
