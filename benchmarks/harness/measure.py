"""One command measured: what to run in; seconds, memory and output out, or the reason why there are none.

Time and memory come from different runs, as looking at memory every few milliseconds slows a command down. The time is
the fastest of several runs: what is above it is the machine's other work.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Final

from harness import memory
from harness.memory import Memory

Env = tuple[tuple[str, str], ...]

_LOOK_S: Final = 0.01  # between two looks at memory
_WATCH_S: Final = 0.2  # between two looks at the clock and at the machine's memory, when only those are watched
_LEFT_SHARE: Final = 0.04  # a command that leaves the machine less than this is stopped, before the system stops others


@dataclass(frozen=True, slots=True)
class Command:
    """What to run. `first` runs once and is not measured; `before` is called before every run."""

    argv: tuple[str, ...]
    env: Env = ()
    keeps_output: bool = True
    is_timed_inside: bool = False
    """The last line of its output is JSON whose `seconds` count, not those of the whole process."""
    first: Callable[[], str | None] | None = None
    """Says why the command cannot be measured, or None."""
    before: Callable[[], None] | None = None
    helpers: tuple[int, ...] = ()
    """Sessions of processes that run already and work for it: their memory is looked at too, process by process."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How often, and for how long."""

    runs: int = 3
    limit_s: float = 1800.0
    enough_s: float = 180.0
    """After so many seconds of runs there is no further one."""
    looks_at_memory: bool = True


@dataclass(frozen=True, slots=True)
class Measured:
    """The fastest of `runs` runs; memory of one more."""

    wall_s: float
    cpu_s: float
    runs: int
    output: str
    memory: Memory | None
    main_bytes: int = 0  # what the process that was started had of its own at most, if memory was looked at
    other_bytes: int = 0  # and the largest of the others, helpers included


@dataclass(frozen=True, slots=True)
class Failed:
    """Why there is no measurement."""

    reason: str


def measured(command: Command, pace: Pace) -> Measured | Failed:
    """Run a command several times."""
    refused = command.first() if command.first else None
    if refused is not None:
        return Failed(refused)
    began = time.perf_counter()
    best: Measured | None = None
    for number in range(1, pace.runs + 1):
        run = once(command, pace.limit_s)
        if isinstance(run, Failed):
            return run
        fastest = run if best is None or run.wall_s < best.wall_s else best
        best = Measured(fastest.wall_s, fastest.cpu_s, number, run.output, None)
        if time.perf_counter() - began > pace.enough_s:
            break
    if best is None:
        return Failed("no run was asked for")
    if not (pace.looks_at_memory and memory.can_be_read()):
        return best
    watched = once(command, 4 * pace.limit_s, looks_at_memory=True)  # being watched takes its time
    seen = None if isinstance(watched, Failed) else watched.memory  # its times stand, also where this run was stopped
    return Measured(best.wall_s, best.cpu_s, best.runs, best.output, seen)


def once(command: Command, limit_s: float, *, looks_at_memory: bool = False) -> Measured | Failed:
    """One run, in a session of its own so that all its processes can be found, and ended."""
    if command.before:
        command.before()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        began = time.perf_counter()
        try:
            child = subprocess.Popen(
                command.argv,
                stdin=subprocess.DEVNULL,
                stdout=out if command.keeps_output else subprocess.DEVNULL,
                stderr=errors,
                env={**os.environ, **dict(command.env)},
                start_new_session=True,
            )
        except OSError as error:
            return Failed(f"{command.argv[0]}: {error.strerror}")
        watch = _Watch(child.pid, limit_s, looks_at_memory=looks_at_memory, helpers=command.helpers)
        watch.start()
        try:
            _, status, usage = os.wait4(child.pid, 0)
        except BaseException:
            _end(child.pid)
            child.wait()
            raise
        finally:
            wall_s = time.perf_counter() - began
            watch.finish()
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            return Failed(watch.verdict or f"exit {child.returncode}: {_last_line(errors)}")
        output = _text(out)
    if command.is_timed_inside:
        wall_s = float(json.loads(output.splitlines()[-1])["seconds"])
    # not ru_maxrss: it counts what this process had when it forked
    seen = watch.peak if watch.peak.resident_bytes else None  # nothing, if it was over before the first look
    main = watch.each.pop(child.pid, 0)
    cpu_s = usage.ru_utime + usage.ru_stime
    return Measured(wall_s, cpu_s, 1, output, seen, main, max(watch.each.values(), default=0))


class _Watch(threading.Thread):
    """Ends a command that takes too long or all memory; keeps the largest memory it saw, if asked."""

    def __init__(self, leader: int, limit_s: float, *, looks_at_memory: bool, helpers: tuple[int, ...]) -> None:
        super().__init__(name="watch", daemon=True)
        self.peak, self.verdict = Memory(), ""
        self.each: dict[int, int] = {}  # by process the most that it had of its own
        self._sessions = (leader, *helpers)
        self._leader, self._limit_s, self._looks = leader, limit_s, looks_at_memory
        self._done = threading.Event()

    def run(self) -> None:
        began = time.monotonic()
        while True:
            if self._looks:
                self.peak = self.peak.largest(memory.of_session(self._leader))
                for pid, seen in memory.of_each(self._sessions).items():
                    self.each[pid] = max(self.each.get(pid, 0), seen.own_bytes)
            if self._done.wait(_LOOK_S if self._looks else _WATCH_S):
                return
            if time.monotonic() - began > self._limit_s:
                self.verdict = f"stopped after {self._limit_s:.0f} s"
            elif memory.available_share() < _LEFT_SHARE:
                self.verdict = "stopped: it had taken the machine's memory"
            if self.verdict:
                _end(self._leader)
                return

    def finish(self) -> None:
        self._done.set()
        self.join()


def _end(leader: int) -> None:
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        return  # it ended by itself meanwhile


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def _last_line(file: IO[bytes]) -> str:
    lines = [line for line in _text(file).splitlines() if line.strip()]
    return lines[-1].strip()[:160] if lines else "nothing on stderr"
