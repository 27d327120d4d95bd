"""A program: runs a Python script or module under torch.profiler, and writes its trace whatever the script does.

    python runner.py --out=NAME [options] -- script.py arguments...
    python runner.py --out=NAME [options] -- -m module arguments...

It needs torch and Python's own library, nothing of gpuledger: the interpreter is the user's. What is recorded, first
match: with --active, that many steps after --wait and --warmup, where a step is an optimizer's step, or a range of the
name --step-range; else, if the script opens a profiler range (torch.cuda.profiler.start), that range and nothing else;
else the whole run. NVTX ranges of the script become annotations of the trace. The script's exit code is passed on.
With --memory NAME.memory.pickle gets what torch's allocator did in the whole run, with Python's stacks.
With --plain=FILE nothing is recorded: FILE gets the times between which it would be, see `WindowClock`.
"""

from __future__ import annotations

import argparse
import os
import runpy
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any

if sys.path and Path(sys.path[0] or ".").resolve() == Path(__file__).resolve().parent:
    del sys.path[0]  # Python puts the runner's own folder first: its modules must not hide the script's


MOST_MEMORY_EVENTS = 1_000_000
"""So many of the allocator's events are kept, the last ones; some 300 bytes of host memory each."""

MARK = "recorded_by_gpuledger"
"""An attribute of torch.cuda.profiler: marks in the script reach us also where there is no CUDA device."""


def say(sentence: str) -> None:
    """To the descriptor, as the script may have replaced sys.stderr."""
    os.write(2, f"gpuledger: {sentence}\n".encode(errors="replace"))


class Recorder:
    """Starts and stops the profiler when it should be, and writes what it recorded."""

    def __init__(self, torch: Any, wanted: argparse.Namespace) -> None:
        self._torch = torch
        self._wanted = wanted
        self._profile: Any = None
        self._ranges = 0
        self.steps = 0
        self.mode = "steps" if wanted.active else "whole"

    def begin(self) -> None:
        wanted, profiler = self._wanted, self._torch.profiler
        schedule = None
        if wanted.active:
            schedule = profiler.schedule(wait=wanted.wait, warmup=wanted.warmup, active=wanted.active, repeat=1)
        self._profile = self._new(schedule)
        self._profile.start()

    def _new(self, schedule: Any = None) -> Any:
        wanted, profiler = self._wanted, self._torch.profiler
        activities = [profiler.ProfilerActivity.CPU]
        if self._torch.cuda.is_available():
            activities.append(profiler.ProfilerActivity.CUDA)
        return profiler.profile(
            activities=activities,
            schedule=schedule,
            on_trace_ready=self._write,
            record_shapes=wanted.record_shapes,
            with_stack=wanted.with_stack,
            profile_memory=wanted.memory,
        )

    def range_opened(self) -> None:
        """The script called cudaProfilerStart: from here, and only the first time."""
        if self.mode == "steps":
            return
        self._ranges += 1
        if self._ranges > 1:
            return
        self.mode = "range"
        before, self._profile = self._profile, None
        before.on_trace_ready = None  # what came before the range is not wanted
        before.stop()
        self._profile = self._new()
        self._profile.start()

    def range_closed(self) -> None:
        if self.mode == "range" and self._profile is not None:
            self._stop()

    def step(self) -> None:
        self.steps += 1
        if self.mode == "steps" and self._profile is not None:
            self._profile.step()

    def end(self) -> None:
        if self._profile is not None:
            self._stop()
        if self._ranges > 1:
            say(f"the script opened {self._ranges} profiler ranges; the first was recorded")
        if self.mode == "steps" and self.steps <= self._wanted.wait + self._wanted.warmup:
            wanted = self._wanted
            what = f"ranges {wanted.step_range!r}" if wanted.step_range else "optimizer steps"
            say(
                f"nothing was recorded: the script made {self.steps} {what}, and {wanted.wait} are waited for, "
                f"{wanted.warmup} are warm-up; --step-range=NAME counts NVTX ranges of that name instead"
            )
        elif self.mode == "whole":
            say("the whole run was recorded, start-up included; --active=N records N steps only")

    def _stop(self) -> None:
        profile, self._profile = self._profile, None
        synchronize(self._torch)  # work that was launched inside belongs to it
        profile.stop()

    def _write(self, profile: Any) -> None:
        put_in_place(self._wanted, ".json.gz", profile.export_chrome_trace, "trace")


class AllocatorRecorder:
    """What torch's allocator does from the first use of CUDA on, as a snapshot when the script has ended."""

    def __init__(self, torch: Any, wanted: argparse.Namespace) -> None:
        self._torch, self._wanted = torch, wanted

    def begin(self) -> None:
        """Before the script: CUDA is not started for it, as a script that forks must do that itself."""
        if self._torch.cuda.is_available():
            self._torch.cuda._lazy_call(self._record)

    def _record(self) -> None:
        try:
            self._torch.cuda.memory._record_memory_history(max_entries=MOST_MEMORY_EVENTS, stacks="python")
        except (AttributeError, RuntimeError, TypeError) as error:  # torch before 2.1 has no such history
            say(f"the history of memory could not be recorded: {error}")

    def end(self) -> None:
        """After the script, however it ended: an out-of-memory is what one wants to see."""
        if not (self._torch.cuda.is_available() and self._torch.cuda.is_initialized()):
            return
        put_in_place(
            self._wanted,
            ".memory.pickle",
            lambda path: self._torch.cuda.memory._dump_snapshot(path),
            "snapshot of memory",
        )


def put_in_place(wanted: argparse.Namespace, ending: str, write: Callable[[str], object], what: str) -> None:
    """A file of this process, whole or not at all; each rank has its own. The script's end is not lost over it."""
    rank = os.environ.get("RANK") or os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ.get("SLURM_PROCID")
    name = f"{wanted.out}{f'_{rank}' if rank else ''}"
    partial = Path(f"{name}.partial-{os.getpid()}{ending}")
    try:
        write(str(partial))
        partial.replace(f"{name}{ending}")
    except (AttributeError, OSError, RuntimeError) as error:  # older versions of torch write no snapshot
        say(f"the {what} could not be written: {error}")
    finally:
        partial.unlink(missing_ok=True)


def synchronize(torch: Any) -> None:
    """Wait for the device, if there is one and the script uses it."""
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()


class WindowClock:
    """In the place of the recorder where nothing is to be recorded: notes how long what would be recorded takes.

    The file gets a line `PID START` when that begins, `PID START END` when it ends, in nanoseconds; ranks share it.
    """

    def __init__(self, torch: Any, wanted: argparse.Namespace) -> None:
        self._torch = torch
        self._file = wanted.plain
        self._first = wanted.wait + wanted.warmup
        self._last = self._first + wanted.active
        self._opened_ns: int | None = None
        self._is_over = False
        self.steps = 0
        self.mode = "steps" if wanted.active else "whole"

    def begin(self) -> None:
        if self.mode == "steps" and self._first == 0:
            self._open()

    def range_opened(self) -> None:
        if self.mode != "steps":
            self._open()

    def range_closed(self) -> None:
        if self.mode != "steps":
            self._close()

    def step(self) -> None:
        self.steps += 1
        if self.mode == "steps" and self.steps == self._last:
            self._close()
        elif self.mode == "steps" and self.steps == self._first:
            self._open()

    def end(self) -> None:
        """A window that is still open has no end that could be compared."""

    def _open(self) -> None:
        if self._opened_ns is None:
            synchronize(self._torch)
            self._note(time.monotonic_ns())
            self._opened_ns = time.monotonic_ns()

    def _close(self) -> None:
        if self._opened_ns is not None and not self._is_over:
            synchronize(self._torch)
            self._note(self._opened_ns, time.monotonic_ns())
            self._is_over = True

    def _note(self, *times_ns: int) -> None:
        line = " ".join(map(str, (os.getpid(), *times_ns))) + "\n"
        file = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(file, line.encode())  # in one piece: ranks share the file
        os.close(file)


def hook(torch: Any, recorder: Recorder | WindowClock, step_range: str | None) -> None:
    """Let the script's own marks reach the recorder: profiler ranges, NVTX ranges, optimizer steps."""
    annotation = torch.profiler.record_function if isinstance(recorder, Recorder) else nullcontext
    nvtx, profiler, here = torch.cuda.nvtx, torch.cuda.profiler, threading.local()
    push, pop = nvtx.range_push, nvtx.range_pop
    has_device = torch.cuda.is_available()

    def range_push(name: str) -> int:
        open_ranges = here.__dict__.setdefault("ranges", [])
        range_ = annotation(str(name))
        range_.__enter__()
        open_ranges.append((str(name), range_))
        return int(push(name)) if has_device else len(open_ranges) - 1

    def range_pop() -> int:
        open_ranges = here.__dict__.setdefault("ranges", [])
        if open_ranges:
            name, range_ = open_ranges.pop()
            range_.__exit__(None, None, None)
            if name == step_range:
                recorder.step()
        return int(pop()) if has_device else len(open_ranges)

    nvtx.range_push, nvtx.range_pop = range_push, range_pop
    profiler.start, profiler.stop = recorder.range_opened, recorder.range_closed
    setattr(profiler, MARK, True)
    if recorder.mode == "steps" and step_range is None:
        optimizers = import_module("torch.optim.optimizer")
        optimizers.register_optimizer_step_post_hook(lambda *_: recorder.step())


def run(target: list[str]) -> None:
    """Run the script or module as Python would."""
    if target[0] == "-m":
        sys.path.insert(0, str(Path.cwd()))
        sys.argv = target[1:]
        runpy.run_module(target[1], run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, str(Path(target[0]).resolve().parent))
        sys.argv = target
        runpy.run_path(target[0], run_name="__main__")


def parse_options(argv: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """Our options, and what is to be run."""
    cut = argv.index("--")
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--out", required=True)
    parser.add_argument("--wait", type=int, default=0)
    parser.add_argument("--warmup", type=int, default=0)
    parser.add_argument("--active", type=int, default=0)
    parser.add_argument("--step-range")
    parser.add_argument("--plain")
    for flag in ("--record-shapes", "--with-stack", "--memory"):
        parser.add_argument(flag, action="store_true")
    return parser.parse_args(argv[:cut]), argv[cut + 1 :]


def _ended(number: int, _: object) -> None:
    raise SystemExit(128 + number)


def main(argv: list[str]) -> int:
    """Record one run. Whether anything was recorded shows in the file; the exit code is the script's."""
    wanted, target = parse_options(argv)
    try:
        torch = import_module("torch")
    except ImportError as error:
        say(f"this Python has no torch: {error}")
        return 1
    signal.signal(signal.SIGTERM, _ended)  # the default ends us at once, and the trace would be lost
    recorder = WindowClock(torch, wanted) if wanted.plain else Recorder(torch, wanted)
    history = AllocatorRecorder(torch, wanted) if wanted.memory and not wanted.plain else None
    hook(torch, recorder, wanted.step_range)
    if history is not None:
        history.begin()
    recorder.begin()
    try:
        run(target)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C must not cut the trace in half
        if history is not None:
            history.end()  # first: it is what an out-of-memory is explained with
        recorder.end()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
