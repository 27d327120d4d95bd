"""Opens a profile from the cache, or reads it and keeps what was read, so that the next open only maps it.

What is kept is exactly what a reader gave for one request, and it answers that request only: which rows are doubted,
which processes are seen and how texts are numbered depend on the columns that are asked for, and an answer must not
depend on what was asked before. Whatever goes wrong here costs the next open its speed, and nobody an answer.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import threading
import time
from collections.abc import Callable
from typing import Final

from gpuledger.limits import EXPORTER, Limits
from gpuledger.read import btree
from gpuledger.read.cache.store import FORMAT, fingerprint, pack_trace, unpack_trace
from gpuledger.read.request import WantedColumns
from gpuledger.read.source import Source
from gpuledger.system.kept_files import SMALL_BYTES, WORTH_S, KeptFiles, keeps_everything, kept_name, now_ns, readings
from gpuledger.trace.model import Trace
from gpuledger.version import code_state

LARGE_BYTES: Final = 32_000_000
"""A profile of this size is kept, however soon it was read; a smaller one where that took long."""
PATIENCE_S: Final = 3.0
"""So long the next profile, or the end of the process, waits for a file that is still being written."""

_LAST_PIECE_S: Final = 1.0  # a file that is given up ends with the piece that the system has in hand


def cached_open(source: Source, member: str, wanted: WantedColumns, limits: Limits, read: Callable[[], Trace]) -> Trace:
    """What `read` gives, from the cache where it holds this very request for this very state of the profile."""
    folder, looked_ns, always = readings(), now_ns(), keeps_everything()
    profile = fingerprint(source, member) if folder.path.is_absolute() else None
    if profile is None or (profile.state.size_bytes < SMALL_BYTES and not always):
        return read()
    state = (profile.state.digest, FORMAT, code_state("read", "trace"))
    request = (
        btree.is_there(),
        os.environ.get(EXPORTER),
        limits,
        sorted((table.value, sorted(names)) for table, names in wanted.items()),
    )
    name = kept_name(profile.place, state, _digest(request)[:16])
    key = f"{profile.place} {_digest(state)} {_digest(request)}"
    trace = _from_folder(folder, name, key, wanted)
    if trace is not None:
        return trace
    _forget_other_states(folder, name)
    finish_writing(PATIENCE_S)  # readers fork, which wants no other thread; and a trace is not to be held for long
    began = time.monotonic()
    trace = read()
    is_worth_it = always or profile.state.size_bytes >= LARGE_BYTES or time.monotonic() - began >= WORTH_S
    if is_worth_it and profile.state.was_settled(looked_ns) and fingerprint(source, member) == profile:
        _TraceWriter(folder, name, key, trace).start()
    return trace


def finish_writing(seconds: float | None = None) -> None:
    """Wait until all that is to be kept has been written; after `seconds` give up what is not."""
    for writer in [thread for thread in threading.enumerate() if isinstance(thread, _TraceWriter)]:
        writer.ended.wait(seconds)  # `join` takes a thread for ended when the user interrupts it
        writer.given_up.set()
        if writer.ended.wait(_LAST_PIECE_S):
            writer.join()


@atexit.register
def _finish_at_exit() -> None:
    try:
        finish_writing(PATIENCE_S)
    except KeyboardInterrupt:  # whoever waits has waited long enough
        finish_writing(0.0)


class _TraceWriter(threading.Thread):
    """Writes one file while the analyses go on: most of its time is the system's, outside Python's lock."""

    def __init__(self, folder: KeptFiles, name: str, key: str, trace: Trace) -> None:
        super().__init__(name="gpuledger cache", daemon=True)
        self.given_up, self.ended = threading.Event(), threading.Event()
        self._folder, self._file, self._key, self._trace = folder, name, key, trace

    def run(self) -> None:
        try:
            packed = pack_trace(self._trace, self._key)
            self._folder.write(self._file, packed.total_bytes, packed.pieces(), self.given_up)
        except Exception as error:  # a full disk, no permission, a sentence that is no JSON: there is just no file
            _remark(f"{self._file} is not kept: {type(error).__name__}: {error}")
        finally:
            self.ended.set()


def _from_folder(folder: KeptFiles, name: str, key: str, wanted: WantedColumns) -> Trace | None:
    """The trace that was kept. A file that is not what it should be is removed."""
    try:
        mapped = folder.mapped(name)
        return None if mapped is None else unpack_trace(mapped, key, wanted)
    except OSError as error:
        _remark(f"{name} cannot be used: {error}")
        return None
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
        _remark(f"{name} is damaged, and removed: {type(error).__name__}: {error}")
    try:
        folder.remove(name)
    except OSError as error:
        _remark(f"{name} cannot be removed: {error}")
    return None


def _forget_other_states(folder: KeptFiles, name: str) -> None:
    """Of what the profile was before nobody will ask again."""
    try:
        folder.remove_other_states(name)
    except OSError as error:
        _remark(f"what {name} was before cannot be removed: {error}")


def _digest(about: object) -> str:
    return hashlib.sha256(repr(about).encode()).hexdigest()


def _remark(sentence: str) -> None:
    """Say what went wrong to whoever looks for it."""
    if os.environ.get("GPULEDGER_DEBUG") == "1":
        import logging

        logging.getLogger("gpuledger.cache").warning("cache: %s", sentence)
