"""The program's ranges as a tree by name: host and GPU time, launches and waits of each, over the whole window.

GPU work belongs to the ranges around its launch call, on the call's thread; GPU times add up durations. Where only a
part of the profile is looked at, it is the work that begins there, and the instances that launched any of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gpuledger.analyse.host_stretch import begins_in, host_stretch, of_this_gpu
from gpuledger.catalog.call_kinds import CallKind
from gpuledger.catalog.gpu_metrics import OF_KERNELS, GpuMetric
from gpuledger.catalog.name_likeness import counted_as
from gpuledger.ledger.activity import GRAPH_FAMILY
from gpuledger.ledger.device import Device
from gpuledger.ledger.host import Host
from gpuledger.ledger.ranges import innermost, spans_of_time, thread
from gpuledger.trace.columns import distinct
from gpuledger.trace.keys import Positions
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints, depths, holds, parents
from gpuledger.trace.tables import Rows

if TYPE_CHECKING:
    from gpuledger.analyse.use.kernel_use import UseOfKernels


@dataclass(frozen=True, slots=True)
class RangeNode:
    """The ranges of one path of names."""

    name: str
    depth: int
    instances: int
    host_ns: int
    gpu_ns: int
    """With the ranges inside."""
    own_gpu_ns: int
    """Without them."""
    launches: int
    """Launch calls inside, as `gpuledger launches` counts them: of kernels and graphs, not of copies."""
    waits: int
    """Calls inside that waited for the device."""
    steady_share: float | None
    """Host time of those that began in the steady steps, of the steps' time; None where none did."""
    use_percent: Mapping[GpuMetric, float] = field(default_factory=dict)
    """What its kernels use of the GPU, the mean by time; nothing where that is not known."""


@dataclass(frozen=True, slots=True)
class RangeTree:
    """All ranges, parents before their children, the most GPU time first; and what was launched in none."""

    gpu: int
    nodes: tuple[RangeNode, ...]
    outside_gpu_ns: int
    outside_launches: int


@dataclass(slots=True)
class _Sums:
    """What a node adds up to while ranges are gone through."""

    instances: int = 0
    host_ns: int = 0
    gpu_ns: int = 0
    own_gpu_ns: int = 0
    launches: int = 0
    waits: int = 0
    steady_ns: int = 0
    used: NDArray[np.float64] | None = None

    def add(self, host_ns: int, gpu_ns: int, launches: int, waits: int, steady_ns: int) -> None:
        """One range of the node, without those inside."""
        self.instances += 1
        self.host_ns += host_ns
        self.gpu_ns += gpu_ns
        self.own_gpu_ns += gpu_ns
        self.launches += launches
        self.waits += waits
        self.steady_ns += steady_ns

    def add_use(self, used: NDArray[np.float64] | None) -> None:
        """What kernels of the node, or of one inside, use; None: not known."""
        if used is not None:
            self.used = used if self.used is None else self.used + used

    def enclose(self, inner: _Sums) -> None:
        """A node inside, with all that it encloses."""
        self.gpu_ns += inner.gpu_ns
        self.launches += inner.launches
        self.waits += inner.waits
        self.add_use(inner.used)


def range_tree(trace: Trace, device: Device, use: UseOfKernels | None = None) -> RangeTree:
    """The ranges of one trace, with what one GPU did in them, and what its kernels use of it where that is known."""
    ranges, activities, host = spans_of_time(trace), device.work, device.host
    every = activities.on(device.gpu)
    here = every[holds(device.ledger.busy.stretches, activities.start_ns[every])]
    length = (activities.end_ns - activities.start_ns)[here]
    call = activities.launch[here]
    launcher = np.full(len(call), -1, np.intp)
    launcher[call >= 0] = innermost(ranges, host.calls.at(call[call >= 0]))
    launching = innermost(ranges, host.calls.at(_launches(host, call)))
    waiting = innermost(ranges, host.calls.at(host.blocking))
    own_gpu = np.zeros(len(ranges), np.int64)
    inside = launcher >= 0
    np.add.at(own_gpu, launcher[inside], length[inside])
    works = np.isin(np.arange(len(ranges)), launcher)
    own_launches, own_waits = (np.bincount(place[place >= 0], minlength=len(ranges)) for place in (launching, waiting))
    above = parents(ranges["start_ns"], ranges["end_ns"], thread(ranges))
    shown = np.ones(len(ranges), np.bool_) if len(here) == len(every) else _with_parents(above, works)
    amounts = (shown, ranges.duration_ns, own_gpu, own_launches, own_waits, _steady_ns(trace, device, ranges))
    used = None if use is None else _used(device, use, here[inside], launcher[inside], len(ranges))
    nodes = _nodes(ranges, above, amounts, device.steady_ns, used)
    return RangeTree(device.gpu, nodes, int(length[~inside].sum()), int((launching < 0).sum()))


def _used(device: Device, use: UseOfKernels, here: Positions, launcher: Positions, ranges: int) -> NDArray[np.float64]:
    """A row per range: how long its own kernels ran whose use is known, then that time times each of OF_KERNELS."""
    work = device.work
    is_kernel = (work.family[here] >= 0) & (work.family[here] != work.families.index(GRAPH_FAMILY))
    here, launcher = here[is_kernel], launcher[is_kernel]
    kernel = use.kernel_of_row[work.row[here]]
    here, launcher, kernel = here[kernel >= 0], launcher[kernel >= 0], kernel[kernel >= 0]
    length = (work.end_ns - work.start_ns)[here]
    columns = [np.ones(len(use.kernels))]
    for metric in OF_KERNELS:
        figures = [known.figures.get(metric) for known in use.kernels]
        columns.append(np.array([np.nan if figure is None else figure.percent for figure in figures]))
    return np.stack([np.bincount(launcher, length * level[kernel], minlength=ranges) for level in columns], axis=1)


def _launches(host: Host, call: Ints) -> Positions:
    """Of the calls that work was started by, those that launch, each once."""
    calls: Positions = distinct(call[call >= 0])
    return calls[host.are(CallKind.LAUNCH)[calls]]


def _with_parents(above: Positions, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The chosen ranges, and all that enclose one of them."""
    marked, last = chosen.copy(), np.flatnonzero(chosen)
    while len(last):  # each range is met once
        enclosing = above[last]
        enclosing = enclosing[enclosing >= 0]
        last = distinct(enclosing[~marked[enclosing]])
        marked[last] = True
    return marked


def _steady_ns(trace: Trace, device: Device, ranges: Rows) -> Ints:
    """How long each range is open that began while the host worked on the steady steps; 0 for the others."""
    stretch = host_stretch(trace, device)
    counts = begins_in(stretch, ranges) & of_this_gpu(device, ranges) & ~ranges["open"]
    open_ns: Ints = np.minimum(ranges["end_ns"], stretch.end_ns) - ranges["start_ns"]
    return np.where(counts, open_ns, 0)


def _nodes(
    ranges: Rows,
    above: Positions,
    amounts: tuple[NDArray[Any], ...],
    steady_ns: int,
    used: NDArray[np.float64] | None,
) -> tuple[RangeNode, ...]:
    """One node per path of names; of each range whether it is shown, and what is added up."""
    kinds, kind = ranges.strings.kinds(ranges.codes("name"), lambda text: counted_as(text or "?"))
    names = [kinds[position] for position in kind.tolist()]  # without ids that make each another
    parent_of, shown, *columns = above.tolist(), *(column.tolist() for column in amounts)
    of_child: dict[tuple[int, str], int] = {}
    node_of = [-1] * len(names)
    sums: list[_Sums] = []
    for position in np.argsort(depths(above), kind="stable").tolist():  # the outermost first
        if not shown[position]:
            continue
        parent = parent_of[position]
        key = (node_of[parent] if parent >= 0 else -1, names[position])
        number = node_of[position] = of_child.setdefault(key, len(of_child))
        if number == len(sums):
            sums.append(_Sums())
        sums[number].add(*(column[position] for column in columns))
        if used is not None and used[position, 0]:
            sums[number].add_use(used[position])
    keys = list(of_child)
    for number in reversed(range(len(keys))):  # what lies inside has the greater number
        if keys[number][0] >= 0:
            sums[keys[number][0]].enclose(sums[number])
    return tuple(
        RangeNode(
            name=keys[number][1],
            depth=depth,
            instances=sums[number].instances,
            host_ns=sums[number].host_ns,
            gpu_ns=sums[number].gpu_ns,
            own_gpu_ns=sums[number].own_gpu_ns,
            launches=sums[number].launches,
            waits=sums[number].waits,
            steady_share=sums[number].steady_ns / steady_ns if sums[number].steady_ns and steady_ns else None,
            use_percent=_means(sums[number].used),
        )
        for number, depth in _in_order(keys, sums)
    )


def _in_order(keys: list[tuple[int, str]], sums: list[_Sums]) -> Iterator[tuple[int, int]]:
    """Nodes and how deep they lie, parents before their children, the most GPU time first."""
    inside: dict[int, list[int]] = {}
    for number, (parent, _) in enumerate(keys):
        inside.setdefault(parent, []).append(number)
    waiting = [(-1, -1)]
    while waiting:
        node, depth = waiting.pop()
        if node >= 0:
            yield node, depth
        least_first = sorted(
            inside.get(node, ()), key=lambda number: (-sums[number].gpu_ns, keys[number][1]), reverse=True
        )
        waiting += [(number, depth + 1) for number in least_first]


def _means(used: NDArray[np.float64] | None) -> dict[GpuMetric, float]:
    if used is None:
        return {}
    means = dict(zip(OF_KERNELS, (used[1:] / used[0]).tolist(), strict=True))
    return {metric: mean for metric, mean in means.items() if not np.isnan(mean)}
