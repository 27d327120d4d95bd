"""The time of what a report names: a line of the books, a range, or a kernel; a name in, nanoseconds out.

A name is taken as it is printed, in either language: `gemm`, `idle: launch calls`, `iter > compute_loop`,
`elementwise_kernel…silu_kernel`. Where one name has several meanings the line comes first, then the range;
`range:attention` and `kernel:NAME` say which is meant. All times are of the steady stretch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from gpuledger.analyse.host_stretch import begins_in, host_stretch, of_this_gpu
from gpuledger.analyse.kernels.step_kernels import overview
from gpuledger.catalog.kernel_names import cut_label, label
from gpuledger.catalog.name_likeness import normalised, unnumbered
from gpuledger.errors import NothingRecorded
from gpuledger.ledger.device import Device
from gpuledger.ledger.lines import OTHER_FAMILIES, Line, small_families
from gpuledger.ledger.ranges import spans_of_time, thread
from gpuledger.messages import LANGUAGES, say, translated
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import clip, parents, total, union

BETWEEN: Final = " > "
"""Between the names of a range and of those around it, as reports print a place."""

_MOST_LISTED: Final = 12
_COMPUTE: Final = frozenset(translated(say("compute"), language) for language in LANGUAGES)
_OTHER_FAMILIES: Final = frozenset(translated(OTHER_FAMILIES, language).strip() for language in LANGUAGES)


def named_time(trace: Trace, device: Device, name: str) -> tuple[str, int]:
    """What a name means (`line`, `range` or `kernel`) and its time; refuses what the profile has none of."""
    kind, colon, bare = name.partition(":")
    meanings: Mapping[str, Callable[[str], int | None]] = {
        "line": lambda wanted: line_ns(device, wanted),
        "range": lambda wanted: _range_ns(trace, device, wanted),
        "kernel": lambda wanted: _kernel_ns(trace, device, wanted),
    }
    chosen = [(kind, bare)] if colon and kind in meanings else []
    for meaning, wanted in (*chosen, *((meaning, name) for meaning in meanings)):
        time_ns = meanings[meaning](wanted)
        if time_ns is not None:
            return meaning, time_ns
    raise NothingRecorded(
        f"GPU {device.gpu} has no line, range or kernel '{name}'",
        found=f"lines: {_lines(device)}\nranges: {_listed(_range_names(trace))}",
        hint="`gpuledger kernels PROFILE` lists kernels, `gpuledger ranges PROFILE` ranges",
    )


def named_line_ns(device: Device, name: str) -> int:
    """The time of the lines that are called so; refuses what is none."""
    time_ns = line_ns(device, name)
    if time_ns is None:
        raise NothingRecorded(f"GPU {device.gpu} has no line '{name}'", found=f"its lines are {_lines(device)}")
    return time_ns


def line_ns(device: Device, wanted: str) -> int | None:
    """The time of what `wanted` names: a line, else a family or a cause, else all lines of a kind."""
    for matches in (
        [line for line in device.line_ns if line == wanted],
        [line for line in device.line_ns if wanted in names_of(line) or line.detail == wanted],
        [line for line in device.line_ns if line.kind == wanted or (line.is_compute and wanted in _COMPUTE)],
        small_families(device.line_ns) if wanted in _OTHER_FAMILIES else [],
    ):
        if matches:
            return sum(device.line_ns[line] for line in matches)
    return None


def names_of(line: Line) -> set[str]:
    """Its name in documents, and what reports call it."""
    return {str(line), *(translated(text, to) for text in (line.label, line.brief_label) for to in LANGUAGES)}


def _lines(device: Device) -> str:
    return ", ".join(sorted({line.detail or line for line in device.line_ns}))


def _range_ns(trace: Trace, device: Device, wanted: str) -> int | None:
    """How long at least one range of this name, or of this path of names, is open on the host in the steady steps."""
    ranges = spans_of_time(trace)
    if not len(ranges):
        return None
    codes, which = np.unique(ranges.codes("name"), return_inverse=True)
    texts = [text or "?" for text in ranges.strings.decode(codes)]
    above = parents(ranges["start_ns"], ranges["end_ns"], thread(ranges))
    stretch = host_stretch(trace, device)
    chosen = np.flatnonzero(begins_in(stretch, ranges) & of_this_gpu(device, ranges) & ~ranges["open"])
    here = chosen
    for part in reversed(wanted.split(BETWEEN)):
        is_called_so = np.array([part in (text, unnumbered(text), normalised(unnumbered(text))) for text in texts])
        matches = (here >= 0) & is_called_so[which.reshape(-1)[here]]
        chosen, here = chosen[matches], above[here[matches]]
    if not len(chosen):
        return None
    opened = union(ranges["start_ns"][chosen], ranges["end_ns"][chosen])
    return min(total(clip(opened, stretch)), device.steady_ns)


def _range_names(trace: Trace) -> list[str]:
    ranges = spans_of_time(trace)
    distinct = ranges.strings.decode(np.unique(ranges.codes("name")))
    return sorted({normalised(unnumbered(text or "?")) for text in distinct})


def _kernel_ns(trace: Trace, device: Device, wanted: str) -> int | None:
    """The compute time of the kernels that are called so: whole, without parameters, or as tables shorten it."""
    times = [
        kernel.time_ns
        for kernel in overview(trace, device).entries
        if wanted in (kernel.name, kernel.bare, short := label(kernel.name), cut_label(short))
    ]
    return sum(times) if times else None


def _listed(names: list[str]) -> str:
    more = ", ..." if len(names) > _MOST_LISTED else ""
    return ", ".join(names[:_MOST_LISTED]) + more if names else "none"
