"""Until when this thread may go on with what it does: set by whoever reads a profile, looked at by whatever takes long.

A profile may make any step of reading long: not just what goes through rows, but also what is done with them, here and
in compiled passes, which call `check` every few million rows. In the main thread a timer checks too, wherever the
program is then: in a regular expression, in a loop that nobody thought would be long. Only compiled code that never
looks at signals goes on; what runs such code for strangers does it in a process that can be killed (`system.killable`).
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final


class _Deadline(threading.local):
    def __init__(self) -> None:
        self.at_s = float("inf")
        self.refusal: Callable[[], Exception] = TimeoutError


_DEADLINE = _Deadline()
_AGAIN_S: Final = 2.0
"""An exception that the timer raises inside a callback is lost with it: then it is raised again."""
_LONGEST_S: Final = 1e8  # three years; a timer takes no more


@contextmanager
def until(deadline_s: float, refusal: Callable[[], Exception]) -> Iterator[None]:
    """What is done meanwhile ends with `refusal` once `time.monotonic()` is past the deadline."""
    before = _DEADLINE.at_s, _DEADLINE.refusal
    if deadline_s < before[0]:
        _DEADLINE.at_s, _DEADLINE.refusal = deadline_s, refusal
        _set_timer()
    try:
        yield
    finally:
        try:
            _DEADLINE.at_s, _DEADLINE.refusal = before
        finally:  # also where the timer came just now
            _DEADLINE.at_s, _DEADLINE.refusal = before
            _set_timer()


@contextmanager
def paused() -> Iterator[None]:
    """What a program with a limit of its own takes meanwhile is not counted."""
    at_s, began_s = _DEADLINE.at_s, time.monotonic()
    _DEADLINE.at_s = float("inf")
    _set_timer()
    try:
        yield
    finally:
        _DEADLINE.at_s = at_s + time.monotonic() - began_s
        _set_timer()


def check() -> None:
    """Raise what the deadline's owner said, if it is over."""
    if time.monotonic() > _DEADLINE.at_s:
        raise _DEADLINE.refusal()


def left_s() -> float:
    """Seconds until the deadline; infinite where there is none, and negative once it is over."""
    return _DEADLINE.at_s - time.monotonic()


def _set_timer() -> None:
    """Have `check` called in the main thread when the deadline is over, unless the program uses the timer itself."""
    if threading.current_thread() is not threading.main_thread():
        return
    handler = signal.getsignal(signal.SIGALRM)
    if handler is not _on_timer:
        if handler is not signal.SIG_DFL or signal.getitimer(signal.ITIMER_REAL)[0] or _DEADLINE.at_s == float("inf"):
            return
        signal.signal(signal.SIGALRM, _on_timer)
    if _DEADLINE.at_s == float("inf"):
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
    else:
        signal.setitimer(signal.ITIMER_REAL, min(max(left_s(), 0.001), _LONGEST_S), _AGAIN_S)


def _on_timer(*_: object) -> None:
    check()
