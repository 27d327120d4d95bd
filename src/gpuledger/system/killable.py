"""Work that can be ended whatever it does: it runs in a process of its own, which is killed at its deadline.

`in_child` is for one answer from what is in memory here: a copy of this process, which shares its memory, works it out.
`KillableWorker` is for a server: a process that keeps what it has read from call to call. A call that takes too long,
or is taken back, is interrupted; where compiled code does not hear that, the process is killed and a copy of it, from
before the call, takes the next one. Both end with whoever started them.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import io
import multiprocessing
import os
import pickle
import signal
import time
import warnings
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import recv_handle, send_handle
from typing import Any, Final, TypeVar

from msgspec import Struct

from gpuledger.system.resources import bound_address_space

Result = TypeVar("Result")

_KILLED_WITH_PARENT: Final = 1  # PR_SET_PDEATHSIG of Linux's prctl.h
_ADOPTS_ORPHANS: Final = 36  # PR_SET_CHILD_SUBREAPER
_LOOK_EVERY_S: Final = 0.05
_GRACE_S: Final = 0.5
"""What a call that is interrupted has to notice it."""


class Overdue(Exception):
    """The time was over, and the work was ended."""


class Died(Exception):
    """The process ended without an answer: killed, most likely for want of memory."""


def end_with_parent() -> None:
    """Have this process killed when the one that started it ends, where the system can (Linux)."""
    _set_option(_KILLED_WITH_PARENT, signal.SIGKILL)


def _set_option(option: int, value: int) -> None:
    set_option = getattr(ctypes.CDLL(None), "prctl", None)
    if set_option is not None:
        set_option(option, value)


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
        result, error = pickle.load(io.BufferedReader(_PipeUntil(ours, time.monotonic() + seconds)))  # noqa: S301
    except (EOFError, pickle.UnpicklingError):
        raise Died from None
    finally:  # also at Ctrl-C
        ours.close()
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    if error is not None:
        raise error
    value: Result = result
    return value


class _PipeUntil(io.RawIOBase):
    """What comes through a pipe until the deadline: a large answer takes long to arrive and to unpickle, too."""

    def __init__(self, pipe: Connection, deadline_s: float) -> None:
        self._pipe, self._deadline_s = pipe, deadline_s

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left_s = self._deadline_s - time.monotonic()
        if left_s < 0 or not self._pipe.poll(left_s):
            raise Overdue
        return os.readv(self._pipe.fileno(), [buffer])


def _work_and_exit(task: Callable[[], Any], pipe: Connection, more_bytes: int) -> None:
    """The life of the copy. Nothing of what it was copied from is cleaned up here: it is in use there."""
    try:
        end_with_parent()
        gc.disable()
        bound_address_space(more_bytes)
        try:
            answer: tuple[Any, Exception | None] = task(), None
        except Exception as error:
            answer = None, error
        with os.fdopen(pipe.fileno(), "wb", closefd=False) as file:
            pickle.dump(answer, file, pickle.HIGHEST_PROTOCOL)
    finally:
        os._exit(0)


class _CallAnswer(Struct, frozen=True):
    value: Any
    state: bytes


class _Standing(Struct, frozen=True):
    """The processes that there are now, by their numbers."""

    worker: int | None = None
    spare: int | None = None


class KillableWorker:
    """A process that answers calls one after the other, and is replaced when it had to be killed.

    `prepare(state)` is called in it, by name as `pickle` does, and gives the function that answers: a call and how to
    tell something meanwhile in, the answer and the state that the next process begins with out.

    When a call has changed the state, the worker leaves a copy of itself, which shares its memory and takes over when
    the worker is killed: what was read is not read again. Without a copy, a new process begins with the state.
    """

    def __init__(self, prepare: Callable[[Any], Callable[..., tuple[Any, Any]]]) -> None:
        self._context: Final = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([prepare.__module__])
        self._prepare: Final = prepare
        self._process: BaseProcess | None = None
        self._pipes: tuple[Connection, ...] = ()  # to the worker, and to its spare
        self._standing = _Standing()
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
                said = self._heard(pipe, _LOOK_EVERY_S)
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
            self._replace()
            raise Died from None

    def _heard(self, pipe: Connection, seconds: float) -> Any:
        """What the worker says within these seconds: an answer, else what is to be told."""
        said = pipe.recv() if pipe.poll(seconds) else ("", 0)
        if isinstance(said, _Standing):
            self._standing, said = said, ("", 0)
        return said

    def _interrupt(self, pipe: Connection) -> Any:
        """The answer that it still gives; a worker that gives none is killed."""
        if self._standing.worker is not None:
            os.kill(self._standing.worker, signal.SIGINT)
        over_s = time.monotonic() + _GRACE_S
        while time.monotonic() < over_s:
            if isinstance(said := self._heard(pipe, _LOOK_EVERY_S), _CallAnswer):
                return self._value(said)
        self._replace()
        raise Overdue

    def _value(self, answer: _CallAnswer) -> Any:
        self._state = pickle.loads(answer.state)  # noqa: S301 - of our own process
        if answer.value is None:
            raise Overdue
        return answer.value

    def _replace(self) -> None:
        """Kill the worker, and have its spare take over."""
        worker, spare = self._standing.worker, self._standing.spare
        if worker is None or spare is None:
            self.end()
            return
        ours, theirs = self._context.Pipe()
        try:
            with contextlib.suppress(ProcessLookupError):  # it has died already
                os.kill(worker, signal.SIGKILL)
            send_handle(self._pipes[1], theirs.fileno(), spare)
        except OSError:  # so has the spare
            ours.close()
            self.end()
            return
        finally:
            theirs.close()
        self._pipes[0].close()
        self._pipes, self._standing = (self._pipes[1], ours), _Standing(spare)

    def end(self) -> None:
        """Kill the worker and its spare."""
        if self._process is not None:
            self._process.kill()  # which the worker does not outlive, nor a spare its pipe
            self._process.join()
        for pipe in self._pipes:
            pipe.close()
        self._process, self._pipes, self._standing = None, (), _Standing()

    def _running(self) -> Connection:
        """The pipe to a worker that lives, as far as one can see."""
        try:
            while self._pipes and self._pipes[0].poll():
                self._heard(self._pipes[0], 0)
        except (EOFError, OSError):
            self._replace()
        if self._process is None or not self._process.is_alive():
            self.end()
            pipes = [self._context.Pipe() for _ in range(2)]
            theirs = [pipe for _, pipe in pipes]
            self._process = self._context.Process(
                target=_keep_workers, args=(*theirs, self._prepare, self._state), name="gpuledger calls", daemon=True
            )
            self._process.start()
            for pipe in theirs:
                pipe.close()
            self._pipes = tuple(pipe for pipe, _ in pipes)
        return self._pipes[0]


def _keep_workers(pipe: Connection, spare_pipe: Connection, prepare: Callable[[Any], Any], state: Any) -> None:
    """Start the worker. A spare that is left by it becomes ours, and ends with us."""
    end_with_parent()
    _set_option(_ADOPTS_ORPHANS, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if not os.fork():
        try:
            _answer_calls(pipe, spare_pipe, prepare, state)
        finally:
            os._exit(0)
    pipe.close()
    spare_pipe.close()
    with contextlib.suppress(ChildProcessError):  # all have ended
        while True:
            os.wait()


def _answer_calls(pipe: Connection, spare_pipe: Connection, prepare: Callable[[Any], Any], state: Any) -> None:
    """The worker's life. An interrupt ends the call that is worked on, and is nothing between calls."""
    end_with_parent()
    is_busy = False

    def interrupted(*_: object) -> None:
        if is_busy:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupted)
    answer = prepare(state)
    pipe.send(_Standing(os.getpid()))
    written, spare = b"", None
    while True:
        try:
            call = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            is_busy = True
            value, state = answer(call, partial(_tell, pipe))
            is_busy = False
        except KeyboardInterrupt:
            is_busy, value = False, None
        before, written = written, pickle.dumps(state)
        try:
            if written != before:
                kept, (pipe, spare_pipe, spare) = pipe, _copied(pipe, spare_pipe, spare)
                pipe.send(_Standing(os.getpid(), spare))
                if pipe is not kept:  # this is the spare, and that was a call of the worker's
                    continue
            pipe.send(_CallAnswer(value, written))
        except OSError:  # whoever asked has gone
            return


def _tell(pipe: Connection, *said: Any) -> None:
    pipe.send(said)


def _copied(pipe: Connection, spare_pipe: Connection, spare: int | None) -> tuple[Connection, Connection, int]:
    """Leave a copy of this process in place of the spare. In the copy it returns when that has taken over."""
    worker = os.getpid()
    if spare is not None:
        os.kill(spare, signal.SIGKILL)
        os.waitpid(spare, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads that have ended
        spare = os.fork()
    if spare:
        return pipe, spare_pipe, spare
    pipe.close()
    try:
        handle = recv_handle(spare_pipe)
    except (EOFError, OSError, RuntimeError):  # nobody needs us any more
        os._exit(0)
    while os.getppid() == worker:  # it was killed, and is about to end
        time.sleep(_LOOK_EVERY_S / 50)
    end_with_parent()
    return _copied(spare_pipe, Connection(handle), None)
