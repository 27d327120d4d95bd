"""What `torch.cuda.memory._dump_snapshot` wrote, of torch 2.1 and later: a pickle in, a `MemorySnapshot` out.

torch writes a dictionary: `segments` with their blocks, `device_traces` with the events of each GPU, and, by version,
`allocator_settings` (2.1) and `external_annotations` (2.5). Before, and from `torch.cuda.memory_snapshot()`, it is the
list of segments alone. What a version adds is passed over; what it lacks is not measured.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from gpuledger.errors import UnreadableProfile
from gpuledger.limits import DEFAULT_LIMITS, Limits
from gpuledger.messages import say
from gpuledger.read import no_progress
from gpuledger.read.request import Progress, too_many_gpus, too_many_rows
from gpuledger.read.snapshot.pickle_tree import BOOL, DICT, LIST, Nodes, PickleTree, read_tree
from gpuledger.read.snapshot.tree_rows import NodeColumn, StackTable, columns, integers, listed, words
from gpuledger.read.source import Source, in_time, look_at, opened, unchanged
from gpuledger.trace.health import Note, Severity
from gpuledger.trace.memory_snapshot import (
    GpuMemory,
    MemoryAction,
    MemoryBlocks,
    MemoryHistory,
    MemoryRange,
    MemorySegments,
    MemorySnapshot,
)
from gpuledger.trace.strings import Strings
from gpuledger.units import bytes_text

_ACTIONS: Final = {action.name.lower(): int(action) for action in MemoryAction}
_EVENT_KEYS: Final = ("action", "addr", "size", "time_us", "frames", "device_free")
_SEGMENT_KEYS: Final = (
    "device",
    "address",
    "total_size",
    "is_expandable",
    "blocks",
)
_BLOCK_KEYS: Final = ("address", "size", "state", "frames", "history")
_STATES: Final = {"active_allocated": 2, "active_awaiting_free": 1, "active_pending_free": 1}
_RANGE_KEYS: Final = ("stage", "name", "device", "time_us")
_MOST_RANGES: Final = 200_000
"""So many marks of the program are looked at; a step needs two."""


def is_snapshot(source: Source) -> bool:
    """Whether a file begins as a pickle of the protocols that torch uses."""
    return source.head[:1] == b"\x80" and source.head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05")


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
    histories = {gpu: reading.history(listed(tree, node)) for gpu, node in enumerate(_few(name, traces, limits))}
    progress("snapshot", sum(map(len, histories.values())))
    gpus = sorted({gpu for gpu, history in histories.items() if len(history)} | held.keys())
    if len(gpus) > limits.gpus:
        raise too_many_gpus(name, len(gpus), limits.gpus)
    empty = reading.history(tree.children[:0])
    none = _no_segments()
    made = tuple(GpuMemory(gpu, histories.get(gpu, empty), *held.get(gpu, none)) for gpu in gpus)
    ranges = reading.ranges(listed(tree, tree.get(tree.root, "external_annotations") if is_dict else None))
    stacks = reading.stacks.stacks()
    return MemorySnapshot(
        name,
        made,
        stacks,
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


def _few(name: str, traces: Nodes, limits: Limits) -> list[int]:
    if len(traces) > limits.gpus:
        raise too_many_gpus(name, len(traces), limits.gpus)
    return [int(node) for node in traces.tolist()]


def _no_segments() -> tuple[MemorySegments, MemoryBlocks]:
    none, no = np.empty(0, np.int64), np.empty(0, np.bool_)
    return MemorySegments(none, none, no), MemoryBlocks(none, none, none, no, no, none.astype(np.int32))


class _SnapshotReading:
    """One snapshot being read: its tree, its stacks, and what was lost."""

    def __init__(self, name: str, tree: PickleTree, limits: Limits) -> None:
        self._name, self._tree, self._limits = name, tree, limits
        self.stacks = StackTable(tree)
        self.notes: list[Note] = []

    def _columns(self, rows: Nodes, table: str, keys: tuple[str, ...]) -> dict[str, NodeColumn]:
        if len(rows) > self._limits.rows_per_table:
            raise too_many_rows(self._name, table, self._limits.rows_per_table)
        return columns(self._name, self._tree, rows, keys)

    def _lost(self, count: int, sentence: str) -> None:
        if count:
            self.notes.append(Note(Severity.LOSS, "rows-left-out", sentence, count))

    def history(self, events: Nodes) -> MemoryHistory:
        """The events of one GPU."""
        tree = self._tree
        nodes = self._columns(events, "device_traces", _EVENT_KEYS)
        action = words(tree, nodes["action"], _ACTIONS)
        size, address = integers(tree, nodes["size"]), integers(tree, nodes["addr"])
        needs_address = (action != MemoryAction.OOM) & (action != MemoryAction.SNAPSHOT)
        is_good = (action >= 0) & (size >= 0) & (size < _MOST_BYTES) & ((address >= 0) | ~needs_address)
        unknown = int(np.count_nonzero(~is_good))
        self._lost(
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
        """Segments and blocks by GPU."""
        tree = self._tree
        nodes = self._columns(rows, "segments", _SEGMENT_KEYS)
        gpu, size = integers(tree, nodes["device"], 0), integers(tree, nodes["total_size"])
        address = integers(tree, nodes["address"])
        is_good = (size >= 0) & (size < _MOST_BYTES) & (address >= 0) & (gpu >= 0)
        bad = int(np.count_nonzero(~is_good))
        self._lost(bad, say("{count} segments have no size or address", count=bad))
        held: dict[int, tuple[MemorySegments, MemoryBlocks]] = {}
        for one in np.unique(gpu[is_good]).tolist():
            if len(held) > self._limits.gpus:
                raise too_many_gpus(self._name, len(held), self._limits.gpus)
            mine = np.flatnonzero(is_good & (gpu == one))
            mine = mine[np.argsort(address[mine], kind="stable")]
            made = MemorySegments(
                address[mine],
                size[mine],
                integers(tree, nodes["is_expandable"], 0)[mine] == 1,
            )
            held[one] = made, self._blocks(nodes["blocks"][mine])
        return held

    def _blocks(self, lists: NodeColumn) -> MemoryBlocks:
        tree = self._tree
        rows = [listed(tree, node if node >= 0 else None) for node in lists.tolist()]
        segment = np.repeat(np.arange(len(rows)), [len(blocks) for blocks in rows])
        whole = np.concatenate(rows) if rows else tree.children[:0]
        nodes = self._columns(whole, "blocks", _BLOCK_KEYS)
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
        nodes = self._columns(marks[:_MOST_RANGES], "external_annotations", _RANGE_KEYS)
        stage = words(tree, nodes["stage"], {"START": 1, "END": 2}, 0)
        device, time_us = integers(tree, nodes["device"], 0), integers(tree, nodes["time_us"])
        made = list[MemoryRange]()
        begun: dict[tuple[str, int], list[int]] = {}
        for at, which in enumerate(stage.tolist()):
            name = tree.text(int(nodes["name"][at])) if nodes["name"][at] >= 0 else None
            instant = int(time_us[at])
            if name is None or not 0 <= instant < _MOST_US:
                continue
            key = (name, int(device[at]))
            if which == 1:
                begun.setdefault(key, []).append(1000 * instant)
            elif which and begun.get(key):
                made.append(MemoryRange(*key, begun[key].pop(), 1000 * instant))
        return tuple(sorted(made, key=lambda marked: (marked.start_ns, marked.end_ns, marked.name)))

    def has_expandable_segments(self, settings: int | None) -> bool | None:
        node = None if settings is None else self._tree.get(settings, "expandable_segments")
        return None if node is None or self._tree.kind[node] != BOOL else bool(self._tree.value[node])


_MOST_BYTES: Final = 1 << 50
"""No GPU has as many: sums of sizes stay far from the end of 64 bits."""
_MOST_US: Final = 1 << 52
