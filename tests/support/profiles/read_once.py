"""What a test asks of the same profile again and again, in other formats or languages: read and analysed once.

Traces, books and findings do not change, so what is made of them is the same whether or not they are made again. The
tests of reading, of the books and of findings make them each time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from msgspec.structs import replace

from gpuledger import read
from gpuledger.findings import profiled_run
from gpuledger.findings.run_rules import findings_of, subjects_of
from gpuledger.ledger.device import analyse_devices
from gpuledger.limits import Limits
from gpuledger.read.plain_window import manifest_of, plain_window_ns
from gpuledger.read.request import Progress, WantedColumns
from gpuledger.selection import Selection
from gpuledger.trace.model import Trace

_KEPT: Final = 12
"""Of each kind: tests that come one after another look at no more profiles, and they take memory."""

Kept = OrderedDict[tuple[Any, ...], Any]


@contextmanager
def read_once() -> Iterator[None]:
    """While this is entered, a file that did not change is not read again, nor analysed in the same way again."""
    with (
        patch.object(read, "_read_trace", _opened_once),
        patch.object(profiled_run, "analyse_devices", _analysed_once),
        patch.object(profiled_run, "subjects_of", _subjects_once),
        patch.object(profiled_run, "findings_of", _found_once),
        patch.object(profiled_run, "sampled_use", _sampled_once),
    ):
        yield


def _reading_once(opened: Callable[..., Trace]) -> Callable[..., Trace]:
    kept: Kept = OrderedDict()

    def once(path: str | Path, wanted: WantedColumns, limits: Limits, progress: Progress, *, cache: bool) -> Trace:
        made = partial(opened, path, wanted, limits, progress, cache=cache)
        if not Path(path).is_file():
            return made()
        status = Path(path).stat()
        content = _digest(Path(path).resolve(), status.st_ino, status.st_size, status.st_mtime_ns)
        trace: Trace = _known(kept, (str(path), content, frozenset(wanted.items()), limits, cache), made)
        window_ns = plain_window_ns(manifest_of(Path(path)))  # of a file beside it
        return trace if trace.plain_window_ns == window_ns else replace(trace, plain_window_ns=window_ns)

    return once


@lru_cache(maxsize=64)
def _digest(path: Path, *_status: int) -> bytes:
    """Of the content: copies of a profile are that profile."""
    return sha256(path.read_bytes()).digest()


def _once(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, for arguments that do not change; it holds them, so that each keeps its identity."""
    kept: Kept = OrderedDict()

    def once(*arguments: Any, **named: Any) -> Any:
        given = (*arguments, *named.values())
        key = (*named, *(value if isinstance(value, str | Selection) else id(value) for value in given))
        return _known(kept, key, lambda: (function(*arguments, **named), given))[0]

    return once


def _known(kept: Kept, key: tuple[Any, ...], made: Callable[[], Any]) -> Any:
    if key not in kept:
        kept[key] = made()
    kept.move_to_end(key)
    while len(kept) > _KEPT:
        kept.popitem(last=False)
    return kept[key]


_opened_once: Final = _reading_once(read._read_trace)
_analysed_once: Final = _once(analyse_devices)
_subjects_once: Final = _once(subjects_of)
_found_once: Final = _once(findings_of)
_sampled_once: Final = _once(profiled_run.sampled_use)
