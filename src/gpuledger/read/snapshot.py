"""What `torch.cuda.memory._dump_snapshot` wrote, of torch 2.1 and later: a pickle in, a `MemorySnapshot` out.

torch writes a dictionary: `segments` with their blocks, `device_traces` with the events of each GPU, and, by version,
`allocator_settings` (2.1) and `external_annotations` (2.5). Before, and from `torch.cuda.memory_snapshot()`, it is the
list of segments alone. What a version adds is passed over; what it lacks is not measured. Many dictionaries of one
shape become a column of nodes per key.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.errors import UnreadableProfile
from gpuledger.limits import DEFAULT_LIMITS, Limits
from gpuledger.messages import say
from gpuledger.read import no_progress
from gpuledger.read.pickle_tree import BOOL, DICT, INT, LIST, TEXT, TUPLE, Nodes, PickleTree, groups_of_lists, read_tree
from gpuledger.read.request import Progress, too_many_gpus, too_many_rows
from gpuledger.read.source import Source, in_time, look_at, opened, unchanged
from gpuledger.trace.deadline import check
from gpuledger.trace.measured import (
    GpuMemory,
    MemoryAction,
    MemoryBlocks,
    MemoryHistory,
    MemoryRange,
    MemorySegments,
    MemorySnapshot,
)
from gpuledger.trace.model import Note, Severity
from gpuledger.trace.spans import Ints
from gpuledger.trace.strings import Stacks, Strings, python_frame
from gpuledger.units import bytes_text

NodeColumn = NDArray[np.int64]
"""A node per row; -1 where the row has no such key."""

_MOST_KEYS: Final = 64
"""A dictionary with more is no row."""

_LONGEST: Final = 4096
"""Letters of a frame's name that are kept."""


def listed(tree: PickleTree, node: int | None) -> Nodes:
    """The items of a list or a tuple; none of anything else."""
    return tree.of(node) if node is not None and tree.kind[node] in (LIST, TUPLE) else tree.children[:0]


def columns(name: str, tree: PickleTree, rows: Nodes, keys: Sequence[str]) -> dict[str, NodeColumn]:
    """For each key, the node that each row has under it. What is no dictionary has none."""
    wanted = {key: np.full(len(rows), -1, np.int64) for key in keys}
    width = np.where(tree.kind[rows] == DICT, tree.count[rows], 0).astype(np.int64)
    width[width > 2 * _MOST_KEYS] = 0
    if int(width.sum()) > 4 * (len(tree.children) + 1024):  # one dictionary in many places: no allocator writes that
        raise UnreadableProfile(f"{name}: the pickle repeats one value more often than it could be meant")
    for entries in np.unique(width[width > 0]).tolist():
        chosen = np.flatnonzero(width == entries)
        placed = tree.value[rows[chosen]]
        names = tree.children[placed[:, None] + np.arange(0, entries, 2)]
        number = _numbers(tree, names, keys)
        for place in range(entries // 2):
            values = tree.children[placed + (2 * place + 1)]
            here = number[:, place]
            for key in np.unique(here[here >= 0]).tolist():
                mine = here == key
                wanted[keys[key]][chosen[mine]] = values[mine]
    return wanted


def _numbers(tree: PickleTree, names: Nodes, keys: Sequence[str]) -> NDArray[np.int8]:
    texts = {key: number for number, key in enumerate(keys)}
    by_node = np.full(len(tree.kind), -1, np.int8)
    for node in used_nodes(tree, names):
        if tree.kind[node] == TEXT and tree.count[node] < 64:  # no key is as long
            by_node[node] = texts.get(tree.text(node) or "", -1)
    return by_node[names]


def used_nodes(tree: PickleTree, nodes: NDArray[np.integer]) -> list[int]:
    """The different nodes among these."""
    is_used = np.zeros(len(tree.kind), np.bool_)
    is_used[nodes.ravel()] = True
    return np.flatnonzero(is_used).tolist()


def integers(tree: PickleTree, nodes: NodeColumn, missing: int = -1) -> Ints:
    """The value of each; `missing` for what is no integer of 64 bits."""
    kinds = tree.kind[nodes]
    is_known = (nodes >= 0) & ((kinds == INT) | (kinds == BOOL))
    return np.where(is_known, tree.value[nodes], missing)


def words(tree: PickleTree, nodes: NodeColumn, meanings: dict[str, int], other: int = -1) -> NDArray[np.int8]:
    """What each text stands for; `other` for those that stand for nothing."""
    by_node = np.full(len(tree.kind) + 1, other, np.int8)  # -1 indexes the last
    for node in used_nodes(tree, nodes[nodes >= 0]):
        if tree.count[node] < 64:  # no word of torch's is as long
            by_node[node] = meanings.get(tree.text(node) or "", other)
    return by_node[nodes]


class StackTable:
    """Lists of frames in, positions of stacks out: each distinct stack once, whatever lists it is written in."""

    def __init__(self, tree: PickleTree) -> None:
        self._tree = tree
        self._by_frames: dict[tuple[int, ...], int] = {}
        self._frame_code: dict[int, int] = {}
        self.texts: dict[str, int] = {}

    def numbers(self, lists: NodeColumn) -> NDArray[np.int32]:
        """The stack of each list of frames; -1 for an empty one, or none."""
        tree = self._tree
        by_node = np.full(len(tree.kind) + 1, -1, np.int32)  # -1 indexes the last
        nodes = np.array(used_nodes(tree, lists[lists >= 0]), np.int64)
        nodes = nodes[tree.kind[nodes] == LIST]
        group, member = groups_of_lists(tree, nodes)
        numbers = [self._number(tree.of(node)) for node in nodes[member].tolist()]
        by_node[nodes] = np.array(numbers, np.int32)[group] if len(nodes) else -1
        return by_node[lists]

    def _number(self, frames: Nodes) -> int:
        check()
        for node in frames.tolist():
            if node not in self._frame_code:
                self._frame_code[node] = self.texts.setdefault(self._text(node), len(self.texts))
        codes = tuple(map(self._frame_code.__getitem__, frames.tolist()))
        return self._by_frames.setdefault(codes, len(self._by_frames)) if codes else -1

    def _text(self, node: int) -> str:
        """A frame of Python with its file and line, one of C++ by its name."""
        tree = self._tree
        if tree.kind[node] != DICT or tree.count[node] > 2 * _MOST_KEYS:
            return "?"
        name_node, file_node, line_node = (tree.get(node, key) for key in ("name", "filename", "line"))
        name, file = (None if text is None else tree.text(text) for text in (name_node, file_node))
        line = int(tree.value[line_node]) if line_node is not None and tree.kind[line_node] == INT else 0
        if not file or not (file.endswith(".py") or file.startswith("<")):
            return (name or "?")[:_LONGEST]
        return python_frame((name or "?")[:_LONGEST], file[:_LONGEST], line)

    def stacks(self) -> Stacks:
        """All that were numbered, in the order of their numbers."""
        lengths = [len(frames) for frames in self._by_frames]
        offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(np.array(lengths, np.int64))))
        frames = [code for stack in self._by_frames for code in stack]
        return Stacks(offsets, np.array(frames, np.int32))


_ACTIONS: Final = {action.name.lower(): int(action) for action in MemoryAction}
_STATES: Final = {"active_allocated": 2, "active_awaiting_free": 1, "active_pending_free": 1}


def is_snapshot(source: Source) -> bool:
    """Whether a file begins as a pickle of the protocols that torch uses."""
    return source.head[:1] == b"\x80" and source.head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05")


def is_snapshot_file(profile: str | Path) -> bool:
    """Whether a file is such a snapshot, by its first bytes."""
    return os.path.isfile(profile) and is_snapshot(look_at(Path(profile)))  # noqa: PTH113 - also of names no file can have


def open_snapshot(
    path: str | Path, *, limits: Limits = DEFAULT_LIMITS, progress: Progress = no_progress
) -> MemorySnapshot:
    """The snapshot in a file."""
    source = look_at(Path(path))
    if not is_snapshot(source):
        raise UnreadableProfile(
            f"{source.name}: not a memory snapshot of PyTorch",
            found="torch.cuda.memory._dump_snapshot writes a pickle of protocol 2 to 5; this does not begin as one",
            hint="record one with `gpuledger capture torch --memory -- python train.py`",
        )
    if source.size > limits.snapshot_bytes:
        raise UnreadableProfile(
            f"{source.name}: {bytes_text(source.size)}, more than a memory snapshot may have",
            hint=f"record fewer events (max_entries), or raise the limit: --limit=snapshot-bytes={source.size}",
        )
    with unchanged(source), in_time(source.name, limits):
        progress("snapshot", 0)
        with opened(source) as file:
            pickled = file.read(source.size)
        return _snapshot(source.name, read_tree(source.name, pickled), limits, progress)


def _snapshot(name: str, tree: PickleTree, limits: Limits, progress: Progress) -> MemorySnapshot:
    is_dict = tree.kind[tree.root] == DICT
    segments = tree.get(tree.root, "segments") if is_dict else tree.root
    if segments is None or tree.kind[segments] != LIST:
        raise _other_pickle(name)
    reading = _SnapshotReading(name, tree, limits)
    held = reading.segments(listed(tree, segments))
    if not is_dict and not held and len(listed(tree, segments)):
        raise _other_pickle(name)
    traces = listed(tree, tree.get(tree.root, "device_traces") if is_dict else None)
    if len(traces) > limits.gpus:
        raise too_many_gpus(name, len(traces), limits.gpus)
    histories = {gpu: reading.history(listed(tree, node)) for gpu, node in enumerate(traces.tolist())}
    progress("snapshot", sum(map(len, histories.values())))
    gpus = sorted({gpu for gpu, history in histories.items() if len(history)} | held.keys())
    if len(gpus) > limits.gpus:
        raise too_many_gpus(name, len(gpus), limits.gpus)
    empty = reading.history(tree.children[:0])
    none, no = np.empty(0, np.int64), np.empty(0, np.bool_)
    nothing = MemorySegments(none, none, no), MemoryBlocks(none, none, none, no, no, none.astype(np.int32))
    ranges = reading.ranges(listed(tree, tree.get(tree.root, "external_annotations") if is_dict else None))
    return MemorySnapshot(
        name,
        tuple(GpuMemory(gpu, histories.get(gpu, empty), *held.get(gpu, nothing)) for gpu in gpus),
        reading.stacks.stacks(),
        Strings(reading.stacks.texts),
        ranges,
        reading.has_expandable_segments(tree.get(tree.root, "allocator_settings") if is_dict else None),
        tuple(reading.notes),
    )


def _other_pickle(name: str) -> UnreadableProfile:
    return UnreadableProfile(
        f"{name}: a pickle, but not a memory snapshot of PyTorch",
        found="it holds no list of the allocator's segments",
        hint="write one with torch.cuda.memory._dump_snapshot(PATH)",
    )


class _SnapshotReading:
    """One snapshot being read: its tree, its stacks, and what was lost."""

    def __init__(self, name: str, tree: PickleTree, limits: Limits) -> None:
        self._name, self._tree, self._limits = name, tree, limits
        self.stacks = StackTable(tree)
        self.notes: list[Note] = []

    def _columns(self, rows: Nodes, table: str, *keys: str) -> dict[str, NodeColumn]:
        if len(rows) > self._limits.rows_per_table:
            raise too_many_rows(self._name, table, self._limits.rows_per_table)
        return columns(self._name, self._tree, rows, keys)

    def _note_loss(self, count: int, sentence: str) -> None:
        if count:
            self.notes.append(Note(Severity.LOSS, "rows-left-out", sentence, count))

    def history(self, events: Nodes) -> MemoryHistory:
        tree = self._tree
        nodes = self._columns(events, "device_traces", "action", "addr", "size", "time_us", "frames", "device_free")
        action = words(tree, nodes["action"], _ACTIONS)
        size, address = integers(tree, nodes["size"]), integers(tree, nodes["addr"])
        needs_address = (action != MemoryAction.OOM) & (action != MemoryAction.SNAPSHOT)
        is_good = (action >= 0) & (size >= 0) & (size < _MOST_BYTES) & ((address >= 0) | ~needs_address)
        unknown = int(np.count_nonzero(~is_good))
        self._note_loss(
            unknown,
            say("{count} events of the allocator are of a kind that is not known, or have no size", count=unknown),
        )
        chosen = slice(None) if not unknown else is_good
        time_us = integers(tree, nodes["time_us"])[chosen]
        return MemoryHistory(
            action[chosen],
            address[chosen],
            size[chosen],
            np.where((time_us >= 0) & (time_us < _MOST_US), time_us * 1000, -1),
            self.stacks.numbers(nodes["frames"])[chosen],
            integers(tree, nodes["device_free"])[chosen],
        )

    def segments(self, rows: Nodes) -> dict[int, tuple[MemorySegments, MemoryBlocks]]:
        tree = self._tree
        nodes = self._columns(rows, "segments", "device", "address", "total_size", "is_expandable", "blocks")
        gpu, size = integers(tree, nodes["device"], 0), integers(tree, nodes["total_size"])
        address = integers(tree, nodes["address"])
        is_good = (size >= 0) & (size < _MOST_BYTES) & (address >= 0) & (gpu >= 0)
        bad = int(np.count_nonzero(~is_good))
        self._note_loss(bad, say("{count} segments have no size or address", count=bad))
        held: dict[int, tuple[MemorySegments, MemoryBlocks]] = {}
        for one in np.unique(gpu[is_good]).tolist():
            if len(held) > self._limits.gpus:
                raise too_many_gpus(self._name, len(held), self._limits.gpus)
            mine = np.flatnonzero(is_good & (gpu == one))
            mine = mine[np.argsort(address[mine], kind="stable")]
            made = MemorySegments(address[mine], size[mine], integers(tree, nodes["is_expandable"], 0)[mine] == 1)
            held[one] = made, self._blocks(nodes["blocks"][mine])
        return held

    def _blocks(self, lists: NodeColumn) -> MemoryBlocks:
        tree = self._tree
        rows = [listed(tree, node if node >= 0 else None) for node in lists.tolist()]
        segment = np.repeat(np.arange(len(rows)), [len(blocks) for blocks in rows])
        whole = np.concatenate(rows) if rows else tree.children[:0]
        nodes = self._columns(whole, "blocks", "address", "size", "state", "frames")
        state = words(tree, nodes["state"], _STATES, 0)
        size = np.clip(integers(tree, nodes["size"], 0), 0, _MOST_BYTES)
        return MemoryBlocks(
            segment,
            integers(tree, nodes["address"]),
            size,
            state == _STATES["active_allocated"],
            state > 0,
            self.stacks.numbers(nodes["frames"]),
        )

    def ranges(self, marks: Nodes) -> tuple[MemoryRange, ...]:
        """What the program marked: each END with the last START of its name."""
        tree = self._tree
        first = marks[:200_000]  # a step needs two
        nodes = self._columns(first, "external_annotations", "stage", "name", "device", "time_us")
        stage = words(tree, nodes["stage"], {"START": 1, "END": 2}, 0)
        device, time_us = integers(tree, nodes["device"], 0), integers(tree, nodes["time_us"])
        ranges = list[MemoryRange]()
        begun: dict[tuple[str, int], list[int]] = {}
        for row, which in enumerate(stage.tolist()):
            name = tree.text(int(nodes["name"][row])) if nodes["name"][row] >= 0 else None
            instant = int(time_us[row])
            if name is None or not 0 <= instant < _MOST_US:
                continue
            key = (name, int(device[row]))
            if which == 1:
                begun.setdefault(key, []).append(1000 * instant)
            elif which and begun.get(key):
                ranges.append(MemoryRange(*key, begun[key].pop(), 1000 * instant))
        return tuple(sorted(ranges, key=lambda marked: (marked.start_ns, marked.end_ns, marked.name)))

    def has_expandable_segments(self, settings: int | None) -> bool | None:
        node = None if settings is None else self._tree.get(settings, "expandable_segments")
        return None if node is None or self._tree.kind[node] != BOOL else bool(self._tree.value[node])


_MOST_BYTES: Final = 1 << 50
"""No GPU has as many: sums of sizes stay far from the end of 64 bits."""
_MOST_US: Final = 1 << 52
