"""What a report names: a line of the books, a range, or a kernel; a name in, what is meant and its time out.

A name is taken as it is printed, in either language: `gemm`, `idle: launches can't keep up`, `iter > compute_loop`,
`elementwise_kernel…silu_kernel`. `idle: module load` is all idle time that loading sets off, as a report's first screen
has it; `module load` or `load` is what was booked to it. A name that means several things is refused with the spellings
that mean one: `line:attention`, `range:attention`, `kernel:NAME`. All times are of the steady stretch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
from msgspec import Struct

from gpuledger.attribution.lost_time import begins_in, host_stretch, of_this_gpu
from gpuledger.catalog.kernel_names import cut_label, label, parse, without_ids, without_numbers
from gpuledger.errors import MeansSeveral, NothingRecorded
from gpuledger.ledger.activity import State
from gpuledger.ledger.books import OTHER_FAMILIES, Line, small_families
from gpuledger.ledger.causes import Trigger, idle_label
from gpuledger.ledger.device import Device
from gpuledger.ledger.launched_in import near_names
from gpuledger.ledger.ranges import spans_of_time, thread
from gpuledger.messages import LANGUAGES, say, translated
from gpuledger.trace.keys import Positions
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import clip, intersection, parents, total, union
from gpuledger.trace.tables import Rows
from gpuledger.units import time_text

BETWEEN: Final = " > "  # between the names of a range and of those around it, as reports print a place

_MOST_LISTED: Final = 12


class NamedLines(Struct, frozen=True, eq=False):
    """Lines of the books; or a row of the first screen, which has idle time by what set it off."""

    lines: tuple[Line, ...]
    time_ns: int
    trigger: Trigger | None = None


class NamedRanges(Struct, frozen=True, eq=False):
    """Ranges of the steady steps."""

    ranges: Rows
    time_ns: int  # how long at least one of them is open on the host


class NamedKernels(Struct, frozen=True, eq=False):
    """Kernels of the steady steps."""

    operations: Positions  # among the device's activities
    time_ns: int  # how long at least one of them runs


NamedWork = NamedLines | NamedRanges | NamedKernels


def named_work(trace: Trace, device: Device, name: str) -> NamedWork:
    """What a name means; refuses what the profile has none of."""
    kind, colon, bare = name.partition(":")
    meanings: Mapping[str, Callable[[str], NamedWork | None]] = {
        "line": lambda wanted: named_lines(device, wanted),
        "range": lambda wanted: _named_ranges(trace, device, wanted),
        "kernel": lambda wanted: _named_kernels(trace, device, wanted),
    }
    if colon and kind in meanings and (chosen := meanings[kind](bare)) is not None:
        return chosen
    found = {meaning: meant for meaning in meanings if (meant := meanings[meaning](name)) is not None}
    if len({meant.time_ns for meant in found.values()}) > 1:  # a family's only kernel may be called as the family is
        raise _means_several(device, name, found)
    for meant in found.values():
        return meant
    raise _nothing_named(trace, device, name)


def _means_several(device: Device, name: str, found: Mapping[str, NamedWork]) -> MeansSeveral:
    def told(meaning: str, meant: NamedWork) -> str:
        printed = f"printed as '{meant.lines[0].label}', " if isinstance(meant, NamedLines) and meant.lines else ""
        return f"{meaning}:{name} ({printed}{time_text(meant.time_ns // device.step_count)} per step)"

    return MeansSeveral(
        f"'{name}' means {len(found)} things on GPU {device.gpu}",
        found="\n".join(told(meaning, meant) for meaning, meant in found.items()),
        hint=f"say which: {' or '.join(f'{meaning}:{name}' for meaning in found)}",
    )


def _nothing_named(trace: Trace, device: Device, name: str) -> NothingRecorded:
    lines = sorted({line.detail or line for line in device.line_ns})
    names = trace.strings.decode(np.unique(spans_of_time(trace).codes("name")))
    ranges = sorted({without_numbers(without_ids(text or "?")) for text in names})
    codes = np.unique(device.work.name[_steady_kernels(device)]).tolist()
    labels = sorted({label(text) for code in codes if (text := trace.strings.text(code))})
    near = near_names(name, [*lines, *ranges, *labels])
    listed = ", ".join(ranges[:_MOST_LISTED]) + (", ..." if len(ranges) > _MOST_LISTED else "")
    listing = "`gpuledger kernels PROFILE` lists kernels, `gpuledger ranges PROFILE` ranges"
    return NothingRecorded(
        f"GPU {device.gpu} has no line, range or kernel '{name}'",
        found=f"lines: {', '.join(lines)}\nranges: {listed or 'none'}",
        hint=f"names that come near: {', '.join(near)}" if near else listing,
    )


def named_lines(device: Device, wanted: str) -> NamedLines | None:
    """What `wanted` names: a row of the first screen, a line, a family or a cause, all lines of a kind; else None."""

    def in_all_languages(text: str) -> set[str]:
        return {translated(text, language) for language in LANGUAGES}

    def is_called_so(line: Line) -> bool:
        """By its name in documents, or by what reports call it."""
        return wanted in {str(line), line.detail} | in_all_languages(line.label) | in_all_languages(line.brief_label)

    for trigger, idle_ns in device.idle_by_trigger.items():
        if wanted in in_all_languages(idle_label(trigger)):
            return NamedLines((), idle_ns, trigger)
    compute = in_all_languages(say("compute"))
    for matches in (
        [line for line in device.line_ns if line == wanted],
        [line for line in device.line_ns if is_called_so(line)],
        [line for line in device.line_ns if line.kind == wanted or (line.is_compute and wanted in compute)],
        small_families(device.line_ns) if wanted in map(str.strip, in_all_languages(OTHER_FAMILIES)) else [],
    ):
        if matches:
            return NamedLines(tuple(matches), sum(device.line_ns[line] for line in matches))
    return None


def _named_ranges(trace: Trace, device: Device, wanted: str) -> NamedRanges | None:
    """The ranges of this name, or of this path of names, that the host opens for the steady steps."""
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
        is_called_so = np.array(
            [part in (text, without_ids(text), without_numbers(without_ids(text))) for text in texts]
        )
        matches = (here >= 0) & is_called_so[which.reshape(-1)[here]]
        chosen, here = chosen[matches], above[here[matches]]
    if not len(chosen):
        return None
    opened = union(ranges["start_ns"][chosen], ranges["end_ns"][chosen])
    return NamedRanges(ranges.at(chosen), min(total(clip(opened, stretch)), device.steady_ns))


def _named_kernels(trace: Trace, device: Device, wanted: str) -> NamedKernels | None:
    """The kernels that are called so: whole, without parameters, or as tables shorten it."""
    work, steady = device.work, _steady_kernels(device)
    called_so = [
        code
        for code in np.unique(work.name[steady]).tolist()
        if (name := trace.strings.text(code) or "")
        and wanted in (name, parse(name).bare, short := label(name), cut_label(short))
    ]
    if not called_so:
        return None
    chosen = steady[np.isin(work.name[steady], called_so)]
    runs = intersection(union(work.start_ns[chosen], work.end_ns[chosen]), device.steady_stretches)
    return NamedKernels(chosen, total(runs))


def _steady_kernels(device: Device) -> Positions:
    work = device.work
    is_kernel = (work.gpu == device.gpu) & (work.state != State.COPY)
    return np.flatnonzero(is_kernel & device.begins_steady(work.start_ns))
