"""Events of one category in, columns of a table out: what Kineto calls things, and what we call them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from msgspec import Raw
from numpy.typing import NDArray

from gpuledger.model.spans import Ints
from gpuledger.model.strings import NO_TEXT
from gpuledger.model.tables import NOT_RECORDED, Table

Columns = dict[str, NDArray[Any]]
_SPACED: Final = bytes.maketrans(b"[]", b"  ")
_IN_TRIPLES: Final = b"[]0123456789, "


class Codes(dict[str, int]):
    """Gives each new text the next code."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self.cut = 0

    @classmethod
    def of(cls, texts: list[str]) -> Codes:
        """Texts that have their codes already."""
        found = cls(1 << 30)
        found.update({text: code for code, text in enumerate(texts)})
        return found

    def __missing__(self, text: str) -> int:
        if len(text) > self._longest:
            self.cut += 1
            text = text[: self._longest] + "..."
        return self.setdefault(text, len(self))


class _Inputs(dict[bytes, int]):
    """Codes of operators' inputs, by the bytes that they come as."""

    def __init__(self, codes: Codes) -> None:
        self._codes = codes

    def __missing__(self, text: bytes) -> int:
        code = NO_TEXT if text == b"\n" else self._codes[text.decode(errors="replace")]
        return self.setdefault(text, code)


class Shaper:
    """Turns events into columns; texts become codes."""

    def __init__(self, codes: Codes, *, with_inputs: bool) -> None:
        self.codes = codes
        self._with_inputs = with_inputs
        self._threads: dict[str, int] = {}
        self._known_inputs = _Inputs(codes)

    # One method per kind of event: its columns beside the times.

    @property
    def has_named_threads(self) -> bool:
        return bool(self._threads)

    def kernels(self, events: list[Any], _: str) -> Columns:
        args = [event.args for event in events]
        return self._where(args) | {
            "name": self._text([event.name for event in events]),
            "grid": _triples([each.grid for each in args]),
            "block": _triples([each.block for each in args]),
            "registers": _ints([each.registers for each in args]),
            "smem_dynamic_bytes": _ints([each.shared_memory for each in args]),
            "graph": _ints([each.graph for each in args]),
            "graph_node": _ints([each.graph_node for each in args]),
        }

    def copies(self, events: list[Any], kind: str) -> Columns:
        args = [event.args for event in events]
        names = [event.name for event in events]
        parts = {name: _copy_kind(name, kind) for name in set(names)}
        return self._where(args) | {
            "kind": self._text([parts[name][0] for name in names]),
            "src_kind": self._text([parts[name][1] for name in names]),
            "dst_kind": self._text([parts[name][2] for name in names]),
            "bytes": self._numbers([each.bytes for each in args]),
        }

    def calls(self, events: list[Any], kind: str) -> Columns:
        args = [event.args for event in events]
        return self._thread(events) | {
            "correlation": _ints([each.correlation for each in args]),
            "name": self._text([event.name for event in events]),
            "layer": np.full(len(events), self.codes[kind]),
        }

    def ranges(self, events: list[Any], kind: str) -> Columns:
        own = {"name": self._text([event.name for event in events]), "kind": np.full(len(events), self.codes[kind])}
        if kind in ("op", "push_pop") and self._with_inputs:
            own["inputs"] = self._inputs([event.args for event in events])
        return self._thread(events) | own

    def _inputs(self, args: list[Any]) -> Ints:
        """Shapes and types of operators' inputs; they come as JSON and stay so."""
        dims = b"\0".join([each.dims or each.dims_2021 for each in args]).split(b"\0")
        types = b"\0".join([each.types for each in args]).split(b"\0")
        known = self._known_inputs
        return np.array([known[shape + b"\n" + kind] for shape, kind in zip(dims, types, strict=True)], np.int64)

    def syncs(self, events: list[Any], _: str) -> Columns:
        args = [event.args for event in events]
        return self._where(args) | {"kind": self._text([each.sync_kind for each in args])}

    def allocs(self, events: list[Any], _: str) -> Columns:
        args = [event.args for event in events]
        given = _ints([each.memory_bytes for each in args])
        on_gpu = np.isin(_ints([each.memory_device_type for each in args]), _GPU_TYPES)
        operation = np.where(given >= 0, self.codes["Allocation"], self.codes["Deallocation"])
        device = _ints([each.memory_device for each in args])
        return {
            "device": np.where(on_gpu, device, NOT_RECORDED),
            "operation": operation,
            "bytes": np.abs(given),
            "address": _ints([each.address for each in args]),
            "memory_kind": np.where(on_gpu, self.codes["Device"], self.codes["Pageable"]),
        }

    def overheads(self, events: list[Any], _: str) -> Columns:
        return self._thread(events) | {"name": self._text([event.name for event in events])}

    def collectives(self, events: list[Any], kind: str) -> Columns:
        args = [event.args for event in events]
        of_kernel = kind == "kernel"
        nowhere = np.full(len(events), NOT_RECORDED)  # a kernel's process is filled in later
        thread = {"pid": nowhere, "tid": nowhere} if of_kernel else self._thread(events)
        correlation = _ints([each.correlation if of_kernel else NOT_RECORDED for each in args])
        return thread | {
            "correlation": correlation,
            "name": self._text([each.collective for each in args]),
            "group": self._raw([each.group for each in args]),
            "ranks": self._raw([each.ranks for each in args]),
            "group_size": _ints([each.group_size for each in args]),
            "in_elements": _ints([each.in_elements for each in args]),
            "out_elements": _ints([each.out_elements for each in args]),
            "dtype": self._text([each.dtype for each in args]),
        }

    def _where(self, args: list[Any]) -> Columns:
        return {
            "device": _ints([each.device for each in args]),
            "context": _ints([each.context for each in args]),
            "stream": _ints([each.stream for each in args]),
            "correlation": _ints([each.correlation for each in args]),
        }

    def _thread(self, events: list[Any]) -> Columns:
        return {"pid": self._numbers([event.pid for event in events]), "tid": self._numbers([e.tid for e in events])}

    def _numbers(self, values: list[int | str]) -> Ints:
        """Process and thread ids; a text that holds no number gets one of its own, below any other."""
        try:
            return np.array(values, np.int64)
        except (ValueError, OverflowError):
            return np.array([self._number(value) for value in values], np.int64)

    def _number(self, value: int | str) -> int:
        if isinstance(value, int):
            return value if abs(value) < 2**62 else NOT_RECORDED
        if re.fullmatch(r"-?\d{1,18}", value):
            return int(value)
        return self._threads.setdefault(value, -2 - len(self._threads))

    def _text(self, texts: list[str]) -> Ints:
        codes = self.codes
        return np.array([codes[text] for text in texts], np.int64)

    def _raw(self, texts: Sequence[Any]) -> Ints:
        """Codes of texts that are JSON of their own; NO_TEXT where there is none."""
        found = [bytes(text) for text in texts]
        codes = {text: self.codes[text.decode(errors="replace").strip('"')] if text else NO_TEXT for text in set(found)}
        return np.array([codes[text] for text in found], np.int64)


_GPU_TYPES: Final = (1, 6)
"""CUDA and HIP in torch's numbering of device types."""

_COPY: Final = re.compile(r"Memcpy (?P<way>\w+) \((?P<source>\w+) -> (?P<target>\w+)\)")
_WAYS: Final = {
    "HtoD": "Host-to-Device",
    "DtoH": "Device-to-Host",
    "DtoD": "Device-to-Device",
    "HtoH": "Host-to-Host",
    "PtoP": "Peer-to-Peer",
}
_KERNEL_FEEDS: Final = (
    (Table.KERNELS, "kernel", Shaper.kernels),
    (Table.COLLECTIVES, "kernel", Shaper.collectives),
)
_OP_FEEDS: Final = ((Table.RANGES, "op", Shaper.ranges), (Table.COLLECTIVES, "op", Shaper.collectives))
CATEGORIES: Final[Mapping[str, tuple[tuple[Table, str, Callable[..., Columns]], ...]]] = {
    "kernel": _KERNEL_FEEDS,
    "Kernel": _KERNEL_FEEDS,
    "gpu_memcpy": ((Table.COPIES, "copy", Shaper.copies),),
    "Memcpy": ((Table.COPIES, "copy", Shaper.copies),),
    "gpu_memset": ((Table.COPIES, "set", Shaper.copies),),
    "Memset": ((Table.COPIES, "set", Shaper.copies),),
    "cuda_runtime": ((Table.CALLS, "runtime", Shaper.calls),),
    "Runtime": ((Table.CALLS, "runtime", Shaper.calls),),
    "cuda_driver": ((Table.CALLS, "driver", Shaper.calls),),
    "cpu_op": _OP_FEEDS,
    "Operator": _OP_FEEDS,
    "user_annotation": ((Table.RANGES, "push_pop", Shaper.ranges),),
    "python_function": ((Table.RANGES, "python", Shaper.ranges),),
    "cuda_sync": ((Table.SYNCS, "sync", Shaper.syncs),),
    "overhead": ((Table.OVERHEADS, "overhead", Shaper.overheads),),
}
"""What the events of each category are, in the spellings of 2021 and of today."""


def _copy_kind(name: str, kind: str) -> tuple[str, str, str]:
    """NVIDIA's label of a copy, and the memories it joins, from Kineto's name for it."""
    if kind == "set":
        inside = re.search(r"\((\w+)\)", name)
        return "Memset", "Unknown", inside[1] if inside else "Unknown"
    match = _COPY.search(name)
    if match is None:
        return "Unknown", "Unknown", "Unknown"
    memory = {"Host": "Unknown"}  # AMD says only that it was the host's
    return (
        _WAYS.get(match["way"], "Unknown"),
        memory.get(match["source"], match["source"]),
        memory.get(match["target"], match["target"]),
    )


def _ints(values: Sequence[int]) -> Ints:
    try:
        return np.array(values, np.int64)
    except OverflowError:
        return np.array([value if -(2**63) <= value < 2**63 else NOT_RECORDED for value in values], np.int64)


def _triples(texts: Sequence[bytes | Raw]) -> Ints:
    """Grids and blocks from `[x, y, z]`; NOT_RECORDED where there is none."""
    joined = b",".join(texts)
    if not joined.translate(None, _IN_TRIPLES) and all(bytes(text).count(b",") == 2 for text in texts):
        numbers: Ints = np.fromstring(joined.translate(_SPACED), np.int64, sep=",")
        if len(numbers) == 3 * len(texts):
            return numbers.reshape(-1, 3)
    return np.array([_triple(bytes(text)) for text in texts], np.int64).reshape(-1, 3)


def _triple(text: bytes) -> tuple[int, int, int]:
    numbers = [int(each) for each in re.findall(rb"\d{1,9}", text)[:3]]
    return (numbers[0], numbers[1], numbers[2]) if len(numbers) == 3 else (NOT_RECORDED,) * 3
