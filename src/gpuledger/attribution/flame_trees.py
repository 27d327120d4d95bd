"""Trees of time: by what the program named, by operators, Python functions or call stacks, and by families of kernels.

A node is a path of names. Its host time is how long its ranges were open, on all threads together; its GPU time is that
of the work launched from inside them, and below each path are the kernels that it launched. Work launched outside all
of them is a node of its own, so that the outermost sum to all GPU time. Numbers that count instances are folded out of
names. Nodes with the least time are left out; a parent has at least what its children have, so it stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any, Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gpuledger.attribution.launch_places import place_of_work, placed_paths
from gpuledger.attribution.lines import idle_stacks
from gpuledger.attribution.ranges import NamedNest, NamePaths, ProgramRanges
from gpuledger.catalog.kernel_names import label
from gpuledger.ledger.activity import Activities
from gpuledger.ledger.device import Device
from gpuledger.ledger.ranges import innermost
from gpuledger.trace import sweep
from gpuledger.trace.keys import Positions, distinct, group
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints
from gpuledger.trace.strings import Codes, torch_frame
from gpuledger.trace.tables import Table

MOST_NODES: Final = 2_500  # of one tree; those with the least are left out
_LARGEST_GRID: Final = 10_000_000  # pairs of a path and a name that are counted in a place each

_Leaves = tuple[NDArray[Any], NDArray[Any], Ints]  # paths, names, and the time of the work of each pair


class TreeKind(Enum):
    """What a tree's names are."""

    RANGES = "ranges"
    OPERATORS = "operators"
    FUNCTIONS = "functions"
    CALL_STACKS = "call stacks"
    SAMPLED_STACKS = "sampled stacks"
    IDLE_STACKS = "idle stacks"
    FAMILIES = "families"


class FlameTree(Struct, frozen=True, eq=False):
    """One tree. Columns of equal length, parents before their children."""

    kind: TreeKind
    parent: Ints  # -1 for the outermost
    names: tuple[str, ...]  # of what was launched outside all of them empty
    family: tuple[str, ...]  # of kernels; empty for all else
    host: Ints  # nanoseconds, with what is inside; of sampled stacks how many samples; of idle ones the GPU's
    gpu_ns: Ints  # with what is inside

    def __len__(self) -> int:
        return len(self.names)


class _Kernels:
    """The work of one GPU, summed up under paths: the leaves of every tree."""

    def __init__(self, trace: Trace, work: Activities) -> None:
        self.trace, self.work = trace, work
        self.length_ns = work.end_ns - work.start_ns
        self.family_of = np.full(int(work.name.max(initial=-1)) + 2, -1, np.int64)
        """By the code of a name; the last is for graphs, which have none."""
        self.family_of[work.name] = work.family

    @property
    def by_name(self) -> tuple[Codes, Ints]:
        time = sweep.sums(self.work.name + np.int32(1), self.length_ns, len(self.family_of))
        place = np.flatnonzero(time)
        return (place - 1).astype(np.int32), time[place]

    def by_path(self, path: NDArray[Any], outside: int) -> _Leaves:
        """Each pair of a path and a name that occurs, and the time of its work; what has no path is outside all."""
        path, name = np.where(path < 0, np.int32(outside), path), self.work.name
        codes = distinct(name)
        if not len(codes) or (outside + 1) * len(codes) > _LARGEST_GRID:
            pair, of_pair = group(path, name)
            time = sweep.sums(of_pair, self.length_ns, len(pair))
            return path[pair], name[pair], time
        number_of = np.zeros(int(codes[-1]) + 2, np.int32)  # -1 is the last
        number_of[codes] = np.arange(len(codes))
        place = number_of[name] + path * np.int32(len(codes))  # of each pair, so that millions of rows are not sorted
        time = sweep.sums(place, self.length_ns, (outside + 1) * len(codes))
        pairs = np.flatnonzero(time)
        return pairs // len(codes), codes[pairs % len(codes)], time[pairs]

    def tree(self, kind: TreeKind, paths: NamePaths, names: Sequence[str], host: Ints, leaves: _Leaves) -> FlameTree:
        """The tree with kernels under the paths that launched them; work outside all is a frame without a name."""
        path, name, time = leaves
        own_ns = sweep.sums(path, time, len(paths) + 1)
        kept = np.argsort(-time, kind="stable")[:MOST_NODES]
        texts = self.trace.strings.decode(name[kept].astype(np.int32))
        kernels = [label(text) if text else "CUDA graph" for text in texts]
        families = [
            self.work.families[family] if family >= 0 else "copy" for family in self.family_of[name[kept]].tolist()
        ]
        return _without_smallest(
            FlameTree(
                kind,
                np.concatenate((paths.parent, [-1], path[kept])),
                (*names, "", *kernels),
                (*("" for _ in names), "", *families),
                np.concatenate((host, np.zeros(1 + len(kept), np.int64))),
                np.concatenate((paths.with_inner(own_ns[:-1]), own_ns[-1:], time[kept])),
            )
        )


def flame_trees(trace: Trace, device: Device) -> tuple[FlameTree, ...]:
    """Every tree that the profile allows."""
    ranges, kernels = ProgramRanges(trace), _Kernels(trace, device.work.of(device.gpu))
    nests = {
        TreeKind.RANGES: ranges.annotations,
        TreeKind.OPERATORS: ranges.operators,
        TreeKind.FUNCTIONS: ranges.functions,
    }
    trees = [
        _range_tree(kind, nest, device, kernels)
        for kind, nest in nests.items()
        if len(nest) or (trace.places is not None and kind is TreeKind.RANGES)
    ]
    trees += _stack_trees(device, kernels)
    whole = int(kernels.length_ns.sum())
    # the GPU time that has a place in a tree: its outermost nodes with a name
    named = max((int(tree.gpu_ns[(tree.parent < 0) & (np.array(tree.names) != "")].sum()) for tree in trees), default=0)
    families = [_family_tree(kernels)]
    trees = [*trees, *families] if 2 * named >= whole else [*families, *trees]  # the most telling first
    return tuple(tree for tree in (*_idle_tree(trace, device), *trees) if len(tree))


def _family_tree(kernels: _Kernels) -> FlameTree:
    """Kernels by what they do, and copies."""
    families = [*kernels.work.families, "copy"]
    paths = NamePaths(np.full(len(families), -1), np.arange(len(families)))
    names, time = kernels.by_name
    path = paths.of_row[np.where(kernels.family_of[names] < 0, len(families) - 1, kernels.family_of[names])]
    shown = [families[name] for name in paths.name.tolist()]
    return kernels.tree(TreeKind.FAMILIES, paths, shown, np.zeros(len(paths), np.int64), (path, names, time))


def _idle_tree(trace: Trace, device: Device) -> Iterator[FlameTree]:
    """The GPU's idle time by the stack of Python that the host was in meanwhile."""
    stacks = idle_stacks(trace, device)
    if stacks:
        stack = np.array(list(stacks), np.int64)
        paths, names, of_stack = _stack_paths(trace, stack)
        own = sweep.fold(
            "sum", of_stack[stack], np.array(list(stacks.values()), np.int64), np.zeros(len(paths), np.int64)
        )
        yield _host_tree(TreeKind.IDLE_STACKS, paths, names, paths.with_inner(own))


def _range_tree(kind: TreeKind, ranges: NamedNest, device: Device, kernels: _Kernels) -> FlameTree:
    paths = NamePaths(ranges.nest.parent, ranges.name_of)
    host, work, trace = device.host, kernels.work, kernels.trace
    is_every_range = kind is TreeKind.RANGES and len(ranges) == len(host.ranges)
    around = host.range_of_call if is_every_range else innermost(ranges.rows, host.calls)
    path_of_call = np.append(paths.of_row.astype(np.int32)[around], np.int32(-1))  # the last: what no call launched
    texts = [torch_frame(name) for name in ranges.names] if kind is TreeKind.FUNCTIONS else ranges.names
    host_ns = paths.sums(ranges.rows.duration_ns)
    path: NDArray[Any] = path_of_call[work.launch]
    if kind is not TreeKind.FUNCTIONS and trace.places is not None:
        placed = placed_paths(trace, paths, texts, path, place_of_work(trace, work))
        whole = np.zeros(len(placed.paths), np.int64)
        whole[placed.of_base[:-1]] = host_ns
        paths, texts, host_ns, path = placed.paths, placed.names, whole, placed.of_work
    names = [texts[name] for name in paths.name.tolist()]
    return kernels.tree(kind, paths, names, host_ns, kernels.by_path(path, len(paths)))


def _stack_trees(device: Device, kernels: _Kernels) -> Iterator[FlameTree]:
    """Stacks of calls, with host time of the calls and GPU time of what they launched; and stacks of samples."""
    calls, trace = device.host.calls, kernels.trace
    if (calls["stack"] >= 0).any():
        paths, names, of_stack = _stack_paths(trace, calls["stack"])
        of_call = np.append(of_stack[calls["stack"]], -1)
        own = sweep.sums(of_call[:-1], calls.duration_ns, len(paths))
        host_ns = paths.with_inner(own)
        path = of_call[kernels.work.launch]
        yield kernels.tree(TreeKind.CALL_STACKS, paths, names, host_ns, kernels.by_path(path, len(paths)))
    samples = trace[Table.SAMPLES]
    python = samples.where(samples.codes("source") == samples.strings.code("python"))
    samples = python if len(python) else samples
    if len(samples):
        paths, names, of_stack = _stack_paths(trace, samples["stack"])
        path = of_stack[samples["stack"]]
        count = paths.with_inner(np.bincount(path[path >= 0], minlength=len(paths)))
        yield _host_tree(TreeKind.SAMPLED_STACKS, paths, names, count)


def _stack_paths(trace: Trace, stack: Ints) -> tuple[NamePaths, list[str], Positions]:
    """Paths of frames, the outermost first, of the stacks in use; their names; for each stack, -1 too, its path."""
    offsets, used = trace.stacks.offsets, distinct(stack[stack >= 0])
    lengths = offsets[used + 1] - offsets[used]
    frames = [trace.stacks.frames[offsets[number] : offsets[number + 1]][::-1] for number in used.tolist()]
    names = np.concatenate(frames) if frames else np.empty(0, np.int32)
    ends = np.cumsum(lengths)
    parent = np.arange(len(names)) - 1
    parent[(ends - lengths)[lengths > 0]] = -1
    paths = NamePaths(parent, names)
    of_stack = np.full(len(trace.stacks) + 1, -1, np.intp)
    of_stack[used] = np.where(lengths > 0, paths.of_row[ends - 1], -1)
    return paths, [text or "?" for text in trace.strings.decode(paths.name.astype(np.int32))], of_stack


def _host_tree(kind: TreeKind, paths: NamePaths, names: Sequence[str], host: Ints) -> FlameTree:
    """A tree without kernels."""
    blank = ("",) * len(paths)
    return _without_smallest(FlameTree(kind, paths.parent, tuple(names), blank, host, np.zeros_like(host)))


def _without_smallest(tree: FlameTree) -> FlameTree:
    """The nodes with the most, in the order that they had; host and GPU time count as shares of their wholes. The GPU
    time of outermost nodes that are left out goes to what has no name."""
    outermost = tree.parent < 0
    weight = np.maximum(*(column / max(int(column[outermost].sum()), 1) for column in (tree.host, tree.gpu_ns)))
    kept = np.sort(np.argsort(-weight, kind="stable")[:MOST_NODES])  # of equal ones the outer, which come first
    kept = kept[weight[kept] > 0]
    place = np.full(len(tree) + 1, -1, np.int64)
    place[kept] = np.arange(len(kept))
    names, family = (tuple(column[node] for node in kept.tolist()) for column in (tree.names, tree.family))
    parent, host, gpu_ns = place[tree.parent[kept]], tree.host[kept], tree.gpu_ns[kept]
    lost_ns = int(tree.gpu_ns[outermost].sum() - gpu_ns[parent < 0].sum())
    if lost_ns:
        parent, host, gpu_ns = np.append(parent, -1), np.append(host, 0), np.append(gpu_ns, lost_ns)
        names, family = (*names, ""), (*family, "")
    return FlameTree(tree.kind, parent, names, family, host, gpu_ns)
