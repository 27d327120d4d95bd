"""What one rank's communication kernels do: a device in, its collectives as columns out.

What a kernel does is best known from a description: torch records one on the kernel, or on the operator whose span
holds the launch call, and NCCL one in the payload of its NVTX range; else from the annotations around the launch call
(`nccl:all_to_all`), else from the kernel's name.
"""

from __future__ import annotations

import json
import re
from math import prod
from typing import Any, Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gpuledger.analyse.ranks.packed import PackedTable
from gpuledger.catalog.kernel_names import parse
from gpuledger.ledger.activity import State
from gpuledger.ledger.device import Device
from gpuledger.ledger.ranges import innermost
from gpuledger.regex import regex
from gpuledger.trace.keys import Positions, group, join
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints, holds
from gpuledger.trace.tables import NOT_RECORDED, Rows, Table

_OF_ALL: Final = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
KINDS: Final = (*_OF_ALL, "barrier", "broadcast", "reduce", "send_recv", "other")
"""What a collective does; columns hold positions in it."""

OTHER: Final = KINDS.index("other")

_SAYS: Final = (
    ("reduce_scatter", regex(r"reducescatter")),
    ("all_gather", regex(r"allgather")),
    # `moe_a2a` is TensorRT-LLM's; DeepEP's kernels are called plain dispatch and combine
    ("all_to_all", regex(r"alltoall|a2a|dispatch|combine")),
    # custom all-reduce of vLLM, SGLang, TensorRT-LLM and FlashInfer
    ("all_reduce", regex(r"allreduce|crossdevicereduce|quickreduce|oneshot|twoshot|lamport|mnnvl|userbuffers")),
    ("barrier", regex(r"barrier")),
    ("broadcast", regex(r"broadcast")),
    ("send_recv", regex(r"send|recv")),
    ("reduce", regex(r"reduce")),
)
"""What a name says, without underscores and the like, in small letters; the first match wins."""

_SIZES: Final = {
    "float64": (8, "double f64"),
    "float32": (4, "float f32"),
    "float16": (2, "half f16"),
    "bfloat16": (2, "bf16 __nv_bfloat16 hip_bfloat16 rccl_bfloat16"),
    "float8_e4m3": (1, "float8_e4m3fn float8_e4m3fnuz f8e4m3"),
    "float8_e5m2": (1, "float8_e5m2fnuz f8e5m2"),
    "int64": (8, "long longint int64_t i64"),
    "int32": (4, "int int32_t i32"),
    "int16": (2, "short shortint int16_t i16"),
    "int8": (1, "char signedchar int8_t i8"),
    "uint64": (8, "unsignedlong uint64_t u64"),
    "uint32": (4, "unsignedint uint32_t u32"),
    "uint8": (1, "byte unsignedchar uint8_t u8"),
    "bool": (1, ""),
    "complex64": (8, "complexfloat complex<float>"),
    "complex128": (16, "complexdouble complex<double>"),
}
DTYPES: Final = tuple(_SIZES)
"""Types of elements in torch's words; columns hold positions in it, -1 where a type is not known."""

_SPELLINGS: Final = {
    text: position for position, (name, (_, more)) in enumerate(_SIZES.items()) for text in (name, *more.split())
}
_ITEM_BYTES: Final = np.array([*(size for size, _ in _SIZES.values()), NOT_RECORDED])
_IN_KERNEL: Final = regex(
    r"(?:Sum|Prod|MinMax|Min|Max|PreMulSum|SumPostDiv)_(\w+?)(?:_(?:RING|TREE|NVLS|COLL|PAT)\w*)?$"
)
_REDUCING: Final = tuple(KINDS.index(kind) for kind in ("all_reduce", "reduce_scatter", "reduce"))
_ABOUT: Final = regex(r"nccl:|c10d::|record_param_comms$|nccl[A-Z]")
"""Annotations and operators that stand around the launch of a collective."""

_MOST_BYTES: Final = 1 << 48
_LONGEST_LIST: Final = 1 << 20


class Group(Struct, frozen=True):
    """A process group, as the framework calls it. Without ranks: they were not recorded, or not all of them."""

    name: str
    ranks: tuple[int, ...] = ()
    size: int = NOT_RECORDED


class Collectives(Struct, frozen=True, eq=False):
    """One rank's communication kernels as columns of equal length, in order of their start."""

    start_ns: Ints
    end_ns: Ints
    stream: Ints
    kind: Ints  # position in KINDS
    dtype: Ints  # position in DTYPES; -1: not known
    group: Ints  # position in `groups`; -1: not known
    bytes: Ints  # what this rank gives; -1: not known
    groups: tuple[Group, ...] = ()

    def __len__(self) -> int:
        return len(self.start_ns)

    def at(self, positions: NDArray[Any] | slice) -> Collectives:
        columns = (name for name in self.__struct_fields__ if name != "groups")
        return Collectives(**{name: getattr(self, name)[positions] for name in columns}, groups=self.groups)


class PackedCollectives(Struct, frozen=True, eq=False):
    """One rank's collectives while they wait for those of the other ranks: apart by group, as they are asked for."""

    parts: tuple[tuple[Group | None, PackedTable[Collectives]], ...]
    """In the order of the groups; last, with None, those whose group is not known."""
    streams: tuple[int, ...]  # of the last

    @staticmethod
    def of(collectives: Collectives) -> PackedCollectives:
        by_group = [(named, collectives.group == number) for number, named in enumerate(collectives.groups)]
        nameless = collectives.group < 0
        parts = [
            (named, PackedTable.of(collectives.at(here))) for named, here in (*by_group, (None, nameless)) if here.any()
        ]
        return PackedCollectives(tuple(parts), tuple(np.unique(collectives.stream[nameless]).tolist()))

    def __len__(self) -> int:
        return sum(len(part) for _, part in self.parts)

    @property
    def nameless(self) -> int:
        """How many of them are of no known group."""
        return sum(len(part) for named, part in self.parts if named is None)

    def lanes(self) -> dict[Group | int, LanePart]:
        """Those that all ranks do in one order: of a group; where that is not known, of the n-th stream."""
        lanes: dict[Group | int, LanePart] = {}
        for named, part in self.parts:
            if named is not None:
                lanes[named] = LanePart(part)
            else:
                several = len(self.streams) > 1
                lanes |= {
                    place: LanePart(part, stream if several else None) for place, stream in enumerate(self.streams)
                }
        return lanes


class LanePart(Struct, frozen=True, eq=False):
    """A rank's collectives of one lane."""

    packed: PackedTable[Collectives]
    stream: int | None = None  # only those on this one; None: all of them

    def column(self, name: str) -> Ints:
        column = self.packed.column(name)
        return column if self.stream is None else column[self.packed.column("stream") == self.stream]

    def unpacked(self) -> Collectives:
        whole = self.packed.unpacked()
        return whole if self.stream is None else whole.at(whole.stream == self.stream)


def kind_of(text: str) -> int:
    """What a name says that a collective does: a kernel's, an operator's or a framework's. Position in KINDS."""
    bare = re.sub(r"[^a-z0-9]", "", text.lower())
    return next((KINDS.index(kind) for kind, pattern in _SAYS if pattern.search(bare)), OTHER)


def dtype_of(text: str) -> int:
    """A type of elements in any of its spellings, `c10::BFloat16` or `bf16`; -1 where it is none."""
    bare = text.replace("c10::", "").replace("torch.", "").replace(" ", "").lower()
    return _SPELLINGS.get(bare, NOT_RECORDED)


def rank_collectives(trace: Trace, device: Device) -> Collectives:
    """The communication kernels of one GPU that begin in its window."""
    activities = device.work
    begun = holds(device.ledger.busy.stretches, activities.start_ns)
    mine = np.flatnonzero((activities.state == State.COMM) & (activities.gpu == device.gpu) & begun)
    start_ns, names = activities.start_ns[mine], activities.name[mine]
    call = activities.launch[mine]
    launched = np.flatnonzero(call >= 0)
    calls = device.host.calls.at(call[launched])
    kind, dtype = (trace.strings.each(names, says) for says in (_kind_of_kernel, _dtype_of_kernel))
    kind, told_dtype, size = _from_annotations(trace, calls, launched, kind)
    dtype = np.where(told_dtype >= 0, told_dtype, dtype)
    rows, (groups, group_of_row) = trace[Table.COLLECTIVES], _groups(trace)
    said, alone = _described(rows, activities.correlation[mine], start_ns, calls, launched)
    of_group = np.full(len(mine), NOT_RECORDED, np.int64)
    known = np.flatnonzero(said >= 0)
    if len(known):
        row = said[known]
        told = trace.strings.each(rows.codes("name")[row], kind_of)
        kind[known] = np.where(told == OTHER, kind[known], told)
        told = trace.strings.each(rows.codes("dtype")[row], dtype_of)
        dtype[known] = np.where(told >= 0, told, dtype[known])
        elements, item = rows["in_elements"][row], _ITEM_BYTES[told]
        usable = (elements >= 0) & (elements < _MOST_BYTES // 16) & (item > 0) & alone[known]
        given = rows["bytes"][row]
        given = np.where((given >= 0) & (given < _MOST_BYTES) & alone[known], given, NOT_RECORDED)
        size[known] = np.where(usable, elements * np.where(usable, item, 0), given)
        of_group[known] = group_of_row[row]
    return Collectives(start_ns, activities.end_ns[mine], activities.stream[mine], kind, dtype, of_group, size, groups)


def _kind_of_kernel(name: str) -> int:
    """The function's own name first: a parameter may be called anything."""
    kind = kind_of(parse(name).qualified)
    return kind_of(name) if kind == OTHER else kind


def _dtype_of_kernel(name: str) -> int:
    """Only reductions are compiled for a type; others move bytes, whatever their name says."""
    match = _IN_KERNEL.search(parse(name).short)
    return dtype_of(match[1]) if match and _kind_of_kernel(name) in _REDUCING else NOT_RECORDED


def _described(
    rows: Rows, correlation: Ints, start_ns: Ints, calls: Rows, launched: Positions
) -> tuple[Positions, NDArray[np.bool_]]:
    """For each kernel the row that describes it, -1 for none; and whether that describes no other kernel too."""
    said, alone = np.full(len(start_ns), -1, np.intp), np.ones(len(start_ns), np.bool_)
    on_operator = np.flatnonzero(rows["tid"] != NOT_RECORDED)
    operator = innermost(rows.at(on_operator), calls)
    inside = operator >= 0
    said[launched[inside]] = on_operator[operator[inside]]
    alone[launched[inside]] = np.bincount(operator[inside], minlength=1)[operator[inside]] == 1
    # a description on a kernel has the kernel's own times: those tell the kernels of one graph launch apart
    on_kernel = np.flatnonzero((rows["tid"] == NOT_RECORDED) & (rows["correlation"] != NOT_RECORDED))
    kernel, row = join(correlation, start_ns, rows["correlation"][on_kernel], rows["start_ns"][on_kernel])
    said[kernel], alone[kernel] = on_kernel[row], True
    return said, alone


def _from_annotations(trace: Trace, calls: Rows, launched: Positions, kind: Ints) -> tuple[Ints, Ints, Ints]:
    """Kind, type and bytes as the annotations around the launch calls say; the kernel's own kind where they do not."""
    kind, dtype, size = kind.copy(), np.full(len(kind), NOT_RECORDED), np.full(len(kind), NOT_RECORDED)
    ranges = trace[Table.RANGES]
    codes = ranges.codes("name")
    about = [code for code in np.unique(codes[codes >= 0]).tolist() if _ABOUT.match(trace.strings.texts[code])]
    ranges = ranges.where(np.isin(codes, about))
    naming = ranges.where(trace.strings.each(ranges.codes("name"), kind_of) != OTHER)
    around = innermost(naming, calls)
    inside = around >= 0
    kind[launched[inside]] = trace.strings.each(naming.codes("name")[around[inside]], kind_of)
    # `c10d::` operators list first what they get, the others what they give
    gives = trace.strings.each(ranges.codes("name"), lambda name: not name.startswith("c10d")) > 0
    sized = ranges.where(gives & (trace.strings.each(ranges.codes("inputs"), _bytes_given) >= 0))
    around = innermost(sized, calls)
    alone = np.flatnonzero(around >= 0)
    alone = alone[np.bincount(around[alone], minlength=1)[around[alone]] == 1]
    inputs = sized.codes("inputs")[around[alone]]
    dtype[launched[alone]] = trace.strings.each(inputs, lambda text: _first_input(text)[1])
    size[launched[alone]] = trace.strings.each(inputs, _bytes_given)
    return kind, dtype, size


def _first_input(text: str) -> tuple[Any, int]:
    """Shape and type of an operator's first input, from the shapes and types of all as JSON; None, -1 where unclear."""
    try:
        shapes, types = (json.loads(part) for part in text.split("\n"))
        return shapes[0], dtype_of(types[0])
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return None, NOT_RECORDED


def _bytes_given(text: str) -> int:
    """Bytes of an operator's first input; -1 where it is no tensor of known shape and type."""
    shape, dtype = _first_input(text)
    if dtype < 0 or not isinstance(shape, list) or not shape or not all(type(size) is int for size in shape):
        return NOT_RECORDED
    size = prod(shape) * int(_ITEM_BYTES[dtype])
    return size if min(shape) >= 0 and size < _MOST_BYTES else NOT_RECORDED


def _groups(trace: Trace) -> tuple[tuple[Group, ...], Ints]:
    """The process groups, and for each description the position of its own; -1 where it names none."""
    rows = trace[Table.COLLECTIVES]
    first, number = group(rows.codes("group"), rows.codes("ranks"), rows["group_size"])
    names, ranks = (rows.at(first).texts(column) for column in ("group", "ranks"))
    groups, place = dict[Group, int](), list[int]()
    for name, listed, size in zip(names, ranks, rows["group_size"][first].tolist(), strict=True):
        members: tuple[int, ...] = ()  # not where the list is cut short (torch writes `[0, 1, ..., 511]`)
        if listed and re.fullmatch(r"\[[\d, ]+\]", listed) and len(listed) <= _LONGEST_LIST:
            members = tuple(sorted({int(number) for number in re.findall(r"\d{1,9}", listed)}))
        known = Group(name or "", members, size)
        place.append(groups.setdefault(known, len(groups)) if name or listed else NOT_RECORDED)
    return tuple(groups), np.array(place, np.int64)[number]
