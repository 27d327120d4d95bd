"""The part of the profile that is asked for: the default window, `--time` and `--range` in, a stretch of time out."""

from __future__ import annotations

import re

import numpy as np

from gpuledger.errors import NothingRecorded
from gpuledger.ledger.activity import Activities
from gpuledger.ledger.host import Host
from gpuledger.ledger.launched_in import by_range, nothing_matches, range_names
from gpuledger.ledger.steps import Wanted
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Span
from gpuledger.units import instant_text


def narrowed(trace: Trace, work: Activities, host: Host, window: Span, wanted: Wanted) -> Span:
    """The part of the window that the user asks for."""
    start, end = window
    if wanted.scope_pattern is not None:
        pattern = re.compile(wanted.scope_pattern)
        member = by_range(trace, work, host, pattern, every_process=True)
        if member is None:
            raise nothing_matches(wanted.scope_pattern, "range", range_names(trace))
        inside = np.flatnonzero(member >= 0)
        call = work.launch[inside]
        start = min(int(work.start_ns[inside].min()), int(host.calls["start_ns"][call[call >= 0]].min()))
        end = int(work.end_ns[inside].max())
    if wanted.time_ns is not None:
        first, last = wanted.time_ns
        start, end = (
            max(start, window.start_ns + (first or 0)),
            min(end, window.end_ns if last is None else window.start_ns + last),
        )
    if end <= start:
        raise NothingRecorded(
            "nothing lies in that stretch of time",
            found=f"the profile's GPU work lies between 0 and {instant_text(window.end_ns - window.start_ns)}",
        )
    return Span(max(start, window.start_ns), min(end, window.end_ns))
