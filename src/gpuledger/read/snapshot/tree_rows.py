"""Rows and stacks out of a pickle's tree: many dictionaries of one shape in, a column of nodes per key out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.errors import UnreadableProfile
from gpuledger.read.snapshot.pickle_tree import BOOL, DICT, INT, LIST, TEXT, TUPLE, Nodes, PickleTree, groups_of_lists
from gpuledger.trace.deadline import check
from gpuledger.trace.spans import Ints
from gpuledger.trace.stacks import Stacks, python_frame

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
    """Which of the keys each of these nodes is; -1 for none."""
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
        codes = tuple(self._code(node) for node in frames.tolist())
        return self._by_frames.setdefault(codes, len(self._by_frames)) if codes else -1

    def _code(self, node: int) -> int:
        if node not in self._frame_code:
            self._frame_code[node] = self.texts.setdefault(self._text(node), len(self.texts))
        return self._frame_code[node]

    def _text(self, node: int) -> str:
        """A frame of Python with its file and line, one of C++ by its name."""
        tree = self._tree
        if tree.kind[node] != DICT or tree.count[node] > 2 * _MOST_KEYS:
            return "?"
        told = {key: tree.get(node, key) for key in ("name", "filename", "line")}
        name, file = (tree.text(told[key] or 0) if told[key] is not None else "" for key in ("name", "filename"))
        line = int(tree.value[told["line"]]) if told["line"] is not None and tree.kind[told["line"]] == INT else 0
        if not file or not (file.endswith(".py") or file.startswith("<")):
            return (name or "?")[:_LONGEST]
        return python_frame((name or "?")[:_LONGEST], file[:_LONGEST], line)

    def stacks(self) -> Stacks:
        """All that were numbered, in the order of their numbers."""
        lengths = [len(frames) for frames in self._by_frames]
        offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(np.array(lengths, np.int64))))
        frames = [code for stack in self._by_frames for code in stack]
        return Stacks(offsets, np.array(frames, np.int32))
