"""What takes long ends when its time is over or Ctrl-C came: compiled passes too, after a few million rows."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

from gpuledger.replay.passes import is_compiled
from gpuledger.trace import sweep
from gpuledger.trace.deadline import check, until

ROWS = 6_000_000
compiled = pytest.mark.skipif(not (sweep.is_there() and is_compiled()), reason="the passes were not compiled")


class TooLateError(Exception):
    pass


def test_a_deadline_holds_while_it_is_set_and_the_sooner_one_of_two() -> None:
    check()
    with until(time.monotonic() - 1, TooLateError):
        with pytest.raises(TooLateError), until(time.monotonic() + 60, ValueError):
            check()
        with pytest.raises(TooLateError):
            check()
    check()


def test_another_thread_has_its_own() -> None:
    raised: list[Exception] = []

    def elsewhere() -> None:
        try:
            check()
        except TooLateError as error:
            raised.append(error)

    with until(0.0, TooLateError):
        other = threading.Thread(target=elsewhere)
        other.start()
        other.join()
    assert not raised


@compiled
@pytest.mark.parametrize("name", ["union", "search", "fold", "shares", "distinct", "numbered_texts"])
def test_a_compiled_pass_ends_at_the_deadline(name: str) -> None:
    """A pass over texts of one hash was not heard of for half a minute."""
    column = np.arange(ROWS)
    passes: dict[str, Callable[[], object]] = {
        "union": lambda: sweep.union(column, column),
        "search": lambda: sweep.search(column, column),
        "fold": lambda: sweep.fold("sum", column, column, np.zeros(ROWS, np.int64)),
        "shares": lambda: sweep.shares(column, column),
        "distinct": lambda: sweep.distinct(np.zeros(ROWS, np.int64)),
        "numbered_texts": lambda: sweep.numbered_texts(b"", np.zeros(ROWS, np.int64)),
    }
    passes[name]()
    with until(time.monotonic() - 1, TooLateError), pytest.raises(TooLateError):
        passes[name]()


@compiled
def test_a_compiled_pass_hears_ctrl_c() -> None:
    heard: list[int] = []

    def interrupted(number: int, _: object) -> None:
        heard.append(number)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, interrupted)
    column = np.arange(1 << 25)

    def passes() -> None:
        threading.Timer(0.005, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        sweep.search(column, column)
        sweep.search(column, column)

    try:
        begun = time.process_time()
        with pytest.raises(KeyboardInterrupt):
            passes()
        assert heard
        assert time.process_time() - begun < 5
    finally:
        signal.signal(signal.SIGUSR1, before)
