"""Work side by side: functions in, their results out, in order.

Passes of numpy and of our compiled code let go of the interpreter's lock, so that two of them keep two cores busy.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

First = TypeVar("First")
Second = TypeVar("Second")


def side_by_side(first: Callable[[], First], second: Callable[[], Second]) -> tuple[First, Second]:
    """Both results; `first` is done on a thread of its own, `second` here. What either raises is raised here."""
    with ThreadPoolExecutor(1) as pool:
        beside = pool.submit(first)
        here = second()
        return beside.result(), here
