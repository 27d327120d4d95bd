"""What ranges hold in the steady stretch, by name: host time, GPU time, waits, the calls made and the work launched.

Ids that differ in every run are left out of names, and where one kind of range is numbered through (`step 1`,
`step 2`, ...) its numbers too. What a range holds includes what the ranges below it hold.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.analyse.diff.run_side import RunRange
from gpuledger.analyse.host_stretch import begins_in, of_this_gpu
from gpuledger.catalog.call_kinds import CallKind
from gpuledger.catalog.kernel_names import parse
from gpuledger.catalog.name_likeness import normalised, unnumbered
from gpuledger.ledger.device import Device
from gpuledger.ledger.ranges import innermost, spans_of_time, thread
from gpuledger.trace.keys import Positions, group
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints, Span, depths, parents
from gpuledger.trace.strings import NO_TEXT
from gpuledger.trace.tables import Rows

MOST_NUMBERED: Final = 32
"""Ranges that differ in their numbers alone are one kind from so many names on; layers stay apart."""

DEEPEST: Final = 64
"""Ranges nested deeper than this count as part of the one above."""

MOST_BY_STEP: Final = 200
"""Of so many kinds of range, times are kept step by step."""

_VERSION: Final = re.compile(r"_v\d{4,6}$")

Chains = list[tuple[int, ...]]


def without_version(function: str) -> str:
    """A function's name without the version of CUDA that it has in the profiler: `cudaGraphLaunch_v10000`."""
    return _VERSION.sub("", function)


def functions_of(calls: Rows) -> tuple[list[str], Positions]:
    """The names of functions without the version of CUDA behind them, and for each call the position of its own."""
    names: dict[str, int] = {}
    codes, back = np.unique(calls.codes("name"), return_inverse=True)
    texts = [without_version(calls.strings.text(code) or "") for code in codes.tolist()]
    number = np.array([names.setdefault(text, len(names)) for text in texts], np.intp)
    return list(names), number[back.reshape(-1)]


def ranges_of(
    trace: Trace, device: Device, stretch: Span, edges: Ints
) -> tuple[tuple[RunRange, ...], dict[str, tuple[int, ...]]]:
    """The kinds of range that begin in the host's stretch, most host time first; and their host time by step.

    A range whose end was not recorded has no length, and is left out.
    """
    every = spans_of_time(trace)
    ranges = every.where(begins_in(stretch, every) & of_this_gpu(device, every) & ~every["open"])
    if not len(ranges):
        return (), {}
    names, name = _names(ranges, len(edges) - 1)
    chains, chain = _chains(ranges, name)
    once = np.array([names_down[-1] not in names_down[:-1] for names_down in chains])
    outermost: NDArray[np.bool_] = once[chain]
    instances = np.bincount(name[outermost], minlength=len(names))
    host = np.zeros(len(names), np.int64)
    np.add.at(host, name[outermost], ranges.duration_ns[outermost])
    holds = _Holds(len(names), chains)
    _hold_calls(device, ranges, chain, holds)
    inside = _inside(chains, len(names))
    contents = [
        RunRange(
            names[index],
            int(instances[index]),
            int(host[index]),
            holds.gpu_ns[index],
            holds.wait_ns[index],
            tuple(names[above] for above in sorted(inside[index])),
            dict(sorted(holds.calls[index].items())),
            dict(sorted(holds.work[index].items())),
        )
        for index in range(len(names))
    ]
    order = sorted(range(len(names)), key=lambda index: (-contents[index].host_ns, contents[index].name))
    by_step = {
        names[index]: _by_step(ranges.where(outermost & (name == index)), edges) for index in order[:MOST_BY_STEP]
    }
    return tuple(contents[index] for index in order), by_step


def _names(ranges: Rows, steps: int) -> tuple[list[str], Positions]:
    """The distinct names of kinds of range, and for each range the position of its own."""
    codes, back, counts = np.unique(ranges.codes("name"), return_inverse=True, return_counts=True)
    texts = [unnumbered(ranges.strings.text(code) or "") or "(no name)" for code in codes.tolist()]
    alike: dict[str, dict[str, int]] = {}
    for text, count in zip(texts, counts.tolist(), strict=True):
        held = alike.setdefault(normalised(text), {})
        held[text] = held.get(text, 0) + count
    running = {general for general, held in alike.items() if _is_running(held, steps)}
    names: dict[str, int] = {}
    kinds = [general if (general := normalised(text)) in running else text for text in texts]
    number = np.array([names.setdefault(kind, len(names)) for kind in kinds], np.intp)
    return list(names), number[back.reshape(-1)]


def _is_running(held: dict[str, int], steps: int) -> bool:
    """Whether names that differ in their numbers alone count steps or the like: none comes in most steps."""
    return len(held) > MOST_NUMBERED or (len(held) > 2 and 2 * max(held.values()) <= max(steps, 2))


def _chains(ranges: Rows, name: Positions) -> tuple[Chains, Positions]:
    """For each range the chain of names from the outermost down to its own: distinct chains, and which it has."""
    above = parents(ranges["start_ns"], ranges["end_ns"], thread(ranges))
    depth = depths(above)
    chain = np.full(len(ranges), -1, np.intp)
    chains: Chains = []
    for level in range(min(int(depth.max()), DEEPEST) + 1):
        here = np.flatnonzero(depth == level)
        up = np.where(above[here] >= 0, chain[above[here]], -1)
        first, number = group(up, name[here])
        outer = [chains[parent] if parent >= 0 else () for parent in up[first].tolist()]
        own = name[here[first]].tolist()
        chain[here] = len(chains) + number
        chains += [(*around, last) for around, last in zip(outer, own, strict=True)]
    for row in np.flatnonzero(chain < 0)[np.argsort(depth[chain < 0], kind="stable")].tolist():
        chain[row] = chain[above[row]]
    return chains, chain


def _inside(chains: Chains, count: int) -> list[set[int]]:
    """For each name the names that it is found below, its own left out."""
    above: list[set[int]] = [set() for _ in range(count)]
    for chain in chains:
        above[chain[-1]] |= set(chain[:-1]) - {chain[-1]}
    return above


class _Holds:
    """Sums over what the ranges of each name hold."""

    def __init__(self, names: int, chains: Chains) -> None:
        self.calls: list[dict[str, int]] = [{} for _ in range(names)]
        self.work: list[dict[str, int]] = [{} for _ in range(names)]
        self.gpu_ns, self.wait_ns = [0] * names, [0] * names
        self._members = [tuple(dict.fromkeys(chain)) for chain in chains]

    def count(self, into: list[dict[str, int]], chain: int, what: str, count: int) -> None:
        for name in self._members[chain]:
            into[name][what] = into[name].get(what, 0) + count

    def spend(self, into: list[int], chain: int, time_ns: int) -> None:
        for name in self._members[chain]:
            into[name] += time_ns


def _hold_calls(device: Device, ranges: Rows, chain: Positions, holds: _Holds) -> None:
    """Book every call, and what it launched, to the ranges around it."""
    host, work = device.host, device.work
    inner = innermost(ranges, host.calls)
    place = np.where(inner >= 0, chain[inner], -1)
    inside = np.flatnonzero(place >= 0)
    functions, function = functions_of(host.calls)
    waits = host.are(CallKind.SYNC)
    for chain_number, which, count, _ in _sums(place[inside], function[inside], host.calls.duration_ns[inside]):
        holds.count(holds.calls, chain_number, functions[which], count)
    waiting = inside[waits[inside]]
    for chain_number, _, _, time in _sums(
        place[waiting], np.zeros(len(waiting), np.intp), host.calls.duration_ns[waiting]
    ):
        holds.spend(holds.wait_ns, chain_number, time)
    here = work.on(device.gpu)
    call = work.launch[here]
    here, call = here[call >= 0], call[call >= 0]
    here, call = here[place[call] >= 0], call[place[call] >= 0]
    strings = ranges.strings
    names: dict[int, str] = {}
    length = work.end_ns[here] - work.start_ns[here]
    for chain_number, code, count, time in _sums(place[call], work.name[here], length):
        if code not in names:
            names[code] = "(graph)" if code == NO_TEXT else parse(strings.text(code) or "").bare
        holds.count(holds.work, chain_number, names[code], count)
        holds.spend(holds.gpu_ns, chain_number, time)


def _sums(place: Positions, what: NDArray[np.signedinteger], time: Ints) -> list[tuple[int, int, int, int]]:
    """(chain, what, how many, time) of each pair that occurs."""
    first, number = group(place, what)
    total = np.zeros(len(first), np.int64)
    np.add.at(total, number, time)
    count = np.bincount(number, minlength=len(first))
    columns = (place[first], what[first], count, total)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def _by_step(ranges: Rows, edges: Ints) -> tuple[int, ...]:
    """Host time in each step. The host runs ahead, so equal numbers a step go by their order, others by their start."""
    steps, count = len(edges) - 1, len(ranges)
    order = np.argsort(ranges["start_ns"], kind="stable")
    if count % steps:
        step = np.clip(np.searchsorted(edges, ranges["start_ns"][order], side="right") - 1, 0, steps - 1)
    else:
        step = np.arange(count) // (count // steps)
    total = np.zeros(steps, np.int64)
    np.add.at(total, step, ranges.duration_ns[order])
    return tuple(total.tolist())
