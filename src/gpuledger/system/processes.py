"""The only module that starts processes. An argument list in, what the program said out; never a shell.

`run` is for short questions, `run_attended` for the user's own program: when somebody interrupts us it is asked to end,
then told, then made. `run_logged` is for steps that nobody watches, `fetch_output` for a program whose output is a
file. Whatever a program leaves running is found by a mark in its environment, and ended.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Final, Self

from msgspec import Struct

from gpuledger.errors import ToolFailed
from gpuledger.system.files import Abandoned, whole_file
from gpuledger.system.interruption import Interruption, interruptible_children

MARK: Final = "GPULEDGER_CAPTURE"  # the variable that everything carries which a capture started

_LOOK_EVERY_S: Final = 0.05
_LOOK_FOR_LEFTOVERS_EVERY_S: Final = 0.02
_KEPT_BYTES: Final = 64 * 1024


def marked_processes(mark: str, proc: Path = Path("/proc")) -> tuple[int, ...]:
    """The processes whose environment carries this mark, but for ourselves."""
    wanted = f"{MARK}={mark}".encode()
    return tuple(pid for pid in _others(proc) if wanted in _file(proc, pid, "environ").split(b"\0"))


def group_members(group: int, proc: Path = Path("/proc")) -> tuple[int, ...]:
    """The processes of a group that still run: one that has ended stays in it until its parent asks, if ever."""

    def is_running_member(pid: int) -> bool:
        words = _file(proc, pid, "stat").rpartition(b")")[2].split()  # behind the name: state, parent, group
        return len(words) > 2 and int(words[2]) == group and words[0] not in (b"Z", b"X")

    return tuple(pid for pid in _others(proc) if is_running_member(pid))


class ProcessTree:
    """The processes of a program that runs: they descend from its first, or carry its mark."""

    def __init__(self, first: int, mark: str, proc: Path = Path("/proc")) -> None:
        self._mark, self._proc = f"{MARK}={mark}".encode(), proc
        self._is_member = {first: True}

    def scan(self) -> tuple[int, ...]:
        """Those that run now."""
        pids = sorted(_others(self._proc))
        self._is_member = {pid: self._is_member[pid] for pid in pids if pid in self._is_member}
        for pid in pids:
            if pid not in self._is_member:
                words = _file(self._proc, pid, "stat").rpartition(b")")[2].split()  # behind the name: state, parent
                is_child = len(words) > 1 and self._is_member.get(int(words[1]), False)
                marks = () if is_child else _file(self._proc, pid, "environ").split(b"\0")
                self._is_member[pid] = is_child or self._mark in marks
        return tuple(pid for pid, is_member in self._is_member.items() if is_member)


def _others(proc: Path) -> list[int]:
    pids = [int(name) for name in os.listdir(proc) if name.isdecimal()] if proc.is_dir() else []
    return [pid for pid in pids if pid != os.getpid()]


def _file(proc: Path, pid: int, name: str) -> bytes:
    try:
        return (proc / str(pid) / name).read_bytes()
    except OSError:  # it ended meanwhile, or belongs to somebody else
        return b""


def send(group: int, mark: str, which: signal.Signals) -> None:
    """Send a signal to a process group, and to what carries the mark outside of it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, which)
    for pid in marked_processes(mark):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.getpgid(pid) != group:
                os.kill(pid, which)


def end_leftovers(group: int, mark: str, *, patience_s: float) -> bool:
    """End whatever is left: asked first, then killed. Whether anything had to be."""
    if not _left(group, mark):
        return False
    for which in (signal.SIGTERM, signal.SIGKILL):
        send(group, mark, which)
        until = time.monotonic() + patience_s
        while _left(group, mark) and time.monotonic() < until:
            time.sleep(_LOOK_FOR_LEFTOVERS_EVERY_S)
    return True


def _left(group: int, mark: str) -> bool:
    if Path("/proc").is_dir():
        return bool(group_members(group) or marked_processes(mark))
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def last_line(text: str, otherwise: str = "nothing") -> str:
    """The last line that says anything."""
    lines = [line.strip() for line in text.replace("\r", "\n").splitlines() if line.strip()]
    return lines[-1] if lines else otherwise


class Ran(Struct, frozen=True):
    """A program that ran to its end."""

    exit_code: int
    output: str  # standard output and standard error, in the order they came

    @property
    def last_line(self) -> str:
        return last_line(self.output, "it said nothing")


def run(argv: Sequence[str | Path], *, seconds: float) -> Ran:
    """Run a program to its end, its input closed."""
    name = Path(argv[0]).name
    try:
        done = subprocess.run(
            [str(word) for word in argv],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ToolFailed(f"{name} did not end within {seconds:g} s and was stopped") from None
    except OSError as error:
        raise ToolFailed(f"{name} could not be started: {error.strerror or error}") from None
    return Ran(done.returncode, done.stdout.decode(errors="replace"))


class Patience(Struct, frozen=True):
    """How long a program may take to end after each way of asking it, in seconds."""

    asked: float = 300.0
    """After SIGINT: a profiler writes its report then, which takes minutes for a long recording."""
    told: float = 10.0  # after SIGTERM
    made: float = 10.0  # after SIGKILL: a process inside a driver call ends only when that returns


class AttendedRun(Struct, frozen=True):
    """A program that was attended to its end."""

    exit_code: int
    said: str  # the last 64 KiB of its standard error, or of all that it wrote where that was not passed on
    seconds: float
    interrupted: bool
    orphans: bool
    """Whether processes that it had started were still there when it ended, and had to be ended too."""


Signaller = Callable[[signal.Signals], None]
"""Sends a signal to where the program really is, if that is another machine."""


def run_attended(
    argv: Sequence[str | Path],
    interruption: Interruption,
    *,
    environment: Mapping[str, str] | None = None,
    patience: Patience | None = None,
    quiet: bool = False,
    signaller: Signaller | None = None,
    on_start: Callable[[int, str], None] = lambda *_: None,
    on_stage: Callable[[str], None] = lambda _: None,
) -> AttendedRun:
    """Run a program in a session of its own until it ends, and end all that it started; see `Patience` for signals.

    Input, output and errors are ours, unless it is to be `quiet`; of the errors a copy of the end is kept. `on_start`
    gets the process id and the mark, `on_stage` the signal's name at each step towards the end.
    """
    patience, mark = patience or Patience(), _new_mark()
    began = time.monotonic()
    with _Guard() as guard:
        process = _start(argv, dict(os.environ) | dict(environment or {}) | {MARK: mark}, quiet=quiet)
        guard.watch(process.pid)
        output_tail = _OutputTail(process.stdout if quiet else process.stderr, pass_on=not quiet)
        try:
            on_start(process.pid, mark)
            interrupted = _wait(process, interruption, patience, mark, on_stage, signaller)
        except BaseException:
            send(process.pid, mark, signal.SIGKILL)  # whatever went wrong with us, it must not run on
            process.wait()
            output_tail.text(patience.made)
            raise
        orphans = end_leftovers(process.pid, mark, patience_s=1.0 if interrupted else min(patience.told, 5.0))
    said, seconds = output_tail.text(patience.made), time.monotonic() - began
    return AttendedRun(_exit_code(process), said, seconds, interrupted, orphans)


def _new_mark() -> str:
    return f"{os.getpid()}-{secrets.token_hex(8)}"


def _exit_code(process: subprocess.Popen[bytes]) -> int:
    """As a shell gives it: 128 and the signal's number where one ended it."""
    code = process.returncode if process.returncode is not None else -signal.SIGKILL
    return 128 - code if code < 0 else code


def _wait(
    process: subprocess.Popen[bytes],
    interruption: Interruption,
    patience: Patience,
    mark: str,
    on_stage: Callable[[str], None],
    signaller: Signaller | None = None,
    until: float = float("inf"),
) -> bool:
    """Wait until it has ended; see to it that it does once we are interrupted, or at `until`. Whether we were."""
    seen = 0  # who interrupted us before it began wants it to end, too
    stages = [(signal.SIGINT, patience.asked), (signal.SIGTERM, patience.told), (signal.SIGKILL, patience.made)]
    while process.poll() is None:
        if interruption.count > seen or time.monotonic() > until:
            seen = interruption.count
            if not stages:
                break  # even SIGKILL has not ended it: it hangs inside the kernel
            which, seconds = stages.pop(0)
            until = time.monotonic() + seconds
            on_stage(which.name)
            _signal(process.pid, mark, which, signaller)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_LOOK_EVERY_S)
    return bool(interruption)


def fetch_output(argv: Sequence[str], target: Path, interruption: Interruption) -> int:
    """Run a program whose standard output is the content of `target`, which appears only when it is whole. Its code."""
    with contextlib.suppress(Abandoned), whole_file(target) as file:
        process = _start(argv, dict(os.environ), quiet=False, output=file)
        errors = _OutputTail(process.stderr, pass_on=False)
        while process.poll() is None:
            if interruption:
                process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_LOOK_EVERY_S)
        errors.text(5.0)
        if process.returncode != 0:
            raise Abandoned
    return process.returncode


def _start(
    argv: Sequence[str | Path],
    environment: dict[str, str],
    *,
    quiet: bool,
    output: IO[bytes] | None = None,
    joined: bool = False,
) -> subprocess.Popen[bytes]:
    try:
        with interruptible_children():
            return subprocess.Popen(
                [str(word) for word in argv],
                stdin=subprocess.DEVNULL if quiet or output else None,
                stdout=subprocess.PIPE if quiet else output,
                stderr=subprocess.STDOUT if quiet or joined else subprocess.PIPE,
                env=environment,
                start_new_session=True,  # Ctrl-C reaches only us, and we decide who is told in which order
            )
    except OSError as error:
        raise ToolFailed(
            f"{Path(argv[0]).name} could not be started: {(error.strerror or str(error)).lower()}"
        ) from None


def _signal(group: int, mark: str, which: signal.Signals, signaller: Signaller | None) -> None:
    if signaller is not None:
        with contextlib.suppress(ToolFailed):  # the other side cannot be reached now; the next signal may be
            signaller(which)
        if which is not signal.SIGKILL:
            return  # the connection must stay, or we would not see the end
    if which is signal.SIGINT:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, which)  # as a terminal does; whoever made a session of its own is told by its parent
    else:
        send(group, mark, which)


class _OutputTail:
    """Reads a pipe to its end in a thread, passes it on, and keeps the last part."""

    def __init__(self, pipe: IO[bytes] | None, *, pass_on: bool) -> None:
        assert pipe is not None  # noqa: S101 - both ways of starting ask for one
        self._pipe = pipe
        self._pass_on = pass_on
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._thread = threading.Thread(target=self._read, name="gpuledger stderr", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while chunk := os.read(self._pipe.fileno(), _KEPT_BYTES):
            self._chunks.append(chunk)
            self._size += len(chunk)
            while self._size - len(self._chunks[0]) >= _KEPT_BYTES:
                self._size -= len(self._chunks.popleft())
            if self._pass_on:
                try:
                    rest = memoryview(chunk)
                    while rest:
                        rest = rest[os.write(2, rest) :]
                except OSError:  # nobody reads our errors any more; the program's must still be taken from it
                    self._pass_on = False

    def text(self, patience_s: float) -> str:
        """What came last. A process that we could not end may hold the pipe open: then we do not wait for it."""
        self._thread.join(patience_s)
        if not self._thread.is_alive():
            self._pipe.close()
        return b"".join(self._chunks)[-_KEPT_BYTES:].decode(errors="replace")


class LoggedRun(Struct, frozen=True):
    """A program that ran to its end beside its log."""

    exit_code: int
    seconds: float
    interrupted: bool
    out_of_time: bool


def run_logged(
    argv: Sequence[str],
    interruption: Interruption,
    *,
    log: IO[bytes],
    environment: Mapping[str, str],
    seconds: float | None = None,
    patience: Patience | None = None,
    signaller: Signaller | None = None,
) -> LoggedRun:
    """Run a program in a session of its own, all that it writes put into `log`, and end all that it started.

    It is ended when it takes more than `seconds`, when somebody interrupts us, and also when somebody kills us.
    """
    patience, mark = patience or Patience(), _new_mark()
    began = time.monotonic()
    until = float("inf") if seconds is None else began + seconds
    stages: list[str] = []
    with _Guard() as guard:
        variables = dict(os.environ) | dict(environment) | {MARK: mark}
        process = _start(argv, variables, quiet=False, output=log, joined=True)
        guard.watch(process.pid)
        try:
            interrupted = _wait(process, interruption, patience, mark, stages.append, signaller, until)
        finally:
            end_leftovers(process.pid, mark, patience_s=min(patience.told, 5.0))
    out_of_time = bool(stages) and not interrupted
    return LoggedRun(_exit_code(process), time.monotonic() - began, interrupted, out_of_time)


class _Guard:
    """A process that ends a process group when we are gone without having said goodbye: nobody can catch SIGKILL."""

    _CODE = (
        "import os, signal, sys, time\n"
        "line = sys.stdin.readline().strip()\n"
        "group = int(line) if line.isdecimal() else 0\n"
        "if group and not sys.stdin.read(1):\n"
        "    for which, seconds in ((signal.SIGTERM, 330), (signal.SIGKILL, 1)):\n"
        "        until = time.monotonic() + seconds\n"
        "        try:\n"
        "            os.killpg(group, which)\n"
        "            while time.monotonic() < until:\n"
        "                time.sleep(0.05)\n"
        "                os.killpg(group, 0)\n"
        "        except OSError:\n"
        "            break\n"
    )

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", self._CODE],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        return self

    def watch(self, group: int) -> None:
        self._write(f"{group}\n")

    def __exit__(self, *_: object) -> None:
        self._write("-")  # goodbye
        with contextlib.suppress(OSError):
            self._process.stdin.close()  # type: ignore[union-attr]
        self._process.wait()

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError):  # where somebody ended the guard, the program runs on without
            self._process.stdin.write(text.encode())  # type: ignore[union-attr]
            self._process.stdin.flush()  # type: ignore[union-attr]
