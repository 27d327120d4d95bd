"""Ctrl-C and its like while a capture runs: signals are counted instead of ending us, and nothing is left half done.

SIGINT, SIGTERM and SIGHUP are treated alike. Whoever waits looks at `count`; at the end the old handling comes back.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Final, Self

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interruption:
    """While it is entered, signals that would end us are only counted."""

    def __init__(self) -> None:
        self.count = 0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # Python allows it nowhere else
            for each in SIGNALS:
                if each is signal.SIGHUP and signal.getsignal(each) is signal.SIG_IGN:
                    continue  # nohup asked for that
                self._before[each] = signal.signal(each, self._counted)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each, handler in self._before.items():
            signal.signal(each, handler)
        self._before.clear()

    def _counted(self, _: int, __: FrameType | None) -> None:
        self.count += 1

    def __bool__(self) -> bool:
        """Whether somebody asked us to end."""
        return self.count > 0
