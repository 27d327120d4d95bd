"""Inside the program that is captured: notes what line of Python each thread is at, some hundred times a second.

Runs in the user's Python, 3.8 or newer, and needs nothing but its library. A daemon thread sleeps, asks for Python's
lock, looks at all threads' frames and writes them down; between two looks it holds nothing of the program. What it sees
has the bias of the lock: while an extension keeps the lock, no look is possible, and the first one after it finds the
thread still at the call. So a look has two times, when it was due and when it was made: between them, whoever held the
lock was where the look finds it. Python lets a thread keep the lock for 5 ms, in which it may come to quite another
line: while one thread alone of the program runs Python, we ask it to give the lock up sooner, which only we then want.
Where two run, how they share the lock is the program's own, and stays as it is. Sleeps differ in length at random, so
that no period of the program hides in between, and so that they can be found again in a profile that recorded them,
which ties the two clocks together.

The file, `FOLDER/PID-N`, is text, a record a line, and grows by whole lines, so that whatever ends the process leaves
what was seen. See docs/reference/samples.md for the records. Frames are told apart by their code and instruction, so
that the line is worked out once for each. No frame is kept between looks: that would keep the program's tensors.
"""

from __future__ import annotations

import atexit
import json
import os
import random
import signal
import sys
import threading
import time
import warnings

FOLDER = "GPULEDGER_SAMPLES"
RATE = "GPULEDGER_SAMPLES_HZ"
DEFAULT_HZ = 250
SOON_S = 1e-4  # so soon a thread is asked to give up Python's lock, where it is the only one
CROWDED_LOOKS = 100  # so many looks after two threads ran Python it is not
STILL = 20  # a thread that so many looks find where it was waits
RUNS = 0.1  # a thread that runs Python has this share of a processor
WAKES_UP_NS = 150_000  # so late a thread may be that nothing kept from waking up
WRITE_EVERY_NS = 250_000_000
DEEPEST = 200
HANDOVER_NS = 100_000  # what a look costs besides a thread that it took the lock from: two threads wake up
MOST_OF_LOCK = 50  # a look is followed by a sleep of at least so many times what it costs, which is 2 % of the time
MOST_BYTES = 1 << 30  # of one process: a day of a program with many threads is not what anybody reads

_clock_ns = time.monotonic_ns
_sleep = time.sleep
_frames = sys._current_frames


class Sampler:
    """One process's sampler; a forked child has its own."""

    def __init__(self, folder: str, hz: float) -> None:
        self.folder, self.period_s = folder, 1.0 / hz
        self.pid = os.getpid()
        self.file = -1
        self.lines: list[str] = []
        self.stopping = self.is_over = False
        self.lock = threading.Lock()  # of the file: the thread and whoever ends the process
        self.frame_number: dict[tuple[int, int], int] = {}  # by code and instruction
        self.codes: list[object] = []  # kept, so that no other code has the number of one
        self.stack_number: dict[tuple[int, ...], int] = {}
        self.named: dict[int, str] = {}
        self.written = 0
        self.at: dict[int, int] = {}  # each thread's stack in the last look
        self.still: dict[int, int] = {}  # for how many looks it has been there
        self.ran_ns: dict[int, tuple[int, int]] = {}  # of those that go on: when, and what each had run until then
        self.crowded, self.usual_s = 0, 0.0  # the program's own interval, while ours is set
        self.thread: threading.Thread | None = None

    def start(self) -> None:
        header = {
            "schema": "gpuledger.samples/1",
            "pid": self.pid,
            "parent": os.getppid(),
            "host": os.uname().nodename,
            "python": ".".join(map(str, sys.version_info[:3])),
            "period_ns": int(self.period_s * 1e9),
        }
        self.lines.append("H " + json.dumps(header))
        self.pair()
        self.go_on()

    def go_on(self) -> None:
        self.stopping = False
        self.thread = threading.Thread(target=self.run, name="gpuledger-sampler", daemon=True)
        self.thread.start()

    def pause(self) -> None:
        """No thread of ours while the process is copied: it might hold a lock, which nobody would give back there."""
        thread, self.stopping, self.thread = self.thread, True, None
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        self.ask(soon=False)

    def ask(self, *, soon: bool) -> None:
        """Ask who holds the lock to give it up soon, or as the program has it; what it sets meanwhile stays."""
        now_s = sys.getswitchinterval()
        if soon and now_s > 2 * SOON_S:
            self.usual_s = now_s
        elif soon or not self.usual_s:
            return
        if soon or now_s < 2 * SOON_S:
            sys.setswitchinterval(SOON_S if soon else self.usual_s)
        self.usual_s = self.usual_s if soon else 0.0
        self.lines.append(f"I {int(sys.getswitchinterval() * 1e9)}")

    def run(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # the program's are its own threads'
        own = threading.get_ident()
        self.lines.append(f"O {threading.get_native_id()}")
        uniform, written, usual_ns = random.Random(self.pid).uniform, _clock_ns(), 0.0
        while not self.stopping:
            length = max(self.period_s, MOST_OF_LOCK * usual_ns / 1e9) * uniform(0.5, 1.5)
            slept = _clock_ns()
            _sleep(length)
            if not self.stopping:
                cost_ns = self.look(own, slept, slept + int(length * 1e9))
                usual_ns += 0.1 * (min(cost_ns, 1_000_000) - usual_ns)
            if slept - written > WRITE_EVERY_NS:
                written = slept
                self.pair()
                self.write()

    def look(self, own: int, slept_ns: int, due_ns: int) -> int:
        """Write down where each thread is; what that cost the program, which keeps still meanwhile, out."""
        taken_ns = _clock_ns()
        seen = [f"s {slept_ns} {due_ns - slept_ns} {taken_ns - due_ns}"]
        frame, before, self.at = None, self.at, {}
        for ident, frame in _frames().items():
            if ident != own:
                self.at[ident] = self.stack(frame)
                seen.append(f"{self.native_id(ident)}:{self.at[ident]}")
        del frame
        self.lines.append(" ".join(seen))
        self.still = {
            ident: self.still.get(ident, STILL) + 1 if before.get(ident) == stack else 0
            for ident, stack in self.at.items()
        }
        going_on = [ident for ident, looks in self.still.items() if looks < STILL]
        ran_ns, self.ran_ns = self.ran_ns, {}
        if len(going_on) > 1:  # one that only wakes up to sleep again wants no lock
            self.ran_ns = {ident: (taken_ns, self.processor_ns(ident)) for ident in going_on}
            going_on = [ident for ident, ran in self.ran_ns.items() if ident in ran_ns and _runs(ran_ns[ident], ran)]
        self.crowded = CROWDED_LOOKS if len(going_on) > 1 else max(self.crowded - 1, 0)
        self.ask(soon=not self.crowded)
        was_held = taken_ns - due_ns > WAKES_UP_NS + SOON_S * 1e9  # nobody is asked sooner
        return _clock_ns() - taken_ns + (HANDOVER_NS if was_held else 0)

    def processor_ns(self, ident: int) -> int:
        """What a thread has run on a processor; 0 where that is not known."""
        native = self.native_id(ident)
        try:
            return time.clock_gettime_ns((~native << 3) | 6) if native > 0 else 0  # the system's clock of one thread
        except OSError:
            return 0

    def stack(self, frame: object) -> int:
        """The number of a frame's stack, the innermost first."""
        numbers: list[int] = []
        known = self.frame_number
        while frame is not None and len(numbers) < DEEPEST:
            key = (id(frame.f_code), frame.f_lasti)  # type: ignore[attr-defined]
            number = known.get(key)
            if number is None:
                number = self.new_frame(key, frame)
            numbers.append(number)
            frame = frame.f_back  # type: ignore[attr-defined]
        stack = tuple(numbers)
        number = self.stack_number.get(stack)
        if number is None:
            number = self.stack_number[stack] = len(self.stack_number)
            self.lines.append("S " + " ".join(map(str, numbers)))
        return number

    def new_frame(self, key: tuple[int, int], frame: object) -> int:
        number = self.frame_number[key] = len(self.frame_number)
        code = frame.f_code  # type: ignore[attr-defined]
        self.codes.append(code)
        function = getattr(code, "co_qualname", code.co_name)
        line = frame.f_lineno or code.co_firstlineno  # type: ignore[attr-defined]
        described = [line, code.co_firstlineno, function, code.co_filename]
        self.lines.append("F " + json.dumps(described))
        return number

    def native_id(self, ident: int) -> int:
        """The system's number of a thread; one that Python did not start is looked up in vain, and has -1."""
        thread = threading._active.get(ident)  # type: ignore[attr-defined]
        native = None if thread is None else thread.native_id
        if native is None:
            return -1
        if self.named.get(native) != thread.name:
            self.named[native] = thread.name
            self.lines.append(f"T {native} {json.dumps(thread.name)}")
        return native  # type: ignore[no-any-return]

    def pair(self) -> None:
        """The wall clock between two readings of the monotonic one."""
        before = _clock_ns()
        wall = time.time_ns()
        after = _clock_ns()
        self.lines.append(f"C {before} {wall} {after}")

    def write(self) -> None:
        with self.lock:
            lines, self.lines = self.lines, []
            if not lines or os.getpid() != self.pid:
                return
            try:
                if self.file < 0:
                    self.file = self.opened()
                rest = memoryview(("\n".join(lines) + "\n").encode("utf-8", "backslashreplace"))
                self.written += len(rest)
                while rest:
                    rest = rest[os.write(self.file, rest) :]
            except OSError:
                self.written = MOST_BYTES + 1
            if self.written > MOST_BYTES:
                self.stopping = self.is_over = True

    def opened(self) -> int:
        for number in range(1000):  # a process that replaces its program has its id again
            try:
                path = os.path.join(self.folder, f"{self.pid}-{number}")
                return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            except FileExistsError:
                continue
        raise FileExistsError(self.folder)

    def stop(self) -> None:
        """Write what is left. Whoever ends the process calls it, from any thread."""
        self.stopping = self.is_over = True
        if self.pid == os.getpid():
            self.ask(soon=False)
            self.pair()
            self.write()


def _runs(before: tuple[int, int], now: tuple[int, int]) -> bool:
    """Whether a thread ran between two times, each with what it had run until then."""
    return now[1] - before[1] > RUNS * (now[0] - before[0])


_sampler: Sampler | None = None


def start() -> None:
    """Sample this process and those that it forks, where a capture asks for it."""
    global _sampler
    folder = os.environ.get(FOLDER)
    if not folder or not os.path.isdir(folder) or _sampler is not None or not _is_main():
        return
    try:
        hz = min(max(float(os.environ.get(RATE, DEFAULT_HZ)), 1.0), 2000.0)
    except ValueError:
        hz = DEFAULT_HZ
    _sampler = Sampler(folder, hz)
    _sampler.start()
    atexit.register(_stop)
    # Python counts our thread, which goes on before it looks: the program would be warned of what it did not do
    warnings.filterwarnings("ignore", r"This process \(pid=\d+\) is multi-threaded, use of fork", DeprecationWarning)
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)
    ended = os._exit

    def _exit(status: int) -> None:
        _stop()
        ended(status)

    os._exit = _exit  # type: ignore[assignment]


def _stop() -> None:
    if _sampler is not None:
        _sampler.stop()


def _is_main() -> bool:
    """Whether threads take turns, and this is the interpreter that all others were started from."""
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return False  # frames of threads that run on meanwhile cannot be walked
    for name in ("_interpreters", "_xxsubinterpreters"):
        try:
            interpreters = __import__(name)
            return bool(interpreters.get_current() == interpreters.get_main())
        except ImportError:
            continue
    return True


def _before_fork() -> None:
    if _sampler is not None:
        _sampler.pause()


def _after_fork() -> None:
    if _sampler is not None and not _sampler.is_over:
        _sampler.go_on()


def _in_child() -> None:
    global _sampler
    if _sampler is None:
        return
    parent, _sampler = _sampler, None
    if parent.file >= 0:
        os.close(parent.file)
    if not parent.is_over:
        _sampler = Sampler(parent.folder, 1.0 / parent.period_s)
        _sampler.start()
