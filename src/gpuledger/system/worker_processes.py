"""Many items worked on at once by processes of this machine: a task and items in, results out in the items' order.

Each worker has a pipe of its own and holds one item at a time. So a result leaves its worker when it is made; a worker
that dies takes nothing with it but the item it held, which is known; and its end is seen, because its pipe closes. The
item goes to another worker, `ATTEMPTS` times in all. (A `ProcessPoolExecutor` shares one pipe: when a worker dies, all
items that are under way fail, nobody knows through which of them, and a result that was half written is waited for
without end.) A worker that takes more memory than its share is ended, which the kernel would else do to anybody.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from multiprocessing import connection, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Final, Generic, TypeVar

from msgspec import Struct, field

from gpuledger.errors import ToolFailed
from gpuledger.system.files import reason_of
from gpuledger.system.interruption import held_interrupts
from gpuledger.system.resources import resident_bytes

Item = TypeVar("Item")
Result = TypeVar("Result")

ATTEMPTS: Final = 4  # so many workers may die over an item before it is given up
_FAILED_STARTS: Final = 4
"""So many workers may die before they ask for their first item, if nobody else gets anything done meanwhile."""
_LOOK_EVERY_S: Final = 0.1
_GRACE_S: Final = 2.0
"""What a worker that is asked to end has for what it started itself, a tool or a temporary file."""
_ONE_THREAD: Final = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
"""There is a worker for every core: numpy must not start as many threads in each."""


class _Worker(Struct):
    """A process, and which item it holds: None before it asks for the first, and when there is no more."""

    process: SpawnProcess
    pipe: Connection
    item: int | None = None
    has_started: bool = False


class _Refused(Struct, frozen=True):
    """What a worker sends in place of a result when the task raised."""

    reason: str


class _Crew(Struct, Generic[Item, Result]):
    """The workers, and what is still to do."""

    task: Callable[[Item], Result]
    items: Sequence[Item]
    lost: Callable[[Item, str], Result]
    waiting: deque[int]  # numbers of the items that nobody holds
    results: dict[int, Result] = field(default_factory=dict)
    deaths: Counter[int] = field(default_factory=Counter)
    failed_starts: int = 0
    workers: list[_Worker] = field(default_factory=list)

    def hire(self, count: int) -> None:
        """Start workers until there are `count` of them, or one for each item that has no result yet."""
        while len(self.workers) < min(count, len(self.items) - len(self.results)):
            # multiprocessing would start it when it is first needed, and let Ctrl-C through again for that
            resource_tracker.ensure_running()
            with held_interrupts():
                self.workers.append(_start(self.task))

    def listen(self) -> None:
        handles: list[Connection | int] = [worker.pipe for worker in self.workers]
        handles += [worker.process.sentinel for worker in self.workers]
        speaking = connection.wait(handles, timeout=_LOOK_EVERY_S)
        for worker in list(self.workers):
            if worker.pipe in speaking or worker.process.sentinel in speaking:
                self._hear(worker)

    def _hear(self, worker: _Worker) -> None:
        try:
            if not worker.pipe.poll():
                raise EOFError  # it has ended, and said nothing more
            message = worker.pipe.recv()
        except (EOFError, OSError):  # it died, perhaps in the middle of a word
            self._bury(worker)
            return
        self.failed_starts = 0
        if worker.item is None:
            worker.has_started = True
        elif isinstance(message, _Refused):
            self.results[worker.item] = self.lost(self.items[worker.item], message.reason)
        else:
            self.results[worker.item] = message
        self._hand_on(worker)

    def _hand_on(self, worker: _Worker) -> None:
        worker.item = self.waiting.popleft() if self.waiting else None
        if worker.item is not None:
            try:
                worker.pipe.send(self.items[worker.item])
            except OSError:
                self._bury(worker)

    def _bury(self, worker: _Worker) -> None:
        """A worker is dead: its item is for another one, unless it has killed too many."""
        self.workers.remove(worker)
        _end([worker.process], [worker.pipe])
        if worker.item is not None:
            self.deaths[worker.item] += 1
            if self.deaths[worker.item] < ATTEMPTS:
                self.waiting.append(worker.item)
            else:
                sentence = f"{ATTEMPTS} workers died over it, most likely for want of memory"
                self.results[worker.item] = self.lost(self.items[worker.item], sentence)
        elif not worker.has_started:
            self.failed_starts += 1
            if self.failed_starts == _FAILED_STARTS:
                raise ToolFailed(
                    "worker processes do not start",
                    found=f"{_FAILED_STARTS} in a row died at once, the last with exit code {worker.process.exitcode}",
                    hint="`--workers=0` does without",
                )

    def wake(self) -> None:
        """Give what a dead worker held to those that had run out of items."""
        for worker in list(self.workers):
            if self.waiting and worker.has_started and worker.item is None:
                self._hand_on(worker)


def spread(
    task: Callable[[Item], Result],
    items: Sequence[Item],
    *,
    count: int,
    memory_bytes: int,
    lost: Callable[[Item, str], Result],
    tell: Callable[[int], None] = lambda _: None,
) -> list[Result]:
    """What `task` gives for each item, by up to `count` processes that take up to `memory_bytes` each.

    `lost` makes the result of an item that no worker could finish, from the reason in words; `tell` is told how many
    results there are. The task is sent to the workers by name, as `pickle` does.
    """
    if items and not are_allowed():
        raise ToolFailed("this process is a daemon, which may not start others", hint="`--workers=0` does without")
    crew = _Crew(task, items, lost, deque(range(len(items))))
    try:
        while len(crew.results) < len(items):
            crew.hire(count)
            crew.listen()
            crew.wake()
            for worker in crew.workers:
                if worker.process.pid and (resident_bytes(worker.process.pid) or 0) > memory_bytes:
                    worker.process.kill()
            tell(len(crew.results))
    finally:
        with held_interrupts():
            _end([worker.process for worker in crew.workers], [worker.pipe for worker in crew.workers])
    return [crew.results[number] for number in range(len(items))]


def are_allowed() -> bool:
    """Whether this process may start workers: one that is itself a daemon of `multiprocessing` may not."""
    return not multiprocessing.current_process().daemon


def _end(processes: Sequence[SpawnProcess], pipes: Sequence[Connection]) -> None:
    """End workers: asked first, then killed. Waits for none that even that does not end."""
    for pipe in pipes:
        pipe.close()
    for stop in (SpawnProcess.terminate, SpawnProcess.kill):
        for process in processes:
            if process.is_alive():
                stop(process)
        until = time.monotonic() + _GRACE_S
        for process in processes:
            process.join(max(until - time.monotonic(), 0))


def _start(task: Callable[[Item], Result]) -> _Worker:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    # a daemon starts no processes to read with: there is a worker for every core
    process = context.Process(target=_serve, args=(task, theirs), name="gpuledger worker", daemon=True)
    before = {name: os.environ.get(name) for name in _ONE_THREAD}
    os.environ.update(_ONE_THREAD)  # what is started inherits it
    try:
        process.start()
    except OSError as error:
        ours.close()
        raise ToolFailed(f"a worker process does not start: {reason_of(error)}") from None
    finally:
        theirs.close()
        for name, value in before.items():
            del os.environ[name]
            if value is not None:
                os.environ[name] = value
    return _Worker(process, ours)


def _serve(task: Callable[[Item], Result], pipe: Connection) -> None:
    """A worker's life: ask, work, send, until the pipe is closed on the other side."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # as an exception, it also ends what the task has started
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):  # whoever wanted the results has gone
        pipe.send(None)
        while True:
            item = pipe.recv()
            result: Result | _Refused
            try:
                result = task(item)
            except Exception as error:  # it is for whoever asked for the result to say so
                reason = f"no worker could take it: {type(error).__name__}: {error}"
                result = _Refused(" ".join(reason.split()))
            pipe.send(result)
    # nothing is left to end; an exception would be told, and so would a signal that is here while SIG_DFL is set
    signal.signal(signal.SIGTERM, lambda *_: None)
