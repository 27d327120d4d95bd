"""The program's ranges as a tree by name: host and GPU time, launches and waits of each, over the whole window.

GPU work belongs to the ranges around its launch call, on the call's thread; GPU times add up durations. Where only a
part of the profile is looked at, it is the work that begins there, and the instances that launched any of it. Names
that a second file gave to work inside graphs are ranges below those around the launch, without host time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gpuledger.attribution.launch_places import PlacedPaths, place_of_work, placed_paths
from gpuledger.attribution.lost_time import begins_in, host_stretch, of_this_gpu
from gpuledger.attribution.ranges import NamePaths, folded_names
from gpuledger.catalog.calls import CallKind
from gpuledger.catalog.gpu_metrics import OF_KERNELS, GpuMetric
from gpuledger.catalog.kernel_names import without_ids, without_numbers
from gpuledger.ledger.activity import GRAPH_FAMILY, Activities
from gpuledger.ledger.device import Device
from gpuledger.ledger.ranges import thread
from gpuledger.messages import say
from gpuledger.rows import Gpu, Label, Row, Unit
from gpuledger.trace import sweep
from gpuledger.trace.keys import Positions, distinct, group, is_among
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints, holds, parents
from gpuledger.trace.tables import Rows

if TYPE_CHECKING:
    from gpuledger.analyse.utilization.kernel_use import UseOfKernels


_LONGEST_OPEN: Final = 2  # times the steady steps' time

OUTSIDE: Final = say("(in no range)")

_USED: Final = (GpuMetric.SM_ACTIVE, GpuMetric.TENSOR, GpuMetric.DRAM_READ, GpuMetric.DRAM_WRITE)

_USE: Final = "of its peak while the kernels ran, by samples"


class RangeRow(Row, frozen=True):
    """The ranges of one path of names, or the work of graphs that a second file names so."""

    gpu: Gpu
    depth: Annotated[int, Label(say("Depth"), Unit.COUNT, meaning="a row's parent is the last one above with less")]
    range: Annotated[str | None, Label(say("Range"), unknown=OUTSIDE, is_nested=True, meaning="null: in no range")]
    instances: Annotated[int | None, Label(say("Instances"), Unit.COUNT, meaning="of work inside graphs, launches")]
    host_ns: Annotated[int | None, Label(say("Host"), Unit.NS)]
    share: Annotated[
        float | None,
        Label(say("Share"), Unit.SHARE, meaning="host time of those that began in the steady steps, of the steps"),
    ]
    gpu_ns: Annotated[int, Label("GPU", Unit.NS, page_text=say("GPU time"), meaning="with the ranges inside")]
    own_gpu_ns: Annotated[int, Label(say("GPU, own"), Unit.NS, detail=2, meaning="without the ranges inside")]
    launches: Annotated[int, Label(say("Launches"), Unit.COUNT, detail=1, meaning="of kernels and graphs")]
    waits: Annotated[int | None, Label(say("Waits"), Unit.COUNT, detail=3, meaning="calls that wait for the GPU")]
    sm_active_share: Annotated[float | None, Label(say("SMs active"), Unit.SHARE, detail=1, meaning=_USE)] = None
    tensor_share: Annotated[float | None, Label(say("Tensor"), Unit.SHARE, detail=1, meaning=_USE)] = None
    dram_read_share: Annotated[float | None, Label(say("DRAM read"), Unit.SHARE, detail=1, meaning=_USE)] = None
    dram_write_share: Annotated[float | None, Label(say("DRAM write"), Unit.SHARE, detail=1, meaning=_USE)] = None

    @property
    def is_sampled(self) -> bool:
        """Whether it is known what its kernels use of the GPU."""
        return any(getattr(self, f"{metric}_share") is not None for metric in _USED)


class RangeTree(Struct, frozen=True):
    """All ranges, parents before their children, the most GPU time first; and what was launched in none."""

    gpu: int
    nodes: tuple[RangeRow, ...]
    outside: RangeRow


def range_tree(trace: Trace, device: Device, use: UseOfKernels | None = None, *, folded: bool = False) -> RangeTree:
    """The ranges of one trace, with what one GPU did in them, and what its kernels use of it where that is known.

    Names leave out ids that would make each instance another range; `folded` ones leave out all that counts instances.
    """
    host, ranges = device.host, device.host.ranges
    every = device.work.of(device.gpu)
    work = every.where(holds(device.ledger.busy.stretches, every.start_ns))
    around = np.append(host.range_of_call, np.int32(-1))  # the last is for what no call launched
    launcher, waiting = around[work.launch], around[host.blocking]
    launches = np.zeros(len(around), np.bool_)
    launches[work.launch] = True
    launching = around[:-1][launches[:-1] & host.are(CallKind.LAUNCH)]
    length = work.end_ns - work.start_ns
    own_launches, own_waits = (np.bincount(place[place >= 0], minlength=len(ranges)) for place in (launching, waiting))
    above = (
        parents(ranges["start_ns"], ranges["end_ns"], thread(ranges)) if host.nesting is None else host.nesting.above
    )
    shown = of_this_gpu(device, ranges) | ~is_among(ranges["pid"], distinct(device.work.pid))  # other GPUs' are theirs
    if len(work) < len(every):
        works = np.zeros(len(ranges), np.bool_)
        works[launcher[launcher >= 0]] = True
        shown &= _with_parents(above, works)
    spelled = without_numbers if folded else without_ids
    if folded:
        names, name_of = folded_names(ranges)
    else:
        bare = ranges.strings.rewritten(ranges.codes("name"), without_ids)
        names, name_of = bare.strings.kinds(bare.codes, lambda text: text or "?")
    names, name_of = _by_process(device, ranges, above, names, name_of)
    base = NamePaths(above, name_of)
    placed = placed_paths(trace, base, names, base.of_row[launcher], place_of_work(trace, work), spelled)
    own_gpu = sweep.sums(placed.of_work, length, len(placed.paths))
    of_ranges = (ranges.duration_ns, own_launches, own_waits, _steady_ns(trace, device, ranges))
    sums = np.zeros((1 + len(of_ranges), len(placed.paths)), np.int64)  # how many are shown, and the amounts of those
    for row, column in enumerate((shown, *of_ranges)):
        sums[row, placed.of_base[:-1]] = base.sums(column * shown)
    sums[0] += placed.launches(work.launch)
    used = None if use is None else _use_by_path(work, use, placed.of_work, len(placed.paths))
    outside_ns = int(length.sum()) - int(own_gpu.sum())
    nodes = _nodes(device, placed, own_gpu, sums, used)
    outside = RangeRow(
        gpu=device.gpu,
        depth=0,
        range=None,
        instances=None,
        host_ns=None,
        share=None,
        gpu_ns=outside_ns,
        own_gpu_ns=outside_ns,
        launches=int((launching < 0).sum()),
        waits=None,
    )
    return RangeTree(device.gpu, nodes, outside)


def _by_process(
    device: Device, ranges: Rows, above: Positions, names: list[str], name_of: NDArray[Any]
) -> tuple[list[str], NDArray[Any]]:
    """Names under which the ranges of ranks that share a GPU stay apart: an outermost one says whose it is."""
    pids = distinct(ranges["pid"][of_this_gpu(device, ranges)])
    if len(pids) < 2:
        return names, name_of
    outer = np.flatnonzero((above < 0) & is_among(ranges["pid"], pids))
    first, number = group(ranges["pid"][outer], name_of[outer])
    apart = name_of.astype(np.int64)
    apart[outer] = len(names) + number
    whose = [f"{names[name_of[row]]} (process {ranges['pid'][row]})" for row in outer[first].tolist()]
    return [*names, *whose], apart


def _use_by_path(work: Activities, use: UseOfKernels, path: NDArray[Any], paths: int) -> NDArray[np.float64]:
    """A row per path: how long its own kernels ran whose use is known, then that time times each of OF_KERNELS."""
    is_kernel = (work.family >= 0) & (work.family != work.families.index(GRAPH_FAMILY))
    here = np.flatnonzero(is_kernel & (path >= 0))
    kernel = use.kernel_of_row[work.row[here]]
    here, kernel = here[kernel >= 0], kernel[kernel >= 0]
    path, length = path[here], (work.end_ns - work.start_ns)[here]
    columns = [np.ones(len(use.kernels))]
    for metric in OF_KERNELS:
        figures = [known.figures.get(metric) for known in use.kernels]
        columns.append(np.array([np.nan if figure is None else figure.percent for figure in figures]))
    return np.stack([np.bincount(path, length * level[kernel], minlength=paths) for level in columns], axis=1)


def _with_parents(above: Positions, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    marked, last = chosen.copy(), np.flatnonzero(chosen)
    while len(last):  # each range is met once
        enclosing = above[last]
        enclosing = enclosing[enclosing >= 0]
        last = distinct(enclosing[~marked[enclosing]])
        marked[last] = True
    return marked


def _steady_ns(trace: Trace, device: Device, ranges: Rows) -> Ints:
    """How long each range is open that began while the host worked on the steady steps; 0 for the others.

    One that is open for much longer than the steps take is no share of them: the host did something else meanwhile.
    """
    stretch = host_stretch(trace, device)
    counts = begins_in(stretch, ranges) & of_this_gpu(device, ranges) & ~ranges["open"]
    open_ns: Ints = np.minimum(ranges["end_ns"], stretch.end_ns) - ranges["start_ns"]
    return np.where(counts & (open_ns <= _LONGEST_OPEN * device.steady_ns), open_ns, 0)


def _nodes(
    device: Device, placed: PlacedPaths, own_gpu: Ints, sums: NDArray[np.int64], used: NDArray[np.float64] | None
) -> tuple[RangeRow, ...]:
    """One row per path of names; `sums` are those of instances, host time, launches, waits and steady time."""
    paths = placed.paths
    instances, own_host, own_launches, own_waits, own_steps = sums
    inner = [paths.with_inner(own) for own in (own_gpu, own_launches, own_waits)]
    names = [placed.names[name] for name in paths.name.tolist()]
    order = paths.in_order(inner[0], names)
    order = order[instances[order] > 0]
    use: list[dict[str, float]] = [{}] * len(order)
    if used is not None:
        use = [
            {
                f"{metric}_share": use / time / 100
                for metric, use in zip(OF_KERNELS, uses, strict=True)
                if metric in _USED and time and not np.isnan(use)
            }
            for time, *uses in paths.with_inner(used)[order].tolist()
        ]
    columns = (paths.depth, instances, own_host, own_gpu, own_steps, *inner)
    return tuple(
        RangeRow(
            gpu=device.gpu,
            depth=depth,
            range=names[path],
            instances=count,
            host_ns=host,
            share=steady / device.steady_ns if steady and device.steady_ns else None,
            gpu_ns=gpu,
            own_gpu_ns=own,
            launches=calls,
            waits=waiting,
            **shares,
        )
        for path, shares, depth, count, host, own, steady, gpu, calls, waiting in zip(
            order.tolist(), use, *(column[order].tolist() for column in columns), strict=True
        )
    )
