"""Python's stacks beside a profile: a program while it runs in, NAME.samples.gz out.

A thread of gpuledger's own process reads the stacks of every Python that the program starts, some hundred times a
second, from outside (`python_stacks`). The program is neither changed nor stopped. What is seen goes to a file for each
process; when the program has ended they become one file. docs/reference/samples.md describes it.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
import sys
import threading
import time
from contextlib import suppress
from typing import IO, Final

from msgspec import Struct, field

from gpuledger.capture.output_files import SAMPLES, CapturePlace
from gpuledger.capture.python_stacks import KNOWN, Frame, NoPython, PythonProcess, Unreadable
from gpuledger.system.files import reason_of, whole_file
from gpuledger.system.processes import ProcessTree

HZ: Final = 250
_SCAN_NS: Final = 50_000_000  # between two looks for new processes
_RETRY_NS: Final = 2_000_000_000  # at most, until a process without Python is looked at again
_CLOCK_NS: Final = 250_000_000  # between two readings of the wall clock
_MOST_OF_CORES, _MOST_OF_ONE = 0.05, 0.5  # of processor time that sampling may take, of all cores and of one
_MOST_BYTES: Final = 1 << 30  # of one process: a day of a program with many threads
LEFT_OUT: Final = "Python's stacks were not sampled: left out with --no-lines"
ELSEWHERE: Final = "Python's stacks are not sampled where the program runs elsewhere, with --via"
NOT_LINUX: Final = "Python's stacks are sampled on Linux only"
NO_PYTHON: Final = f"no Python was sampled, so there are no lines of code: the program ran no CPython {KNOWN}"


class _SectionFile(Struct):
    """The file of one process, and how its records are numbered."""

    process: PythonProcess
    file: IO[str]
    frames: dict[Frame, int] = field(default_factory=dict)
    stacks: dict[tuple[Frame, ...], int] = field(default_factory=dict)
    is_full: bool = False

    def look(self) -> None:
        """Write down where each thread is."""
        if self.is_full:
            return
        for tid, (time_ns, stack) in self.process.stacks().items():
            number = self._number(stack)  # may write what the stack is made of
            self.file.write(f"s {time_ns} {tid} {number}\n")

    def _number(self, stack: tuple[Frame, ...]) -> int:
        number = self.stacks.get(stack)
        if number is None:
            numbers = []
            for frame in stack:
                if frame not in self.frames:
                    self.frames[frame] = len(self.frames)
                    line, (first_line, function, file) = frame
                    self.file.write(f"F {json.dumps([line or first_line, first_line, function, file])}\n")
                numbers.append(self.frames[frame])
            number = self.stacks[stack] = len(self.stacks)
            self.file.write(f"S {' '.join(map(str, numbers))}\n")
        return number

    def pair_clocks(self) -> None:
        before, wall, after = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        self.file.write(f"C {before} {wall} {after}\n")
        self.is_full = os.fstat(self.file.fileno()).st_size > _MOST_BYTES

    def close(self) -> None:
        self.process.close()
        with suppress(OSError):  # the disk is full: what was written is kept
            self.file.close()


class StackSampler:
    """Samples every Python of a program, from `watch` until the block ends; then the file is beside the profile."""

    def __init__(self, place: CapturePlace) -> None:
        self._place = place
        self._folder = place.folder.absolute() / f".{place.name}.samples"
        self._sections: dict[int, _SectionFile] = {}
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._tried: dict[int, tuple[str, int, int]] = {}  # processes without Python: their program, when to look again
        self.unreadable: str | None = None  # why a Python could not be sampled
        self.sampled = 0  # processes

    def __enter__(self) -> StackSampler:
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(mode=0o700)
        return self

    def watch(self, pid: int, mark: str) -> None:
        """Begin: the program has this process id, and all that it starts carries the mark."""
        self._thread = threading.Thread(target=self._run, args=(ProcessTree(pid, mark),), daemon=True)
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        target = self._place.folder / f"{self._place.name}{SAMPLES}"
        try:
            if self.sampled:
                with whole_file(target, private=True) as file, gzip.open(file, "wb", compresslevel=6) as gathered:
                    for path in sorted(self._folder.iterdir()):
                        with path.open("rb") as section:
                            shutil.copyfileobj(section, gathered)
        except OSError as error:  # the profile is worth more than its samples
            self.sampled, self.unreadable = 0, f"they could not be written: {reason_of(error)}"
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def why_nothing(self) -> str | None:
        """Why there is no file; None where there is one."""
        return None if self.sampled else f"{NO_PYTHON}{f' ({self.unreadable})' if self.unreadable else ''}"

    def _run(self, tree: ProcessTree) -> None:
        uniform = random.Random(0).uniform  # noqa: S311 - so that no period of the program hides between two looks
        share = min(_MOST_OF_CORES * (os.cpu_count() or 1), _MOST_OF_ONE)
        scanned = paired = 0
        usual_s = 0.0
        try:
            while not self._over.wait(max(uniform(0.5, 1.5) / HZ, usual_s / share)):
                now, began_s = time.monotonic_ns(), time.thread_time()
                if now - scanned > _SCAN_NS:
                    scanned = now
                    self._find(tree)
                is_due = now - paired > _CLOCK_NS
                paired = now if is_due else paired
                for pid, section in list(self._sections.items()):
                    if is_due:
                        section.pair_clocks()
                    try:
                        section.look()
                    except Unreadable:  # it ended, or runs another program now
                        del self._sections[pid]
                        section.close()
                usual_s += 0.1 * (time.thread_time() - began_s - usual_s)
        except OSError as error:
            self.unreadable = str(error)
        finally:
            for section in self._sections.values():
                section.close()

    def _find(self, tree: ProcessTree) -> None:
        """Begin a section for each new Python of the program."""
        for pid in tree.scan():
            if pid in self._sections or not self._is_due(pid):
                continue
            try:
                process = PythonProcess(pid)
            except NoPython:
                continue
            except Unreadable as error:
                self.unreadable = str(error)
                continue
            self._tried.pop(pid, None)
            self.sampled += 1
            file = (self._folder / f"{pid}-{self.sampled}").open("w", encoding="utf-8", errors="backslashreplace")
            header = {
                "schema": "gpuledger.samples/2",
                "pid": pid,
                "host": os.uname().nodename,
                "python": "{}.{}".format(*process.version),
                "period_ns": 10**9 // HZ,
            }
            file.write(f"H {json.dumps(header)}\n")
            self._sections[pid] = _SectionFile(process, file)
            self._sections[pid].pair_clocks()

    def _is_due(self, pid: int) -> bool:
        """Whether to look for Python in a process: soon where its program changed, else twice as late as before."""
        try:
            program = os.readlink(f"/proc/{pid}/exe")
        except OSError:
            return False
        now = time.monotonic_ns()
        before, again, wait = self._tried.get(pid, ("", 0, 0))
        if program == before and now < again:
            return False
        wait = min(2 * wait, _RETRY_NS) if program == before else _SCAN_NS
        self._tried[pid] = program, now + wait, wait
        return True


def why_not_sampled() -> str | None:
    """Why Python's stacks cannot be sampled on this machine; None where they can."""
    return None if sys.platform == "linux" else NOT_LINUX
