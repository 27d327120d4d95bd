"""What is read of an event, as types that the decoder fills: one per usual category, and one for any."""

from __future__ import annotations

from collections import defaultdict
from functools import reduce
from operator import or_
from typing import Any, Final

import msgspec
from msgspec import Raw


class _Struct(msgspec.Struct, gc=False):
    pass


class CallArgs(_Struct):
    """What is read of the arguments of a call."""

    correlation: int = -1


class _WhereArgs(CallArgs):
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

    correlation: int = -1
    device: int = -1
    context: int = -1
    stream: int = -1
    grid: Raw = Raw()
    block: Raw = Raw()
    registers: int = msgspec.field(name="registers per thread", default=-1)
    shared_memory: int = msgspec.field(name="shared memory", default=-1)
    graph: int = msgspec.field(name="graph id", default=-1)
    graph_node: int = msgspec.field(name="graph node id", default=-1)


class OpArgs(_CollectiveArgs):
    """Of an operator's arguments, in the spellings of 2021 and of today."""

    dims: Raw = msgspec.field(name="Input Dims", default=Raw())
    dims_2021: Raw = msgspec.field(name="Input dims", default=Raw())
    types: Raw = msgspec.field(name="Input type", default=Raw())


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


class _Timed(_Struct, tag_field="cat"):
    ph: str = ""
    name: str = ""
    pid: int | str = -1
    tid: int | str = -1
    ts: Raw = Raw()
    dur: Raw = Raw()


LEFT_ALONE: Final = frozenset(("ac2g", "fwdbwd", "async", "async_cpu_to_gpu", "async_gpu", "gpu_user_annotation"))
"""Arrows between events, as correlation says the same; and annotations seen on the GPU, which launches give better."""


def _kind(category: str, args: type[_Struct] | None = None, *, timed: bool = True) -> type[msgspec.Struct]:
    """The type of the events of one category, with no more than is read of them."""
    fields: list[Any] = [] if args is None else [("args", args, msgspec.field(default_factory=args))]
    bases = (_Timed,) if timed else (_Struct,)
    return msgspec.defstruct(
        f"Event_{category}", fields, bases=bases, tag=category, tag_field="cat", gc=False, module=__name__
    )


_KINDS: Final = {
    _kind("kernel", KernelArgs): "kernel",
    _kind("cpu_op", OpArgs): "cpu_op",
    _kind("cuda_runtime", CallArgs): "cuda_runtime",
    _kind("cuda_driver", CallArgs): "cuda_driver",
    _kind("gpu_memcpy", CopyArgs): "gpu_memcpy",
    _kind("gpu_memset", CopyArgs): "gpu_memset",
    _kind("cuda_sync", SyncArgs): "cuda_sync",
    _kind("cpu_instant_event", MemoryArgs): "cpu_instant_event",
    _kind("user_annotation", OpArgs): "user_annotation",
    _kind("python_function"): "python_function",
    _kind("overhead"): "overhead",
    **{_kind(category, timed=False): category for category in sorted(LEFT_ALONE)},
}
"""The types of the usual categories. A piece that holds any other is decoded as `Event`s: slower, and as right."""

_ANY_USUAL: Any = reduce(or_, _KINDS)
USUAL: Final = msgspec.json.Decoder(list[_ANY_USUAL])
ANY: Final = msgspec.json.Decoder(list[Event])


def by_category(batch: list[Any]) -> dict[str, list[Any]]:
    """The events of a batch by category."""
    groups: defaultdict[type, list[Any]] = defaultdict(list)
    for event in batch:
        groups[type(event)].append(event)
    found: defaultdict[str, list[Any]] = defaultdict(list)
    for event in groups.pop(Event, ()):
        found[event.cat].append(event)
    for kind, events in groups.items():
        found[_KINDS[kind]] += events
    return found
