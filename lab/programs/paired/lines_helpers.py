"""What programs of `lines` call: the faults that lie in another file than the step."""

from __future__ import annotations

import functools
import re
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor  # type: ignore[import-not-found, unused-ignore]


class Meter:
    """Logs a value, three calls below the step."""

    def __init__(self) -> None:
        self.values: list[float] = []

    def update(self, value: Tensor) -> None:
        """What a training loop calls."""
        self._append(value.detach())

    def _append(self, value: Tensor) -> None:
        self.values.append(self._scalar(value))

    def _scalar(self, value: Tensor) -> float:
        return float(value.item())  # planted: item_deep


def timed(work: Callable[[], Tensor], device: str) -> Callable[[], Tensor]:
    """A decorator that measures how long the device takes, for a log that nobody reads."""

    @functools.wraps(work)
    def wrapper() -> Tensor:
        out = work()
        if device == "cuda":
            torch.cuda.synchronize()  # planted: sync_decorator
        return out

    return wrapper


def with_retries(fetch: Callable[[], Any], *, delay_s: float) -> Any:
    """Asks once more after a while, where nothing came."""
    for _ in range(2):
        answer = fetch()
        if answer is not None:
            return answer
        time.sleep(delay_s)  # planted: retry_sleep
    return None


_WORD = re.compile(r"\w+|[^\w\s]")


def tokenize(text: str, known: dict[str, int]) -> list[int]:
    """Words to numbers, with a loop in Python."""
    return [known.setdefault(word.lower(), len(known)) for word in _WORD.findall(text)]  # planted: tokenizer


def batches(length: int, rows: int) -> Iterator[list[int]]:
    """A generator that prepares a batch only when it is asked for one."""
    number = 0
    while True:
        number += 1
        yield [(row * number * 2654435761) % length for row in range(rows)]  # planted: generator


class LockHolder:
    """A thread that holds a lock most of the time, as a logger or a metrics exporter does."""

    def __init__(self, hold_s: float) -> None:
        self.lock, self.hold_s = threading.Lock(), hold_s
        self.thread = threading.Thread(target=self._run, name="exporter", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        for _ in range(1_500):  # then the program is over
            with self.lock:
                time.sleep(self.hold_s)
            time.sleep(self.hold_s / 50)
