"""A pickle's bytes in, its plain values out as flat arrays: no object is made, no class is looked for.

Python's own unpickler imports what a pickle names, makes an object of every value (a snapshot of 500 MB takes 2.2 GB
and 5 s), and takes memory for whatever a length or a number in the file says. Ours, in C (native/pickle_tree.c) and
here in Python for where there is no compiler, knows the opcodes of plain values alone. Both give the same.
"""

from __future__ import annotations

import os
import struct
from array import array
from collections.abc import Callable
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gpuledger.errors import UnreadableProfile
from gpuledger.trace.deadline import check
from gpuledger.trace.spans import Ints

try:
    from gpuledger.trace.native import _pickle_tree as native
except ImportError:  # not compiled: Python does it
    native = None  # type: ignore[assignment]

NONE, BOOL, INT, FLOAT, TEXT, BYTES, LIST, TUPLE, DICT, HUGE = range(10)
"""Kinds of nodes, as in native/pickle_tree.h."""

CUT_OFF, CLASS, UNKNOWN, DAMAGED, TOO_MANY = range(1, 6)
"""Why a pickle is refused, likewise."""

Nodes = NDArray[np.uint32]

_CLASSES: Final = frozenset(b"c\x93Rbio\x81\x92\x82\x83\x84PQ")
_CHECK_EVERY: Final = 1 << 16


class PickleTree(Struct, frozen=True, eq=False):
    """Nodes by number. A container's children are `children[value : value + count]`; a text's bytes likewise."""

    pickled: bytes | bytearray
    root: int
    kind: NDArray[np.uint8]
    value: Ints
    count: NDArray[np.uint32]
    children: Nodes

    def of(self, node: int) -> Nodes:
        first = int(self.value[node])
        return self.children[first : first + int(self.count[node])]

    def text(self, node: int) -> str | None:
        """A text; None for what is none."""
        if self.kind[node] != TEXT:
            return None
        first = int(self.value[node])
        return bytes(self.pickled[first : first + int(self.count[node])]).decode("utf-8", "replace")

    def get(self, node: int, key: str) -> int | None:
        """The value of a dictionary's key; the last of several, as Python has it."""
        if self.kind[node] != DICT:
            return None
        entries = self.of(node)
        pairs = zip(entries[-2::-2].tolist(), entries[::-2].tolist(), strict=True)
        return next((value for name, value in pairs if self.text(name) == key), None)


def _is_native() -> bool:
    return native is not None and os.environ.get("GPULEDGER_NATIVE") != "0"


def groups_of_lists(tree: PickleTree, lists: Ints) -> tuple[Ints, Ints]:
    """Lists by what they hold: the group of each, and the first list of each group."""
    first, count = tree.value[lists], tree.count[lists].astype(np.int64)
    if _is_native():
        group, member = np.empty(len(lists), np.int64), np.empty(len(lists), np.int64)
        groups = native.group_lists(first, count, tree.children, group, member)
        return group, member[:groups]
    number: dict[bytes, int] = {}
    members, numbers = list[int](), list[int]()
    for turn, (begin, length) in enumerate(zip(first.tolist(), count.tolist(), strict=True)):
        if turn % _CHECK_EVERY == 0:
            check()
        numbers.append(number.setdefault(tree.children[begin : begin + length].tobytes(), len(number)))
        if len(number) > len(members):
            members.append(turn)
    return np.array(numbers, np.int64), np.array(members, np.int64)


def read_tree(name: str, pickled: bytes | bytearray) -> PickleTree:
    """The values of a whole pickle; what is no plain pickle is refused."""
    read = native.read_tree if _is_native() else python_tree
    status, offset, root, *arrays = read(pickled)
    if status:
        raise _refusal(name, status, offset, pickled)
    kind, value, count, children = arrays
    return PickleTree(
        pickled,
        root,
        np.frombuffer(kind, np.uint8),
        np.frombuffer(value, np.int64),
        np.frombuffer(count, np.uint32),
        np.frombuffer(children, np.uint32),
    )


def _refusal(name: str, status: int, offset: int, pickled: bytes | bytearray) -> UnreadableProfile:
    found = f"at byte {offset:,} of {len(pickled):,}"
    if status == CUT_OFF:
        return UnreadableProfile(
            f"{name}: the pickle is cut off", found=found, hint="it was not written or copied whole; dump it again"
        )
    if status == CLASS:
        return UnreadableProfile(
            f"{name}: the pickle asks for a Python class or function, which a memory snapshot never does",
            found=f"{found}; nothing of it was run",
            hint="do not load it with Python: loading runs what it names",
        )
    if status == UNKNOWN:
        opcode = pickled[offset] if offset < len(pickled) else 0
        return UnreadableProfile(
            f"{name}: a pickle opcode that memory snapshots do not have", found=f"0x{opcode:02x} {found}"
        )
    if status == TOO_MANY:
        return UnreadableProfile(f"{name}: holds more values than a pickle of its size can", found=found)
    return UnreadableProfile(f"{name}: the pickle is damaged", found=found, hint="dump it again")


class _Refusal(Exception):
    """Reading ends here."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class _PickleReading:
    """The same in Python, one method per family of opcodes."""

    def __init__(self, pickled: bytes | bytearray) -> None:
        self.pickled, self.at = pickled, 0
        self.kind, self.value, self.count = array("B"), array("q"), array("I")
        self.children: list[list[int]] = []
        """By node; empty for what is no container."""
        self.stack: list[int] = []
        self.marks: list[int] = []
        self.memo: list[int] = []
        self.most_nodes = len(pickled) // 2 + 4096

    def taken(self, size: int) -> int:
        """Where so many bytes begin; they are passed."""
        if size > len(self.pickled) - self.at:
            raise _Refusal(CUT_OFF)
        self.at += size
        return self.at - size

    def number(self, width: int, *, signed: bool = False) -> int:
        begin = self.taken(width)
        return int.from_bytes(self.pickled[begin : begin + width], "little", signed=signed)

    def node(self, kind: int, value: int = 0, count: int = 0, children: list[int] | None = None) -> None:
        if len(self.kind) >= self.most_nodes:
            raise _Refusal(TOO_MANY)
        self.stack.append(len(self.kind))
        self.kind.append(kind)
        self.value.append(value)
        self.count.append(count)
        self.children.append([] if children is None else children)

    def held(self, count: int) -> None:
        """Refuse to take values from below the last mark."""
        if len(self.stack) - (self.marks[-1] if self.marks else 0) < count:
            raise _Refusal(DAMAGED)

    def above_mark(self) -> int:
        if not self.marks:
            raise _Refusal(DAMAGED)
        return len(self.stack) - self.marks.pop()

    def closed(self, kind: int, count: int) -> None:
        items = self.drop(count)
        if kind == DICT and count % 2:
            raise _Refusal(DAMAGED)
        self.node(kind, children=items)

    def put_into(self, kind: int, count: int) -> None:
        self.held(count + 1)
        node = self.stack[-count - 1]
        if self.kind[node] != kind or (kind == DICT and count % 2):
            raise _Refusal(DAMAGED)
        self.children[node] += self.drop(count)

    def sized(self, kind: int, width: int) -> None:
        size = self.number(width)
        self.node(kind, self.taken(size), size)

    def long(self, width: int) -> None:
        size = self.number(width)
        if size <= 8:  # bytes of an int64
            self.node(INT, self.number(size, signed=True))
        else:
            self.taken(size)
            self.node(HUGE)

    def double(self) -> None:
        begin = self.taken(8)
        self.node(FLOAT, struct.unpack(">q", self.pickled[begin : begin + 8])[0])

    def remember(self, place: int) -> None:
        self.held(1)
        if place > len(self.memo):
            raise _Refusal(DAMAGED)
        if place == len(self.memo):
            self.memo.append(self.stack[-1])
        else:
            self.memo[place] = self.stack[-1]

    def again(self, place: int) -> None:
        if place >= len(self.memo):
            raise _Refusal(DAMAGED)
        self.stack.append(self.memo[place])

    def drop(self, count: int) -> list[int]:
        self.held(count)
        items = self.stack[len(self.stack) - count :]
        del self.stack[len(self.stack) - count :]
        return items

    def duplicate(self) -> None:
        self.held(1)
        self.stack.append(self.stack[-1])

    def protocol(self) -> None:
        if self.number(1) > 5:  # the newest protocol
            raise _Refusal(UNKNOWN)


_DONE_BY: Final[dict[int, Callable[[_PickleReading], object]]] = {
    ord("h"): lambda into: into.again(into.number(1)),
    ord("j"): lambda into: into.again(into.number(4)),
    0x94: lambda into: into.remember(len(into.memo)),
    ord("q"): lambda into: into.remember(into.number(1)),
    ord("r"): lambda into: into.remember(into.number(4)),
    ord("("): lambda into: into.marks.append(len(into.stack)),
    ord("}"): lambda into: into.node(DICT),
    ord("]"): lambda into: into.node(LIST),
    ord(")"): lambda into: into.node(TUPLE),
    ord("u"): lambda into: into.put_into(DICT, into.above_mark()),
    ord("e"): lambda into: into.put_into(LIST, into.above_mark()),
    ord("s"): lambda into: into.put_into(DICT, 2),
    ord("a"): lambda into: into.put_into(LIST, 1),
    ord("t"): lambda into: into.closed(TUPLE, into.above_mark()),
    ord("l"): lambda into: into.closed(LIST, into.above_mark()),
    ord("d"): lambda into: into.closed(DICT, into.above_mark()),
    0x85: lambda into: into.closed(TUPLE, 1),
    0x86: lambda into: into.closed(TUPLE, 2),
    0x87: lambda into: into.closed(TUPLE, 3),
    ord("K"): lambda into: into.node(INT, into.number(1)),
    ord("M"): lambda into: into.node(INT, into.number(2)),
    ord("J"): lambda into: into.node(INT, into.number(4, signed=True)),
    0x8A: lambda into: into.long(1),
    0x8B: lambda into: into.long(4),
    ord("G"): lambda into: into.double(),
    0x8C: lambda into: into.sized(TEXT, 1),
    ord("X"): lambda into: into.sized(TEXT, 4),
    0x8D: lambda into: into.sized(TEXT, 8),
    ord("C"): lambda into: into.sized(BYTES, 1),
    ord("B"): lambda into: into.sized(BYTES, 4),
    0x8E: lambda into: into.sized(BYTES, 8),
    ord("N"): lambda into: into.node(NONE),
    0x88: lambda into: into.node(BOOL, 1),
    0x89: lambda into: into.node(BOOL, 0),
    0x80: lambda into: into.protocol(),
    0x95: lambda into: into.taken(8),
    ord("0"): lambda into: into.drop(1),
    ord("1"): lambda into: into.drop(into.above_mark()),
    ord("2"): lambda into: into.duplicate(),
}


def python_tree(
    pickled: bytes | bytearray,
) -> tuple[int, int, int] | tuple[int, int, int, bytearray, bytearray, bytearray, bytearray]:
    """What native.read_tree gives, without it."""
    into = _PickleReading(pickled)
    opcode_at = turn = 0
    try:
        while True:
            turn += 1
            if turn % _CHECK_EVERY == 0:
                check()
            opcode_at = into.at
            opcode = pickled[into.taken(1)]
            if opcode == ord("."):
                break
            done_by = _DONE_BY.get(opcode)
            if done_by is None:
                raise _Refusal(CLASS if opcode in _CLASSES else UNKNOWN)
            done_by(into)
        if len(into.stack) != 1 or into.marks:
            raise _Refusal(DAMAGED)
    except _Refusal as refusal:
        return refusal.status, opcode_at, 0
    children = array("I")
    for node, held in enumerate(into.children):
        if into.kind[node] in (LIST, TUPLE, DICT):
            into.value[node], into.count[node] = len(children), len(held)
            children.extend(held)
    arrays = (bytearray(column.tobytes()) for column in (into.kind, into.value, into.count, children))
    return (0, opcode_at, into.stack[0], *arrays)  # type: ignore[return-value]
