"""What kind of call a CUDA function is, and which calls of the operating system wait for another thread."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final


class CallKind(StrEnum):
    """Kinds of CUDA calls. Idle time that the host spends in one is booked to the cause of the same name."""

    SYNC = "sync"
    LAUNCH = "launch"
    ALLOC = "alloc"
    COPY_CALL = "copy_call"
    LOAD = "load"
    CALL = "call"

    @property
    def number(self) -> int:
        """Its position among the kinds, which is how columns hold it."""
        return CALL_KINDS.index(self)


CALL_KINDS: Final = tuple(CallKind)

_PATTERNS: Final = (
    (CallKind.SYNC, r"(Device|Stream|Event|Ctx|Context)Synchronize"),
    (CallKind.LAUNCH, r"Launch(?!HostFunc)"),
    (
        CallKind.ALLOC,
        r"(Malloc|MemAlloc|MemFree|MemPool|HostAlloc|HostRegister|HostUnregister|FreeHost|FreeAsync|MemCreate|MemMap)|^cudaFree",
    ),
    (CallKind.COPY_CALL, r"Mem(cpy|set)"),
    (
        CallKind.LOAD,
        r"Module|Library|Link(Create|Add|Complete)|GraphInstantiate|GraphExecUpdate|SetAttribute|FuncGetAttributes",
    ),
)
"""By the function's name, first match wins; what matches nothing is a plain call."""

_COMPILED: Final = tuple((kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in _PATTERNS)

WAITS_FOR_THREAD: Final = re.compile(
    r"cond_(timed)?wait|sem_(timed)?wait|^poll|^ppoll|epoll|^select|futex|join|mutex_lock"
)
"""Calls of the operating system in which a thread waits for another one."""


def call_kind(function: str) -> CallKind:
    """What kind of CUDA call a function is, by its name without a version suffix."""
    return next((kind for kind, pattern in _COMPILED if pattern.search(function)), CallKind.CALL)
