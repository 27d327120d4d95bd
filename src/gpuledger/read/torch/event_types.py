"""What is read of an event, as types that the decoder fills: one per usual category, and one for any."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import reduce
from operator import or_
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Raw


class _Struct(msgspec.Struct, gc=False):
    pass


class CallArgs(_Struct):
    """What is read of the arguments of a call."""

    correlation: int = -1
    kernel: str = ""


class _WhereArgs(_Struct):
    correlation: int = -1
    device: int = -1
    context: int = -1
    stream: int = -1


class CopyArgs(_WhereArgs):
    """Of a copy's or memset's arguments."""

    bytes: int | str = -1


class SyncArgs(_WhereArgs):
    """Of a synchronisation's arguments."""

    sync_kind: str = msgspec.field(name="cuda_sync_kind", default="")


class MemoryArgs(_Struct):
    """Of a memory event's arguments."""

    memory_bytes: int = msgspec.field(name="Bytes", default=0)
    memory_device: int = msgspec.field(name="Device Id", default=-1)
    memory_device_type: int = msgspec.field(name="Device Type", default=-1)
    address: int = msgspec.field(name="Addr", default=-1)


_Never = Annotated[int, msgspec.Meta(gt=0, lt=0)]
"""Of an argument that makes an event an unusual one: no value is valid."""


class _CollectiveArgs(_Struct):
    collective: str = msgspec.field(name="Collective name", default="")
    group: Raw = msgspec.field(name="Process Group Name", default=Raw())
    ranks: Raw = msgspec.field(name="Process Group Ranks", default=Raw())
    group_size: int = msgspec.field(name="Group size", default=-1)
    in_elements: int = msgspec.field(name="In msg nelems", default=-1)
    out_elements: int = msgspec.field(name="Out msg nelems", default=-1)
    dtype: str = ""


class KernelArgs(_CollectiveArgs):
    """Of a kernel's arguments."""

    device: int = -1
    context: int = -1
    stream: int = -1
    correlation: int = -1
    registers: int = msgspec.field(name="registers per thread", default=-1)
    shared_memory: int = msgspec.field(name="shared memory", default=-1)
    grid: Raw = Raw()
    block: Raw = Raw()
    graph: int = msgspec.field(name="graph id", default=-1)
    graph_node: int = msgspec.field(name="graph node id", default=-1)


class PlainKernelArgs(_Struct):
    """The same but for a collective's. The decoder compares each key with all names, so that fewer are faster."""

    device: int = -1
    context: int = -1
    stream: int = -1
    correlation: int = -1
    registers: int = msgspec.field(name="registers per thread", default=-1)
    shared_memory: int = msgspec.field(name="shared memory", default=-1)
    grid: Raw = Raw()
    block: Raw = Raw()
    graph: int = msgspec.field(name="graph id", default=-1)
    graph_node: int = msgspec.field(name="graph node id", default=-1)
    no_collective: _Never = msgspec.field(name="Collective name", default=0)


class OpArgs(_CollectiveArgs):
    """Of an operator's arguments, in the spellings of 2021 and of today."""

    types: Raw = msgspec.field(name="Input type", default=Raw())
    dims: Raw = msgspec.field(name="Input Dims", default=Raw())
    dims_2021: Raw = msgspec.field(name="Input dims", default=Raw())


class PlainOpArgs(_Struct):
    """The same but for a collective's, and in the spelling of today."""

    types: Raw = msgspec.field(name="Input type", default=Raw())
    dims: Raw = msgspec.field(name="Input Dims", default=Raw())
    no_dims_2021: _Never = msgspec.field(name="Input dims", default=0)
    no_collective: _Never = msgspec.field(name="Collective name", default=0)


class Args(KernelArgs):
    """All of it, for events of any category."""

    dims: Raw = msgspec.field(name="Input Dims", default=Raw())
    dims_2021: Raw = msgspec.field(name="Input dims", default=Raw())
    types: Raw = msgspec.field(name="Input type", default=Raw())
    bytes: int | str = -1
    sync_kind: str = msgspec.field(name="cuda_sync_kind", default="")
    memory_bytes: int = msgspec.field(name="Bytes", default=0)
    memory_device: int = msgspec.field(name="Device Id", default=-1)
    memory_device_type: int = msgspec.field(name="Device Type", default=-1)
    address: int = msgspec.field(name="Addr", default=-1)
    kernel: Any = ""
    name: str = ""


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


def _kind(category: str, base: type[_Struct], args: type[_Struct] | None = None) -> type[msgspec.Struct]:
    """The type of the events of one category, with no more than is read of them."""
    fields: list[Any] = [] if args is None else [("args", args, msgspec.field(default_factory=args))]
    return msgspec.defstruct(
        f"Event_{category}", fields, bases=(base,), tag=category, tag_field="cat", gc=False, module=__name__
    )


_COMMON: Final = {
    _kind("cuda_runtime", _OnThread, CallArgs): "cuda_runtime",
    _kind("cuda_driver", _OnThread, CallArgs): "cuda_driver",
    _kind("gpu_memcpy", _OnGpu, CopyArgs): "gpu_memcpy",
    _kind("gpu_memset", _OnGpu, CopyArgs): "gpu_memset",
    _kind("cuda_sync", _OnGpu, SyncArgs): "cuda_sync",
    _kind("cpu_instant_event", _Instant, MemoryArgs): "cpu_instant_event",
    _kind("python_function", _OnThread): "python_function",
    _kind("overhead", _OnThread): "overhead",
    **{_kind(category, _Struct): category for category in sorted(LEFT_ALONE)},
}
_PLAIN: Final = _COMMON | {
    _kind("kernel", _OnGpu, PlainKernelArgs): "kernel",
    _kind("cpu_op", _OnThread, PlainOpArgs): "cpu_op",
    _kind("user_annotation", _OnThread, PlainOpArgs): "user_annotation",
}
_USUAL: Final = _COMMON | {
    _kind("kernel", _OnGpu, KernelArgs): "kernel",
    _kind("cpu_op", _OnThread, OpArgs): "cpu_op",
    _kind("user_annotation", _OnThread, OpArgs): "user_annotation",
}
_KINDS: Final = _PLAIN | _USUAL
"""The types of the usual categories. A piece with any other event is decoded as `Event`s: slower, and as right."""


def _decoder(kinds: Iterable[type[msgspec.Struct]]) -> msgspec.json.Decoder[list[Any]]:
    any_of: Any = reduce(or_, kinds)
    return msgspec.json.Decoder(list[any_of])


PLAIN: Final = _decoder(_PLAIN)
USUAL: Final = _decoder(_USUAL)
ANY: Final = msgspec.json.Decoder(list[Event])
"""What one of them does not decode, the next does. Where two do, they say the same."""


def by_category(batch: list[Any]) -> dict[str, list[Any]]:
    """The events of a batch by category. All are usual, or all are `Event`s."""
    found: defaultdict[Any, list[Any]] = defaultdict(list)
    if are_usual(batch):
        for event in batch:
            found[type(event)].append(event)
        return {_KINDS[kind]: events for kind, events in found.items()}
    for event in batch:
        found[event.cat].append(event)
    return found


def are_usual(batch: list[Any]) -> bool:
    """Whether the events are of the usual categories' own types: where these have a length, all do."""
    return bool(batch) and type(batch[0]) is not Event
