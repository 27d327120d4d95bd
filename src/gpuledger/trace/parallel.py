"""Work side by side: functions in, their results out, in order.

Passes of numpy and of our compiled code let go of the interpreter's lock, so that two of them keep two cores busy.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

First = TypeVar("First")
Second = TypeVar("Second")

WORTH_A_THREAD = 10_000
"""Rows. A pass over fewer is over before a thread has started, and a trace may have a thousand GPUs."""


def side_by_side(rows: int, first: Callable[[], First], second: Callable[[], Second]) -> tuple[First, Second]:
    """Both results of going through so many rows; `first` is done on a thread of its own if that is worth it.

    What either raises is raised here.
    """
    if rows < WORTH_A_THREAD:
        return first(), second()
    with ThreadPoolExecutor(1) as pool:
        beside = pool.submit(first)
        here = second()
        return beside.result(), here
