"""Work by the range that it was launched in: ranges in, for each activity the instance that holds its launch out.

A range counts what any thread of its process launches while it is open: autograd launches from threads of its own.
Where several processes share a GPU, steps are those of the one that launched the most.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.catalog.kernel_names import without_ids
from gpuledger.errors import NothingRecorded
from gpuledger.ledger.activity import Activities
from gpuledger.ledger.host import Host
from gpuledger.ledger.ranges import spans_of_time
from gpuledger.regex import NamePattern
from gpuledger.trace import sweep
from gpuledger.trace.keys import Positions, RowsByKey, distinct, equal, occurrences, take
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints
from gpuledger.trace.tables import Rows, Table

_WORD: Final = re.compile(r"[A-Za-z_]\w{2,}")
_WORDS_COMPARED: Final = 5_000  # a profile may have any number of names


def range_names(trace: Trace) -> list[str]:
    """What ranges are called in the profile, sorted, without ids; where there are none, what operators are called."""
    ranges = next(filter(len, _ranges_or_operators(trace)), None)
    if ranges is None:
        return []
    return sorted({without_ids(trace.strings.text(code) or "") for code in distinct(ranges.codes("name")).tolist()})


def _ranges_or_operators(trace: Trace) -> Iterator[Rows]:
    yield spans_of_time(trace)
    ranges = trace[Table.RANGES]
    yield ranges.where(ranges.codes("kind") == ranges.strings.code("op"))  # torch.profiler's


def nothing_matches(
    pattern: str, what: str, candidates: list[str], shortened: Callable[[str], str] = str
) -> NothingRecorded:
    """The refusal where no range or kernel matches, with what could have been matched, and what comes near."""
    names = list(dict.fromkeys(map(shortened, candidates)))
    shown = ", ".join(names[:12]) or f"there are no {what}s"
    more = f" and {len(names) - 12} more" if len(names) > 12 else ""
    near = ", ".join(near_names(pattern, candidates))
    return NothingRecorded(
        f"no {what} matches '{pattern}'",
        found=f"{what}s in the profile: {shown}{more}",
        hint=f"names that come near: {near}" if near else "",
    )


def near_names(pattern: str, candidates: list[str]) -> list[str]:
    """The words of these names that are spelled most like the pattern; none where none is."""
    from difflib import get_close_matches  # only where nothing matches

    words = {word.lower(): word for name in candidates for word in (name, *_WORD.findall(name)) if len(word) <= 80}
    known = list(words)[:_WORDS_COMPARED]
    return [words[word] for word in get_close_matches(pattern.lower(), known, n=6, cutoff=0.6)]


def matching_ranges(trace: Trace, pattern: NamePattern) -> Rows:
    """The ranges whose bare name matches, by their start, the outer before the inner; operators where none does."""
    for ranges in _ranges_or_operators(trace):
        matching = ranges.where(
            trace.strings.each(ranges.codes("name"), lambda name: bool(pattern.search(name)), np.bool_)
        )
        if len(matching):
            break
    return _by_start(matching)


def launched_in(work: Activities, host: Host, ranges: Rows) -> NDArray[np.signedinteger] | None:
    """Which of the ranges, in order of time, each activity was launched in; the outermost where they nest."""
    ranges = _by_start(ranges.where(ranges["pid"] == main_process(work)))
    member = launching_range(work, host, ranges)
    used = distinct(member)
    used = used[used >= 0]
    if not len(used):
        return None
    if len(used) == used[-1] + 1:
        return member
    number = np.full(len(ranges) + 1, -1, np.int32)  # -1 stays -1: it is the last
    number[used] = np.arange(len(used))
    numbered: NDArray[np.int32] = number[member]
    return numbered


def launching_range(work: Activities, host: Host, ranges: Rows) -> NDArray[np.signedinteger]:
    """For each activity the outermost of these ranges, which come by their start, that it was launched in; else -1."""
    call = work.launch
    if not len(host.calls):
        return np.full(len(work), -1, np.int32)
    outermost = _outermost(ranges, host.calls)
    return take(outermost, call) if call.min(initial=0) >= 0 else np.append(outermost, np.int32(-1))[call]


class LaunchedTime:
    """Time of activities, summed up by the calls of one process that launched them: asked of many kinds of ranges."""

    def __init__(self, calls: Rows, process: int, launch: Positions, time_ns: NDArray[Any]) -> None:
        time = sweep.sums(launch, time_ns, len(calls))
        time[sweep.occurrence_flags(launch, -1, len(calls) - 1)[1:] == 0] = -1  # of what launched nothing
        own = equal(calls["pid"], process)
        self._calls: Final = calls.only().where(own)
        self._time_ns: Final = take(time, own)

    def held_ns(self, ranges: Rows) -> Ints:
        """What each of the ranges that launched something holds, in order of time; the outermost where they nest."""
        ranges, calls = _by_start(ranges.only()), self._calls
        outer = ranges["start_ns"], ranges["end_ns"]
        time, launches = sweep.held(outer, calls["start_ns"], calls["end_ns"], self._time_ns)
        return time[launches > 0]


def _by_start(ranges: Rows) -> Rows:
    return ranges.at(np.lexsort((-ranges["end_ns"], ranges["start_ns"])))


def _outermost(ranges: Rows, calls: Rows) -> NDArray[np.int32]:
    """For each call the first of the ranges of its process that it lies in; -1 for none. Ranges come by their start."""
    processes = distinct(ranges["pid"]).tolist()
    if len(processes) == 1 and equal(calls["pid"], processes[0]).all():
        return sweep.enclosing((ranges["start_ns"], ranges["end_ns"]), calls["start_ns"], calls["end_ns"])
    outermost = np.full(len(calls), -1, np.int32)
    by_process = RowsByKey.of(calls["pid"])
    for process, rows in RowsByKey.of(ranges["pid"]):
        own = by_process.rows(process)
        start, end = take(calls["start_ns"], own), take(calls["end_ns"], own)
        first = sweep.enclosing((ranges["start_ns"][rows], ranges["end_ns"][rows]), start, end)
        outermost[own] = np.append(rows, -1)[first]
    return outermost


def main_process(work: Activities) -> int:
    """The process that launched the most on this GPU."""
    processes, counts = occurrences(work.pid)
    return int(processes[counts.argmax()])
