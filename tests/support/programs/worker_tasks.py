"""What workers are given to do: tasks that take a while, die in the middle, or take too much.

A worker imports this module, and nothing else of the tests: pytest alone would cost more than all that it does here.
"""

from __future__ import annotations

import os
import random
import signal
import time
from multiprocessing.connection import Connection
from pathlib import Path


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def square(number: int) -> int:
    time.sleep(random.random() * 0.05)  # so that they end in another order each time
    return number * number


def squares_but_for(number: int, deadly: frozenset[int]) -> int:
    if number in deadly:
        die()
    return number * number


def dies_the_first_time(number: int, marks: Path) -> int:
    try:
        (marks / str(number)).touch(exist_ok=False)
    except FileExistsError:
        return number
    die()
    return -1


def dies_when_the_others_are_done(number: int, marks: Path) -> bytes:
    """Item 0 kills its worker just as the others hand over results that take many writes."""
    if number == 0:
        while len(list(marks.iterdir())) < 3:
            time.sleep(0.001)
        die()
    (marks / f"{number}-{os.getpid()}").touch()
    return bytes([number]) * (8 << 20)


def killed_in_the_middle_of_its_result(number: int) -> bytes:
    """Item 2 kills its worker when half of its result has been sent."""
    if number == 2:
        Connection._send = _sends_half  # type: ignore[attr-defined]
    return bytes([number]) * 1000


def _sends_half(self: Connection, message: bytes) -> None:
    os.write(self.fileno(), message[: len(message) // 2])
    die()


def greedy(number: int) -> int:
    held = bytearray(600 << 20) if number == 1 else b""
    time.sleep(1 if held else 0)
    return number


def raises(number: int) -> int:
    if number == 1:
        raise ValueError("not\nthis one")
    return number


def variables(_: int) -> tuple[str | None, str | None]:
    return os.environ.get("OPENBLAS_NUM_THREADS"), os.environ.get("OMP_NUM_THREADS")


def sleeps(number: int, marks: Path) -> int:
    (marks / f"{number}-{os.getpid()}").touch()
    time.sleep(120)
    return number
