"""Until when this thread may go on with what it does: set by whoever reads a profile, looked at by whatever takes long.

A profile may make any step of reading long: not just what goes through rows, but also what is done with them, here and
in compiled passes, which call `check` every few million rows.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class _Deadline(threading.local):
    def __init__(self) -> None:
        self.at_s = float("inf")
        self.refusal: Callable[[], Exception] = TimeoutError


_DEADLINE = _Deadline()


@contextmanager
def until(deadline_s: float, refusal: Callable[[], Exception]) -> Iterator[None]:
    """What is done meanwhile ends with `refusal` once `time.monotonic()` is past the deadline, if it checks."""
    before = _DEADLINE.at_s, _DEADLINE.refusal
    if deadline_s < before[0]:
        _DEADLINE.at_s, _DEADLINE.refusal = deadline_s, refusal
    try:
        yield
    finally:
        _DEADLINE.at_s, _DEADLINE.refusal = before


def check() -> None:
    """Raise what the deadline's owner said, if it is over."""
    if time.monotonic() > _DEADLINE.at_s:
        raise _DEADLINE.refusal()


def left_s() -> float:
    """Seconds until the deadline; infinite where there is none, and negative once it is over."""
    return _DEADLINE.at_s - time.monotonic()
