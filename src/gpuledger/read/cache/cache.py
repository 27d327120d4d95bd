"""Profiles that took long to read are kept as they were read, so that the next open only maps them.

What is kept is exactly what a reader gave for one request, and it answers that request only: which rows are doubted,
which processes are seen and how texts are numbered depend on the columns that are asked for, and an answer must not
depend on what was asked before. Whatever goes wrong here costs the next open its speed, and nobody an answer.

GPULEDGER_CACHE=0 keeps and uses nothing; GPULEDGER_CACHE=always keeps even what was read in no time.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import threading
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

from gpuledger.limits import Limits
from gpuledger.read.cache.folder import Shelf
from gpuledger.read.cache.identity import identity, now_ns
from gpuledger.read.cache.policy import SMALL_BYTES, is_always
from gpuledger.read.cache.trace_file import FORMAT, as_stored, from_stored
from gpuledger.read.nsys import btree
from gpuledger.read.nsys.container import Wanted
from gpuledger.read.source import Source
from gpuledger.system.cache_folder import cache_folder
from gpuledger.trace.model import Trace

WORTH_S: Final = 0.25
"""Reading must have taken so long for its result to be kept."""
PATIENCE_S: Final = 3.0
"""So long the next profile, or the end of the process, waits for a file that is still being written."""

_LAST_PIECE_S: Final = 1.0  # a file that is given up ends with the piece that the system has in hand


def through_cache(source: Source, member: str, wanted: Wanted, limits: Limits, read: Callable[[], Trace]) -> Trace:
    """What `read` gives, from the cache where it holds this very request for this very state of the profile."""
    folder, looked_ns, always = cache_folder() / "traces", now_ns(), is_always()
    found = identity(source, member) if folder.is_absolute() else None
    if found is None or (found.size_bytes < SMALL_BYTES and not always):
        return read()
    shelf = Shelf(folder)
    state = _digest(found.state, FORMAT, _readers())
    request = _digest(btree.is_there(), limits, sorted((table.value, sorted(names)) for table, names in wanted.items()))
    name, key = f"{found.place[:16]}-{state[:16]}-{request[:16]}", f"{found.place} {state} {request}"
    stored = _taken(shelf, name, key, wanted)
    if stored is not None:
        return stored
    finish(PATIENCE_S)  # readers fork, which wants no other thread; and a trace is not to be held for long
    began = time.monotonic()
    trace = read()
    took_s = time.monotonic() - began
    if (always or took_s >= WORTH_S) and found.was_settled(looked_ns) and identity(source, member) == found:
        _Writing(shelf, name, key, trace).start()
    return trace


def finish(seconds: float | None = None) -> None:
    """Wait until all that is to be kept has been written; after `seconds` give up what is not."""
    for writing in [each for each in threading.enumerate() if isinstance(each, _Writing)]:
        writing.ended.wait(seconds)  # `join` takes a thread for ended when the user interrupts it
        writing.given_up.set()
        if writing.ended.wait(_LAST_PIECE_S):
            writing.join()


class _Writing(threading.Thread):
    """Writes one file while the analyses go on: most of its time is the system's, outside Python's lock."""

    def __init__(self, shelf: Shelf, name: str, key: str, trace: Trace) -> None:
        super().__init__(name="gpuledger cache", daemon=True)
        self.given_up, self.ended = threading.Event(), threading.Event()
        self._shelf, self._name, self._key, self._trace = shelf, name, key, trace
        _finish_at_exit()

    def run(self) -> None:
        try:
            stored = as_stored(self._trace, self._key)
            place, state, _ = self._name.split("-")
            if self._shelf.put(self._name, stored.total_bytes, stored.pieces(), self.given_up):
                self._shelf.discard_others(f"{place}-", f"{place}-{state}-")
        except Exception as error:  # a full disk, no permission, a sentence that is no JSON: there is just no file
            _remark(f"{self._name} is not kept: {type(error).__name__}: {error}")
        finally:
            self.ended.set()


def _taken(shelf: Shelf, name: str, key: str, wanted: Wanted) -> Trace | None:
    """The stored trace. A file that is not what it should be is removed."""
    try:
        file = shelf.mapped(name)
        if file is None:
            return None
        return from_stored(file, key, wanted)
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
        _remark(f"{name} is damaged, and removed: {type(error).__name__}: {error}")
    except OSError as error:
        _remark(f"{name} cannot be used: {error}")
        return None
    try:
        shelf.discard(name)
    except OSError as error:
        _remark(f"{name} cannot be removed: {error}")
    return None


def _digest(*about: object) -> str:
    return hashlib.sha256(repr(about).encode()).hexdigest()


_CODE: Final = (".py", ".so", ".pyd")


@cache
def _readers() -> str:
    """Stands for the code that reads: its version, and the times of its files, for changes that have no version."""
    from importlib.metadata import version

    package = Path(__file__).parents[2]
    files = [path for part in ("read", "trace") for path in sorted((package / part).rglob("*.*"))]
    times = [(str(path.relative_to(package)), path.stat().st_mtime_ns) for path in files if path.suffix in _CODE]
    return repr((version("gpuledger"), times))


@cache
def _finish_at_exit() -> None:
    atexit.register(_at_exit)


def _at_exit() -> None:
    try:
        finish(PATIENCE_S)
    except KeyboardInterrupt:  # whoever waits has waited long enough
        finish(0.0)


def _remark(sentence: str) -> None:
    """Say what went wrong to whoever looks for it."""
    if os.environ.get("GPULEDGER_DEBUG") == "1":
        import logging

        logging.getLogger("gpuledger.cache").warning("cache: %s", sentence)
