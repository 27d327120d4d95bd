"""Ends a program that no longer moves: what it begins in, one sentence and exit code 1 out where that does not end.

A thread watches. It needs Python's lock for a moment, so it sees a host that sleeps or waits for a device (torch lets
go of the lock there), but not native code that keeps the lock for ever.
"""

from __future__ import annotations

import os
import sys
import threading
from functools import partial

from gpuledger_workloads.common.program import say


class Watchdog:
    """Inside its block, something must `begin` every `patience_s` seconds."""

    def __init__(self, patience_s: float, what: str) -> None:
        self._patience_s, self._what = patience_s, what
        self._begun, self._over = 0, False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._watch, name="stall", daemon=True)

    def __enter__(self) -> Watchdog:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._over = True
            self._changed.notify()
        self._thread.join()

    def begin(self, what: str) -> None:
        """All before is done; `what` comes now."""
        with self._changed:
            self._what, self._begun = what, self._begun + 1
            self._changed.notify()

    def _watch(self) -> None:
        with self._changed:
            while not self._over:
                if not self._changed.wait_for(partial(self._moved, self._begun), self._patience_s):
                    self._give_up()

    def _moved(self, since: int) -> bool:
        return self._over or self._begun != since

    def _give_up(self) -> None:
        say(
            f"error: stalled: {self._what} did not end within {self._patience_s:g} s\n\n"
            "hint: nvidia-smi shows whether the GPU is busy; a larger --stall-timeout waits longer"
        )
        sys.stdout.flush()
        # The main thread may wait in the driver for a device that never answers. No exception reaches it there, and an
        # ordinary exit would wait for it, or for the device in a destructor. So the process ends without a farewell.
        os._exit(1)
