"""Ctrl-C and its like while something is under way that must not be left half done: counted, put off, or remembered.

At the end the old handling comes back. A signal that was ignored when we were started stays ignored: that is how a
script keeps Ctrl-C from what it runs in the background, and `nohup` the end of a session. What we start to end it
ourselves must not inherit that: see `interruptible_children`.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any, Final, Self

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interruption:
    """While it is entered, signals that would end us are only counted."""

    def __init__(self) -> None:
        self.count = 0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        def count(_: int, __: FrameType | None) -> None:
            self.count += 1

        if threading.current_thread() is threading.main_thread():  # Python allows it nowhere else
            for number in SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, count)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def __bool__(self) -> bool:
        """Whether somebody asked us to end."""
        return self.count > 0


@contextlib.contextmanager
def noted_interrupts() -> Iterator[list[int]]:
    """Ctrl-C is a KeyboardInterrupt as ever, and is noted: libraries swallow one at times, and then fail otherwise."""
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)
        signal.default_int_handler(number, frame)

    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield came
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield came
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextlib.contextmanager
def held_interrupts() -> Iterator[None]:
    """Ctrl-C waits until this has ended; threads and processes that are started here never see it.

    A terminal sends it to every process of the group, but it is for the program to answer, which ends the others.
    """
    before = signal.getsignal(signal.SIGINT)
    in_main_thread = threading.current_thread() is threading.main_thread()
    came: list[int] = []
    if in_main_thread and before is not signal.SIG_IGN:
        # another thread may be the one that gets it, and Python would answer in this one
        signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if in_main_thread and before is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, before)
    if came:
        raise KeyboardInterrupt


@contextlib.contextmanager
def interruptible_children() -> Iterator[None]:
    """Processes that are started here take SIGINT, though we may ignore it.

    They are in sessions of their own, where a terminal's Ctrl-C does not come; SIGINT is how we ask them to end.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN or not in_main_thread:
        yield
        return
    signal.signal(signal.SIGINT, lambda *_: None)  # a program that is started inherits what is ignored, but no handler
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
