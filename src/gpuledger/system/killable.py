"""Work that can be ended whatever it does: it runs in a process of its own, which is killed at its deadline.

`in_child` is for one answer from what is in memory here: a copy of this process, which shares its memory, works it out.
`KillableWorker` is for a server: a process that keeps what it has read from call to call. A call that takes too long,
or is taken back, is interrupted; where compiled code does not hear that, the process is killed and the next call gets a
new one. Both end with whoever started them.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import multiprocessing
import os
import signal
import time
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, Final, TypeVar

from gpuledger.records import dataclass
from gpuledger.system.resources import bound_address_space

Result = TypeVar("Result")

_KILLED_WITH_PARENT: Final = 1  # PR_SET_PDEATHSIG of Linux's prctl.h
_LOOK_EVERY_S: Final = 0.05
_GRACE_S: Final = 0.5
"""What a call that is interrupted has to notice it."""


class Overdue(Exception):
    """The time was over, and the work was ended."""


class Died(Exception):
    """The process ended without an answer: killed, most likely for want of memory."""


def end_with_parent() -> None:
    """Have this process killed when the one that started it ends, where the system can (Linux)."""
    set_option = getattr(ctypes.CDLL(None), "prctl", None)
    if set_option is not None:
        set_option(_KILLED_WITH_PARENT, signal.SIGKILL)


def in_child(task: Callable[[], Result], *, seconds: float, more_bytes: int) -> Result:
    """What `task` gives, or the exception that it raises, from a copy of this process that is killed after `seconds`.

    The copy takes no more than so many bytes of address space beside those it begins with.
    """
    ours, theirs = multiprocessing.Pipe(duplex=False)
    # a signal's exception in the copy would go through whoever called us, a second time
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGALRM})
    with warnings.catch_warnings():
        # other threads do not exist in the copy, which uses nothing of theirs
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        _work_and_exit(task, theirs, more_bytes)
    try:
        theirs.close()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if not ours.poll(max(seconds, 0)):
            raise Overdue
        result, error = ours.recv()
    except EOFError:
        raise Died from None
    finally:  # also at Ctrl-C
        ours.close()
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    if error is not None:
        raise error
    value: Result = result
    return value


def _work_and_exit(task: Callable[[], Any], pipe: Connection, more_bytes: int) -> None:
    """The life of the copy. Nothing of what it was copied from is cleaned up here: it is in use there."""
    try:
        end_with_parent()
        gc.disable()
        bound_address_space(more_bytes)
        try:
            pipe.send((task(), None))
        except Exception as error:
            pipe.send((None, error))
    finally:
        os._exit(0)


@dataclass(frozen=True, slots=True)
class _CallAnswer:
    value: Any
    state: Any


class KillableWorker:
    """A process that answers calls one after the other, and is replaced when it had to be killed.

    `prepare(state)` is called in it, by name as `pickle` does, and gives the function that answers: a call and how to
    tell something meanwhile in, the answer and the state that the next process begins with out.
    """

    def __init__(self, prepare: Callable[[Any], Callable[..., tuple[Any, Any]]]) -> None:
        self._context: Final = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([prepare.__module__])
        self._prepare: Final = prepare
        self._process: BaseProcess | None = None
        self._pipe: Connection | None = None
        self._state: Any = None

    def start(self, state: Any) -> None:
        """Begin, with a state to begin with; a call that is made meanwhile waits."""
        self._state = state
        self._running()

    def ask(self, call: Any, *, seconds: float, tell: Callable[[str, int], None]) -> Any:
        """The answer. `tell` is told what the worker says meanwhile, else ("", 0) many times a second.

        An exception of it ends the call, and is raised then.
        """
        pipe = self._running()
        over_s = time.monotonic() + seconds
        try:
            pipe.send(call)
            while time.monotonic() < over_s:
                said = pipe.recv() if pipe.poll(_LOOK_EVERY_S) else ("", 0)
                if isinstance(said, _CallAnswer):
                    return self._value(said)
                try:
                    tell(*said)
                except BaseException:
                    with contextlib.suppress(Overdue, EOFError, OSError):
                        self._interrupt(pipe)
                    raise
            return self._interrupt(pipe)
        except (EOFError, OSError):
            self.end()
            raise Died from None

    def _interrupt(self, pipe: Connection) -> Any:
        """The answer that it still gives; a worker that gives none is killed."""
        if self._process is not None and self._process.pid is not None:
            os.kill(self._process.pid, signal.SIGINT)
        over_s = time.monotonic() + _GRACE_S
        while time.monotonic() < over_s:
            if pipe.poll(_LOOK_EVERY_S) and isinstance(said := pipe.recv(), _CallAnswer):
                return self._value(said)
        self.end()
        raise Overdue

    def _value(self, answer: _CallAnswer) -> Any:
        self._state = answer.state
        if answer.value is None:
            raise Overdue
        return answer.value

    def end(self) -> None:
        """Kill the process."""
        if self._process is not None and self._pipe is not None:
            self._process.kill()
            self._process.join()
            self._pipe.close()
            self._process = self._pipe = None

    def _running(self) -> Connection:
        if self._pipe is None or self._process is None or not self._process.is_alive():
            self.end()
            ours, theirs = self._context.Pipe()
            self._process = self._context.Process(
                target=_answer_calls, args=(theirs, self._prepare, self._state), name="gpuledger calls", daemon=True
            )
            self._process.start()
            theirs.close()
            self._pipe = ours
        return self._pipe


def _answer_calls(pipe: Connection, prepare: Callable[[Any], Any], state: Any) -> None:
    """The worker's life. An interrupt ends the call that is worked on, and is nothing between calls."""
    end_with_parent()
    is_busy = False

    def interrupted(*_: object) -> None:
        if is_busy:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupted)
    answer = prepare(state)
    while True:
        try:
            call = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            is_busy = True
            value, state = answer(call, lambda *said: pipe.send(said))
            is_busy = False
        except KeyboardInterrupt:
            is_busy, value = False, None
        try:
            pipe.send(_CallAnswer(value, state))
        except OSError:  # whoever asked has gone
            return
