"""The critical path on a timeline: its segments in, records that follow each other without a gap out.

A segment is called after the kernel, copy or call that it is, or after the cause of the time between those.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from gpuledger.catalog.kernel_names import label
from gpuledger.export.book_tracks import PATH, in_a_row
from gpuledger.export.timeline import Records, Track, TrackKind, UniqueNumbers, shown, text_argument
from gpuledger.ledger.calls import shortened
from gpuledger.replay.critical_path import PathPart, critical_path
from gpuledger.replay.scenario import Scenario
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints
from gpuledger.trace.strings import NO_TEXT

_PARTS: Final = {
    PathPart.RUNNING: "running",
    PathPart.BEFORE_START: "before its start",
    PathPart.CALL: "call",
    PathPart.CODE: "host code before a call",
    PathPart.WAKE_UP: "wake-up after a wait",
    PathPart.OUTSIDE: "unknown",
}


def path_side(trace: Trace, scenario: Scenario, above: Track, numbers: UniqueNumbers) -> tuple[Track, Records]:
    """The path of one GPU's steady stretch, on a track under the GPU."""
    track = Track(numbers.uuid(), TrackKind.SLICES, "critical path", above.uuid, above.pid, numbers.like(0), PATH)
    path, work, calls = critical_path(scenario), scenario.device.work, scenario.device.host.calls
    name = np.append(work.name, NO_TEXT)[path.operation]
    call = np.append(calls.codes("name")[scenario.graph.call_row], NO_TEXT)[path.call]
    kernels, kernel = trace.strings.kinds(name, lambda text: label(text or ""))
    functions, function = trace.strings.kinds(call, lambda text: shortened(text or ""))
    causes = [str(line.cause or line) for line in path.lines]
    runs = path.are(PathPart.RUNNING) & (name != NO_TEXT)
    calling = path.are(PathPart.CALL) | path.are(PathPart.WAKE_UP)
    title: Ints = path.line.astype(np.int64)
    title = np.where(runs, len(causes) + kernel, np.where(calling, len(causes) + len(kernels) + function, title))
    before = np.where(path.are(PathPart.BEFORE_START), kernel, -1)
    arguments = (
        text_argument("part", list(_PARTS.values()), path.part.astype(np.int64)),
        text_argument("line", path.lines, np.where(runs, path.line, -1)),
        text_argument(
            "before", [*kernels, *functions], np.where(path.are(PathPart.CODE), len(kernels) + function, before)
        ),
    )
    titles = [*causes, *shown(kernels), *shown(functions)]
    return track, in_a_row(track.uuid, path.start_ns, path.end_ns, titles, title, "critical path", arguments)
