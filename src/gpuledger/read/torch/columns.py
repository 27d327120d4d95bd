"""Events of one category in, columns of a table out: what Kineto calls things, and what we call them.

What is read of an event stands in types that the decoder fills: one per usual category, and one for any.
"""

from __future__ import annotations

import re
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, reduce
from itertools import chain
from math import ceil
from operator import attrgetter, or_
from typing import Annotated, Any, Final, Literal

import msgspec
import numpy as np
from msgspec import Raw
from numpy.typing import NDArray

from gpuledger.catalog.gpu_metrics import gpu_metric
from gpuledger.read.assembled import Columns, TextCodes, as_kept
from gpuledger.regex import regex
from gpuledger.trace.spans import Ints
from gpuledger.trace.strings import NO_TEXT
from gpuledger.trace.tables import NOT_RECORDED, Kind, Table

_NUMBER: Final = re.compile(r"-?\d{1,18}", re.ASCII)
_LISTED: Final = bytes.maketrans(b"[]\n", b"  ,")


class _Inputs(dict[bytes, int]):
    """Codes of operators' inputs, by the bytes that they come as."""

    def __init__(self, codes: TextCodes) -> None:
        self._codes = codes

    def __missing__(self, text: bytes) -> int:
        code = NO_TEXT if text == b"\n" else self._codes[text.decode(errors="replace")]
        return self.setdefault(text, code)


class Shaper:
    """Turns events into columns; texts become codes."""

    def __init__(self, codes: TextCodes, *, with_inputs: bool) -> None:
        self.codes = codes
        self._with_inputs = with_inputs
        self.named_threads: dict[str, int] = {}
        self._known_inputs = _Inputs(codes)

    # One method per kind of event: its columns beside the times. `args` are the events' own, one for each.

    def kernels(self, events: list[Any], args: list[Any], _: str) -> Columns:
        shapes = _triples([own.grid for own in args] + [own.block for own in args])
        return _numbers(args, _OF_KERNEL) | {
            "name": self._text([event.name for event in events]),
            "grid": shapes[: len(args)],
            "block": shapes[len(args) :],
        }

    def copies(self, events: list[Any], args: list[Any], kind: str) -> Columns:
        names = [event.name for event in events]
        if kind == "copy" and any(own.way for own in args):  # newer torch says it beside the name
            names = [f"Memcpy {own.way} ({own.source} -> {own.target})" for own in args]
        parts = {name: _copy_kind(name, kind) for name in set(names)}
        return _numbers(args, _WHERE) | {
            "kind": self._text([parts[name][0] for name in names]),
            "src_kind": self._text([parts[name][1] for name in names]),
            "dst_kind": self._text([parts[name][2] for name in names]),
            "bytes": _ints([_whole_number(own.bytes) for own in args]),
        }

    def calls(self, events: list[Any], args: list[Any], kind: str) -> Columns:
        return self._thread(events) | {
            "correlation": _ints([own.correlation for own in args]),
            "name": self._text([event.name for event in events]),
            "layer": np.full(len(events), self.codes[kind]),
            "kernel": (kernel := self._text_codes([own.kernel for own in args])),
            "blocks": _blocks(args) if (kernel != NO_TEXT).any() else np.full(len(events), NOT_RECORDED, np.int64),
        }

    def ranges(self, events: list[Any], args: list[Any], kind: str) -> Columns:
        names = [event.name for event in events]
        kinds = np.full(len(events), self.codes[kind])
        if kind == "op":  # the profiler's own steps were operators once
            kinds[[name.startswith("ProfilerStep#") for name in names]] = self.codes["push_pop"]
        own = {"name": self._text(names), "kind": kinds}
        if kind in ("op", "push_pop") and self._with_inputs:
            own["inputs"] = self._inputs(names, args)
        return self._thread(events) | own

    def _inputs(self, names: list[str], args: list[Any]) -> Ints:
        """Shapes and types of operators' inputs, and where these say how much they do, the other arguments.

        They come as JSON and stay so.
        """
        dims = [own.dims for own in args]
        if hasattr(args[0], "dims_2021") and not all(dims):
            dims = [own.dims or own.dims_2021 for own in args]
        parts: list[Any] = [b"\n", b"\0"] * (2 * len(args))  # shapes, \n, types, \0: one text of all of them
        types: list[Any] = [own.types for own in args]
        telling = {name for name in set(names) if _ARGUMENTS_TELL.search(name)}
        for place in [place for place, name in enumerate(names) if name in telling] if telling else ():
            if arguments := bytes(args[place].arguments):
                types[place] = bytes(types[place]) + b"\n" + arguments
        parts[0::4], parts[2::4] = dims, types
        parts[1::4] = [b"\n"] * len(args)
        texts = b"".join(parts).split(b"\0")
        if len(texts) != len(args) + 1:  # a zero within one of them
            texts = [bytes(shape) + b"\n" + bytes(kinds) for shape, kinds in zip(dims, types, strict=True)]
        known = self._known_inputs
        return np.array([known[text] for text in texts[: len(args)]], np.int64)

    def syncs(self, _events: list[Any], args: list[Any], _: str) -> Columns:
        return _numbers(args, _WHERE) | {"kind": self._text([own.sync_kind for own in args])}

    def allocs(self, _events: list[Any], args: list[Any], _: str) -> Columns:
        given = _ints([own.memory_bytes for own in args])
        on_gpu = np.isin(_ints([own.memory_device_type for own in args]), (1, 6))  # CUDA and HIP in torch's numbering
        return {
            "device": np.where(on_gpu, _ints([own.memory_device for own in args]), NOT_RECORDED),
            "operation": np.where(given >= 0, self.codes["Allocation"], self.codes["Deallocation"]),
            "bytes": np.abs(given),
            "address": _ints([own.address for own in args]),
            "memory_kind": np.where(on_gpu, self.codes["Device"], self.codes["Pageable"]),
        }

    def samples(self, _events: list[Any], args: list[CounterValue], _: str) -> Columns:
        return {
            "device": _ints([own.device for own in args]),
            "name": self._text([own.name for own in args]),
            "value": _ints([own.value for own in args]),
        }

    def overheads(self, events: list[Any], _args: list[Any], _: str) -> Columns:
        return self._thread(events) | {"name": self._text([event.name for event in events])}

    def collectives(self, events: list[Any], args: list[Any], kind: str) -> Columns:
        of_kernel = kind == "kernel"
        nowhere = np.full(len(events), NOT_RECORDED)  # a kernel's process is filled in later
        thread = {"pid": nowhere, "tid": nowhere} if of_kernel else self._thread(events)
        own = {
            "correlation": _ints([own.correlation for own in args]) if of_kernel else nowhere,
            "name": self._text([own.collective for own in args]),
            "group": self._raw([own.group for own in args]),
            "ranks": self._raw([own.ranks for own in args]),
            "dtype": self._text([own.dtype for own in args]),
        }
        return thread | _numbers(args, _OF_COLLECTIVE) | own

    def _thread(self, events: list[Any]) -> Columns:
        return {
            "pid": self._identities([event.pid for event in events]),
            "tid": self._identities([event.tid for event in events]),
        }

    def _identities(self, values: list[Any]) -> Ints:
        """Process and thread ids; a text that holds no number gets one of its own, below any other."""
        try:
            return np.frombuffer(array("q", values), np.int64)
        except (TypeError, OverflowError):
            return np.array([self._number(value) for value in values], np.int64)

    def meet(self, events: Iterable[Any]) -> None:
        """Number the processes and threads of these events that have no number of their own."""
        for event in events:
            self._number(event.pid)
            self._number(event.tid)

    def _number(self, value: int | str) -> int:
        if isinstance(value, int):
            return value if abs(value) < 2**62 else NOT_RECORDED
        if _NUMBER.fullmatch(value):
            return int(value)
        return self.named_threads.setdefault(value, -2 - len(self.named_threads))

    def _text(self, texts: list[str]) -> NDArray[np.int32]:
        return np.fromiter(map(self.codes.__getitem__, texts), np.int32, len(texts))

    def _text_codes(self, texts: list[Any]) -> NDArray[np.int32]:
        """Codes of texts of which most events have none; what is no text is none."""
        if not any(texts):
            return np.full(len(texts), NO_TEXT, np.int32)
        codes = (self.codes[text] if text and isinstance(text, str) else NO_TEXT for text in texts)
        return np.fromiter(codes, np.int32, len(texts))

    def _raw(self, texts: Sequence[Any]) -> Ints:
        """Codes of texts that are JSON of their own; NO_TEXT where there is none."""
        raw = [bytes(text) for text in texts]
        codes = {text: self.codes[text.decode(errors="replace").strip('"')] if text else NO_TEXT for text in set(raw)}
        return np.array([codes[text] for text in raw], np.int64)


_ARGUMENTS_TELL: Final = regex(r"attention|attn|conv(?!ert)|dense_backward", re.IGNORECASE)
"""Operators whose other arguments say how much they do: a causal mask, a stride, the rows of a table."""

_WHERE: Final = ("device", "context", "stream", "correlation")
_OF_COLLECTIVE: Final = ("group_size", "in_elements", "out_elements")
_OF_KERNEL: Final = (*_WHERE, "registers", "smem_dynamic_bytes", "graph", "graph_node")
"""Numbers among the arguments, by the names of their columns."""


_COPY: Final = re.compile(r"Memcpy (?P<way>\w+) \((?P<source>\w+) -> (?P<target>\w+)\)")
_WAYS: Final = {
    "HtoD": "Host-to-Device",
    "DtoH": "Device-to-Host",
    "DtoD": "Device-to-Device",
    "HtoH": "Host-to-Host",
    "PtoP": "Peer-to-Peer",
}
_MEMORIES: Final = {"Host": "Unknown"} | {name.lower(): name for name in ("Pageable", "Pinned", "Device", "Managed")}
_KERNEL_FEEDS: Final = ((Table.KERNELS, "kernel", Shaper.kernels), (Table.COLLECTIVES, "kernel", Shaper.collectives))
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

ON_THREAD: Final = frozenset(
    category for category, feeds in CATEGORIES.items() if feeds[0][0] in (Table.CALLS, Table.RANGES, Table.OVERHEADS)
)
"""Categories whose events say on which thread they were; of the others a thread is not read, whatever it is."""


def _copy_kind(name: str, kind: str) -> tuple[str, str, str]:
    """NVIDIA's label of a copy, and the memories it joins, from Kineto's name for it."""
    if kind == "set":
        inside = re.search(r"\((\w+)\)", name)
        return "Memset", "Unknown", inside[1] if inside else "Unknown"
    match = _COPY.search(name)
    if match is None:
        return "Unknown", "Unknown", "Unknown"
    # AMD says only that it was the host's memory
    source, target = (_MEMORIES.get(match[side], match[side]) for side in ("source", "target"))
    return _WAYS.get(match["way"], "Unknown"), source, target


def narrowed(table: Table, columns: Columns) -> Columns:
    """The columns as wide as they are kept; but the number of a device stays as it is, as GPUs are counted by it."""
    kinds = {column.name: column.kind for column in table.schema.columns if column.name != "device"}
    return {name: as_kept(kinds.get(name, Kind.INT64), values) for name, values in columns.items()}


def _whole_number(value: int | str) -> int:
    if isinstance(value, int):
        return value
    return int(value) if _NUMBER.fullmatch(value) else NOT_RECORDED


def _ints(values: Sequence[int]) -> Ints:
    try:
        return np.frombuffer(array("q", values), np.int64)
    except OverflowError:
        return np.array([value if -(2**63) <= value < 2**63 else NOT_RECORDED for value in values], np.int64)


def _numbers(args: list[Any], names: tuple[str, ...]) -> Columns:
    """Several columns of numbers, with one look at each event's arguments."""
    flat = _ints(list(chain.from_iterable(map(attrgetter(*names), args)))).reshape(-1, len(names))
    return {name: flat[:, place] for place, name in enumerate(names)}


def _blocks(args: list[Any]) -> Ints:
    """Of calls that say what they launch; NOT_RECORDED for others."""
    sides = _triples([own.grid for own in args]).astype(np.float64)
    return np.where((sides > 0).all(axis=1), np.minimum(sides.prod(axis=1), 2**40), NOT_RECORDED).astype(np.int64)


def _triples(texts: Sequence[bytes | Raw]) -> Ints:
    """Grids and blocks from `[x, y, z]`; NOT_RECORDED where there is none."""
    joined = b"\n".join(texts)
    if joined.translate(None, b"0123456789 ") == b"\n".join([b"[,,]"] * len(texts)):
        numbers: Ints = np.fromstring(joined.translate(_LISTED), np.int64, sep=",")
        if len(numbers) == 3 * len(texts):
            return numbers.reshape(-1, 3)
    return np.array([_triple(bytes(text)) for text in texts], np.int64).reshape(-1, 3)


def _triple(text: bytes) -> tuple[int, int, int]:
    match = _TRIPLE.fullmatch(text.strip())
    if match is None:
        return (NOT_RECORDED,) * 3
    x, y, z = (int(digits) if len(digits) < 19 else NOT_RECORDED for digits in match.groups())
    return x, y, z


_TRIPLE: Final = re.compile(rb"\[\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*[,\]].*", re.DOTALL)


class _Struct(msgspec.Struct, gc=False):
    pass


class Args(_Struct):
    """What is read of an event's arguments, whatever its category."""

    device: int = -1
    context: int = -1
    stream: int = -1
    correlation: int = -1
    registers: int = msgspec.field(name="registers per thread", default=-1)
    smem_dynamic_bytes: int = msgspec.field(name="shared memory", default=-1)
    grid: Raw = Raw()
    block: Raw = Raw()
    graph: int = msgspec.field(name="graph id", default=-1)
    graph_node: int = msgspec.field(name="graph node id", default=-1)
    collective: str = msgspec.field(name="Collective name", default="")
    group: Raw = msgspec.field(name="Process Group Name", default=Raw())
    ranks: Raw = msgspec.field(name="Process Group Ranks", default=Raw())
    group_size: int = msgspec.field(name="Group size", default=-1)
    in_elements: int = msgspec.field(name="In msg nelems", default=-1)
    out_elements: int = msgspec.field(name="Out msg nelems", default=-1)
    dtype: str = ""
    types: Raw = msgspec.field(name="Input type", default=Raw())
    dims: Raw = msgspec.field(name="Input Dims", default=Raw())
    dims_2021: Raw = msgspec.field(name="Input dims", default=Raw())
    arguments: Raw = msgspec.field(name="Concrete Inputs", default=Raw())
    bytes: int | str = -1
    sync_kind: str = msgspec.field(name="cuda_sync_kind", default="")
    memory_bytes: int = msgspec.field(name="Bytes", default=0)
    memory_device: int = msgspec.field(name="Device Id", default=-1)
    memory_device_type: int = msgspec.field(name="Device Type", default=-1)
    address: int = msgspec.field(name="Addr", default=-1)
    kernel: Any = ""
    name: str = ""
    way: int | str = msgspec.field(name="copy kind", default="")
    source: int | str = msgspec.field(name="src kind", default="")
    target: int | str = msgspec.field(name="dst kind", default="")


class Event(_Struct):
    """One event of any category. Times stay text until they are parsed exactly."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: int | str = -1
    tid: int | str = -1
    ts: Raw = Raw()
    dur: Raw = Raw()
    args: Args = msgspec.field(default_factory=Args)
    series: Raw = msgspec.field(name="(series)", default=Raw())
    """Of a counter: its arguments, whose names are those of its values."""


class _Instant(_Struct, tag_field="cat"):
    ph: str = ""
    name: str = ""
    pid: int = -1
    tid: int = -1
    ts: Raw = Raw()
    dur: Raw = Raw()


class _OnGpu(_Struct, tag_field="cat"):
    ph: Literal["X"]  # with a length; what only begins or ends is unusual
    name: str = ""
    ts: Raw = Raw()
    dur: Raw = Raw()


class _OnThread(_Struct, tag_field="cat"):
    ph: Literal["X"]
    name: str = ""
    pid: int = -1
    tid: int = -1
    ts: Raw = Raw()
    dur: Raw = Raw()


LEFT_ALONE: Final = frozenset(("ac2g", "fwdbwd", "async", "async_cpu_to_gpu", "async_gpu", "gpu_user_annotation"))
"""Arrows between events, as correlation says the same; and annotations seen on the GPU, which launches give better."""

_Never = Annotated[int, msgspec.Meta(gt=0, lt=0)]
"""Of an argument that makes an event an unusual one: no value is valid."""

_ARGUMENTS: Final = {field.name: field for field in msgspec.structs.fields(Args)}


def _kind(category: str, base: type[_Struct], *read: str, never: tuple[str, ...] = ()) -> type[msgspec.Struct]:
    """The type of the events of one category, with no more than is read of them: these arguments, if any.

    The decoder compares each key with all names, so that fewer are faster.
    """
    read_fields, never_fields = ([_ARGUMENTS[name] for name in names] for names in (read, never))
    args: list[Any] = [
        *((own.name, own.type, msgspec.field(name=own.encode_name, default=own.default)) for own in read_fields),
        *((f"no_{own.name}", _Never, msgspec.field(name=own.encode_name, default=0)) for own in never_fields),
    ]
    fields: list[Any] = []
    if args:
        of_args = msgspec.defstruct(f"Args_{category}", args, gc=False, module=__name__)
        fields.append(("args", of_args, msgspec.field(default_factory=of_args)))
    return msgspec.defstruct(
        f"Event_{category}", fields, bases=(base,), tag=category, tag_field="cat", gc=False, module=__name__
    )


_KERNEL_ARGS: Final = (*_WHERE, "registers", "smem_dynamic_bytes", "grid", "block", "graph", "graph_node")
_COLLECTIVE_ARGS: Final = ("collective", "group", "ranks", *_OF_COLLECTIVE, "dtype")
_OP_ARGS: Final = ("types", "dims", "dims_2021", "arguments", *_COLLECTIVE_ARGS)
_MEMORY_ARGS: Final = ("memory_bytes", "memory_device", "memory_device_type", "address")
_COMMON: Final = (
    *(_kind(category, _OnThread, "correlation", "kernel", "grid") for category in ("cuda_runtime", "cuda_driver")),
    _kind("gpu_memcpy", _OnGpu, *_WHERE, "bytes", "way", "source", "target"),
    _kind("gpu_memset", _OnGpu, *_WHERE, "bytes"),
    _kind("cuda_sync", _OnGpu, *_WHERE, "sync_kind"),
    _kind("cpu_instant_event", _Instant, *_MEMORY_ARGS),
    *(_kind(category, _OnThread) for category in ("python_function", "overhead")),
    *(_kind(category, _Struct) for category in sorted(LEFT_ALONE)),
)
"""The types of the usual categories. A piece with any other event is decoded as `Event`s: slower, and as right."""


def _decoder(*kinds: type[msgspec.Struct]) -> msgspec.json.Decoder[list[Any]]:
    any_of: Any = reduce(or_, (*_COMMON, *kinds))
    return msgspec.json.Decoder(list[any_of])


PLAIN: Final = _decoder(
    _kind("kernel", _OnGpu, *_KERNEL_ARGS, never=("collective",)),
    _kind("cpu_op", _OnThread, "types", "dims", "arguments", never=("dims_2021", "collective")),
    _kind("user_annotation", _OnThread, "types", "dims", "arguments", never=("dims_2021", "collective")),
)
USUAL: Final = _decoder(
    _kind("kernel", _OnGpu, *_KERNEL_ARGS, *_COLLECTIVE_ARGS),
    _kind("cpu_op", _OnThread, *_OP_ARGS),
    _kind("user_annotation", _OnThread, *_OP_ARGS),
)
_ANY: Final = msgspec.json.Decoder(list[Event])
"""What one of them does not decode, the next does. Where two do, they say the same."""


class _Arguments(_Struct):
    args: Raw = Raw()


_ARGUMENTS_ALONE: Final = msgspec.json.Decoder(list[_Arguments])


def decode_any(text: bytes) -> list[Event]:
    """A list of events of any category."""
    events = _ANY.decode(text)
    if counters := [place for place, event in enumerate(events) if event.ph == "C"]:
        arguments = _ARGUMENTS_ALONE.decode(text)
        for place in counters:
            events[place].series = arguments[place].args
    return events


AUTOGRAD: Final = {"CPU functions": "Operator", "CUDA functions": "Kernel"}
"""The processes in traces of torch.autograd.profiler without Kineto, and what their events would be there."""


def as_kinetos(event: Event) -> None:
    """An event of the autograd profiler with its category; work on a GPU has its number for a thread's."""
    event.cat, event.pid = AUTOGRAD[str(event.pid)], 0
    if event.cat == "Kernel" and isinstance(event.tid, int):
        event.args.device = event.tid


class CounterValue(_Struct):
    """One value of one counter of a GPU."""

    name: str
    device: int
    value: int


class TimedValue(_Struct):
    """The same as an event."""

    ts: Raw
    args: CounterValue
    dur: Raw = Raw()


_GPU: Final = re.compile(r"GPU ?#?(\d{1,4})\b[ :]*", re.IGNORECASE)
_UNIT: Final = re.compile(r"\s*\((%|MHz|Hz|W|mW|C)\)$")


def counter_values(event: Event) -> list[TimedValue]:
    """What a counter of a GPU was: a value for each of its series; none where it is no GPU's.

    torch counts in a process called `GPU 0 Counters`; others name the GPU in the counter, or number the process so.
    """
    try:
        series = msgspec.json.decode(event.series, type=dict[str, Any]) if event.series else {}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        series = {}
    numbers = {key: value for key, value in series.items() if isinstance(value, int | float)}
    said = next((match for text in (str(event.pid), event.name) if (match := _GPU.match(text))), None)
    device = int(said[1]) if said else NOT_RECORDED
    values = []
    for key, value in numbers.items():
        name = _counter_name(_GPU.sub("", event.name, count=1).strip(), key)
        if device == NOT_RECORDED and gpu_metric(name) is None:
            continue
        if device == NOT_RECORDED and isinstance(event.pid, int):
            device = event.pid
        if name.endswith("[MHz]"):
            name, value = name.replace("[MHz]", "[Hz]"), value * 1e6
        if abs(value) < 2**62:
            values.append(TimedValue(event.ts, CounterValue(name, device, ceil(value))))  # as nsys rounds
    return values


@lru_cache(1000)
def _counter_name(name: str, key: str) -> str:
    """The name of one series of a counter, with its unit in brackets."""
    both = [_UNIT.sub(r" [\1]", text) for text in (name, key, f"{name} [{key}]")]
    known = next((text for text in both if gpu_metric(text) is not None), None)
    return known or (both[0] if key.lower() in ("", "value", name.lower()) else f"{both[0]} {both[1]}".strip())


def by_category(batch: list[Any]) -> dict[str, list[Any]]:
    """The events of a batch by category. All are usual, or all are `Event`s."""
    events_of: defaultdict[Any, list[Any]] = defaultdict(list)
    if are_usual(batch):
        for event in batch:
            events_of[type(event)].append(event)
        return {kind.__struct_config__.tag: events for kind, events in events_of.items()}
    for event in batch:
        events_of[event.cat].append(event)
    return events_of


def are_usual(batch: list[Any]) -> bool:
    """Whether the events are of the usual categories' own types: where these have a length, all do."""
    return bool(batch) and type(batch[0]) is not Event
