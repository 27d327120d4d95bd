"""The command, called within this process or as a process of its own, and where the repository keeps its captures.

`gpuledger(...)` calls the command's own `main` here; streams, environment, folder and arguments are set for the call,
and put back after it. What it prints and how it ends is what a process would, without an interpreter's start.
`gpuledger_process(...)` starts that interpreter, for what is true of a process alone: signals, pipes, closed streams,
start-up, limits of memory, what it leaves running.
"""

from __future__ import annotations

import contextlib
import gc
import io
import logging
import os
import subprocess
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from gpuledger.__main__ import main
from gpuledger.cli import main as command_line

ROOT = Path(__file__).parents[2]
CAPTURES = ROOT / "captures" / "nsys"
NAMES = (
    "attn",
    "decode",
    "graph",
    "moe_batched_gemm",
    "moe_loop",
    "one_nccl",
    "two_gloo",
    "zoo_graph",
    "zoo_node",
)
_CHANGE_OUTPUT = ("COLUMNS", "GPULEDGER_DEBUG", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE")
ONE_DAY = {"SOURCE_DATE_EPOCH": "1765929600"}
PATIENCE_S = 120
"""How long to wait for what must come: a busy machine takes a while, only a hang takes this long."""


@dataclass(frozen=True)
class Ran:
    """What one call of the command did."""

    exit_code: int
    stdout: str
    stderr: str


def gpuledger(*arguments: str | Path, cwd: Path | None = None, **environment: str) -> Ran:
    """Call the command in this process, as its entry point does."""
    return called(arguments, environment, cwd=cwd)


def called(
    arguments: Sequence[str | Path],
    environment: Mapping[str, str],
    *,
    cwd: Path | None = None,
    onto: int | None = None,
    stdin: Path | None = None,
) -> Ran:
    """The same with other streams: `onto` is a terminal for stdout and stderr, `stdin` a file to be read there."""
    if fixed := [name for name in environment if name.startswith(("PYTHON", "LC_", "LANG", "OPENBLAS"))]:
        raise ValueError(f"{', '.join(fixed)} is read when a process starts: use gpuledger_process")
    with (
        _streams(onto, stdin) as (out, err),
        _environment({**clean_environment(), **environment}),
        contextlib.chdir(cwd or Path.cwd()),
        _arguments(arguments),
        _collector(),
        _logging(),
        patch.object(command_line, "keep_freed_memory", _nothing),  # a setting for the life of a process: ours goes on
        warnings.catch_warnings(action="error"),
    ):
        exit_code = _called()
        sys.stdout.flush()
        sys.stderr.flush()
        return Ran(exit_code, _content(out), _content(err)) if onto is None else Ran(exit_code, "", "")


def gpuledger_process(*arguments: str | Path, cwd: Path | None = None, **environment: str) -> Ran:
    """Run the command as a user does: a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "gpuledger", *arguments],
        capture_output=True,
        cwd=cwd,
        env=clean_environment() | environment,
        check=False,
        timeout=PATIENCE_S,
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


def clean_environment() -> dict[str, str]:
    """The environment of a call: nothing that changes what is printed, one day, and warnings are errors."""
    kept = {name: value for name, value in os.environ.items() if name not in _CHANGE_OUTPUT}
    return kept | {"PYTHONWARNINGS": "error"} | ONE_DAY


def _nothing() -> None:
    """Instead of what a process does for itself; a mock would take as long to make as the rest of a short call."""


def _called() -> int:
    """The exit code that the process would end with."""
    try:
        main()
    except SystemExit as end:
        if isinstance(end.code, str):
            sys.stderr.write(f"{end.code}\n")
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except Exception:  # what an interpreter does with it
        traceback.print_exc()
        return 1


@contextlib.contextmanager
def _streams(onto: int | None, stdin: Path | None) -> Iterator[tuple[int, int]]:
    """Files in memory as stdout and stderr, under their numbers too: what the command starts inherits those."""
    before = sys.stdin, sys.stdout, sys.stderr
    before[1].flush()
    before[2].flush()
    kept = [os.dup(number) for number in range(3)]
    written = ("stdout", "stderr")
    outputs = [os.memfd_create(name) if onto is None else os.dup(onto) for name in written]
    files = os.open(stdin or os.devnull, os.O_RDONLY), *outputs
    try:
        for number, file in enumerate(files):
            os.dup2(file, number)
        sys.stdin = io.TextIOWrapper(io.FileIO(0, "r", closefd=False), encoding="utf-8")
        sys.stdout = io.TextIOWrapper(_buffered(1), encoding="utf-8")
        sys.stderr = io.TextIOWrapper(_buffered(2), encoding="utf-8", line_buffering=True)
        yield files[1], files[2]
    finally:
        sys.stdin, sys.stdout, sys.stderr = before
        for number, file in enumerate(kept):
            os.dup2(file, number)
        for file in (*files, *kept):
            os.close(file)


def _buffered(number: int) -> io.BufferedWriter:
    return io.BufferedWriter(io.FileIO(number, "w", closefd=False))


def _content(file: int) -> str:
    return os.pread(file, os.fstat(file).st_size, 0).decode()


@contextlib.contextmanager
def _environment(wanted: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    _become(wanted)
    try:
        yield
    finally:
        _become(before)


def _become(wanted: Mapping[str, str]) -> None:
    """Make the environment this one, and touch only what differs."""
    for name in os.environ.keys() - wanted.keys():
        del os.environ[name]
    os.environ.update(wanted.items() - os.environ.items())


@contextlib.contextmanager
def _arguments(arguments: Sequence[str | Path]) -> Iterator[None]:
    before = sys.argv
    sys.argv = ["gpuledger", *(os.fspath(argument) for argument in arguments)]
    try:
        yield
    finally:
        sys.argv = before


@contextlib.contextmanager
def _collector() -> Iterator[None]:
    """The command turns the garbage collector off and on, and freezes what it has: it ends soon, and we do not."""
    try:
        with patch.object(gc, "freeze", _nothing):
            yield
    finally:
        gc.enable()


@contextlib.contextmanager
def _logging() -> Iterator[None]:
    """No handler but Python's last resort, which writes to stderr: pytest has handlers of its own."""
    before = logging.root.handlers
    logging.root.handlers = []
    try:
        yield
    finally:
        logging.root.handlers = before
