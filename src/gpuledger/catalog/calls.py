"""What a CUDA or HIP call is for, by its name: the kind of call it is, and what it puts on the device.

AMD's names are NVIDIA's with `hip` in front, but for a few (`hipHostMalloc`, `hipExtModuleLaunchKernel`), so that both
are told by the same words. What a name ends with (`_v3020`, `_v2`, `_ptsz`, `_spt`) says nothing about its kind.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

from gpuledger.regex import regex


class CallKind(StrEnum):
    """Kinds of CUDA calls. Idle time that the host spends in one is booked to the cause of the same name."""

    SYNC = "sync"
    LAUNCH = "launch"
    ALLOC = "alloc"
    COPY_CALL = "copy_call"
    LOAD = "load"
    CONTEXT = "context"
    CALL = "call"

    @property
    def number(self) -> int:
        """Its position among the kinds, which is how columns hold it."""
        return CALL_KINDS.index(self)


CALL_KINDS: Final = tuple(CallKind)

_KIND_PATTERNS: Final = (
    (CallKind.CALL, r"Graph(Exec)?(Add|Kernel|Mem|Host|Event|ExternalSem|Child)|LaunchHostFunc|GetLoadingMode"),
    (CallKind.SYNC, r"(Device|Thread|Stream|Event|Ctx|Context)Synchronize"),
    (CallKind.LAUNCH, r"Launch"),
    (
        CallKind.ALLOC,
        r"Malloc|MemAlloc|MemFree|MemPool|HostAlloc|HostRegister|HostUnregister|FreeHost|HostFree|FreeAsync"
        r"|Array(3D)?(Create|Destroy)|^(cuda|hip)Free"
        r"|Mem(Create|Release|Map|Unmap|SetAccess|RetainAllocation|Address(Reserve|Free))",
    ),
    (CallKind.COPY_CALL, r"Mem(cpy|set|Prefetch)"),
    (
        CallKind.LOAD,
        r"Module|Library|Link(Create|Add|Complete|Destroy)|RegisterFatBinary|rtcCompile"
        r"|GraphInstantiate|GraphExecUpdate|GraphUpload"
        r"|(Func|Kernel)Set(Attribute|CacheConfig|SharedMemConfig)|FuncGetAttributes|FuncLoad"
        r"|GetFuncBySymbol|KernelGetFunction|GetSymbol(Address|Size)",
    ),
    (CallKind.CONTEXT, r"^(cu|hip)Init$|InitDevice|CtxCreate|PrimaryCtxRetain|PrimaryCtxReset|DeviceReset"),
)
"""By the function's name, first match wins; what matches nothing is a plain call. Building a graph runs nothing."""

_COMPILED: Final = tuple((kind, regex(pattern, re.IGNORECASE)) for kind, pattern in _KIND_PATTERNS)

_WOKEN: Final = r"(cond|sem)_(timed|clock)?wait|futex|barrier_wait|join|mutex_(timed|clock)?lock|rwlock_"
WOKEN_BY_THREAD: Final = regex(_WOKEN)
"""Calls of the operating system that another thread ends."""

WAITS_FOR_THREAD: Final = regex(rf"{_WOKEN}|^poll|^ppoll|epoll|^select")
"""Calls of the operating system in which a thread waits for another one, or for what it may bring."""


def call_kind(function: str) -> CallKind:
    """What kind of CUDA or HIP call a function is, by its name."""
    return next((kind for kind, pattern in _COMPILED if pattern.search(function)), CallKind.CALL)


class DeviceOperation(StrEnum):
    """What a call puts on the device."""

    KERNEL = "kernel"
    COPY = "copy"
    GRAPH = "graph"

    @property
    def number(self) -> int:
        """Its position among the operations, which is how columns hold it."""
        return DEVICE_OPERATIONS.index(self)


DEVICE_OPERATIONS: Final = tuple(DeviceOperation)

NO_OPERATION: Final = -1
"""Stands in a column for a call that puts nothing on the device."""

_OPERATION_PATTERNS: Final = (
    (DeviceOperation.GRAPH, regex(r"^(cuda|cu|hip)GraphLaunch")),
    (
        DeviceOperation.KERNEL,
        regex(r"^cudaLaunch$|^(cuda|cu|hip)(Ext)?(Module)?Launch(Cooperative)?Kernel(?!MultiDevice)"),
    ),
    (DeviceOperation.COPY, regex(r"^(cuda|cu)Mem(cpy|set)")),  # not cuMemSetAccess
)

CAPTURE_BEGINS: Final = regex(r"StreamBeginCapture")
CAPTURE_ENDS: Final = regex(r"StreamEndCapture")
"""Between the two, launches are written into a graph and run nothing."""

LOADS_MODULE: Final = regex(r"(?:Module|Library)Load")

CHANGES_GRAPHS: Final = regex(r"NodeSetEnabled|ConditionalHandleCreate")
"""After such calls, not every launch of a graph runs all of its nodes."""


def operation_number(function: str) -> int:
    """What a function puts on the device, as a number, by its name without a version suffix; or NO_OPERATION."""
    return next((kind.number for kind, pattern in _OPERATION_PATTERNS if pattern.search(function)), NO_OPERATION)
