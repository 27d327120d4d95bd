"""The command in a process of its own, many times a second: a server with the package loaded forks for each call.

`python forked.py PROFILE...` reports of clean profiles, so that a child has what is made when it is first needed; then
it reads a request a line from stdin and answers a line on stdout. The child that it forks for a request
has the bounds of the catalogue (address space, CPU time), a clean environment, and an audit hook that writes down what
reaches outside: files opened for writing, sockets, processes, and anything named `canary`, to which no profile may
lead. It then runs the command's own `main`.

`Server` is the other end, for tests.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import io
import itertools
import json
import os
import pkgutil
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

MEMORY_BYTES = 1 << 30
CPU_SECONDS = 5
PATIENCE = 12
"""A machine that others work on counts their time as ours: 19 s of processor time were seen for what takes 4. What this
is to find, work that grows with what a file claims, has no bound at all."""
_WALL_SECONDS = 300

_OUTSIDE = (
    "socket.",
    "subprocess.",
    "os.exec",
    "os.posix_spawn",
    "os.spawn",
    "os.startfile",
    "os.system",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.mkdir",
    "os.link",
    "os.symlink",
    "os.truncate",
    "os.chmod",
    "shutil.",
    "webbrowser.",
    "urllib.",
)
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


@dataclass(frozen=True)
class Outcome:
    """What one call of the command did."""

    exit_code: int
    """Below zero: the signal that ended it."""
    stdout: bytes
    stderr: bytes
    cpu_s: float
    peak_bytes: int
    """The most memory that it had at once, with what it shares with the server."""
    deeds: tuple[str, ...]
    """What reached outside of the process."""

    @property
    def said(self) -> str:
        return self.stderr.decode(errors="backslashreplace")


class Server:
    """Asks the server; one per test process."""

    def __init__(self) -> None:
        from hostile import files

        self._clean = tempfile.TemporaryDirectory(prefix="gpuledger-clean-")
        folder = Path(self._clean.name)
        profiles = files.export(folder / "clean.sqlite"), files.trace(folder / "clean.json")
        clean = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "GPULEDGER_DEBUG")}
        self._server = subprocess.Popen(
            [sys.executable, "-B", "-P", __file__, *profiles],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=clean | {"OPENBLAS_NUM_THREADS": "1", "GPULEDGER_CACHE": "0"},  # who has threads should not fork
        )
        atexit.register(self.close)

    def run(
        self,
        *arguments: str | Path,
        folder: Path,
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
        stdout: Path | None = None,
        file_bytes: int | None = None,
        ended: tuple[float, int] | None = None,
    ) -> Outcome:
        """Run the command; its outputs and its home are in `folder`.

        No file that it writes may grow beyond `file_bytes`; after so many seconds it is `ended` by a signal.
        """
        from support.command import ONE_DAY

        folder.mkdir(parents=True, exist_ok=True)
        places = {name: str(folder / name) for name in ("stdout", "stderr", "deeds")}
        home = {"HOME": str(folder / "home"), "XDG_CACHE_HOME": str(folder / "cache"), "TMPDIR": str(folder / "tmp")}
        for each in home.values():
            Path(each).mkdir(exist_ok=True)
        if stdout is not None:
            places["stdout"] = str(stdout)
        request = {
            "arguments": [str(each) for each in arguments],
            "cwd": str(cwd or folder),
            "environment": home | ONE_DAY | dict(environment or {}),
            "file_bytes": file_bytes,
            "ended": ended,
        }
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(request | places).encode() + b"\n")
        self._server.stdin.flush()
        answer = json.loads(self._server.stdout.readline())
        return Outcome(
            exit_code=answer["exit_code"],
            stdout=b"" if stdout is not None else Path(places["stdout"]).read_bytes(),
            stderr=Path(places["stderr"]).read_bytes(),
            cpu_s=answer["cpu_s"],
            peak_bytes=answer["peak_bytes"],
            deeds=tuple(Path(places["deeds"]).read_text(errors="backslashreplace").splitlines()),
        )

    def close(self) -> None:
        """End the server."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.close()
        self._server.stdout.close()
        self._server.wait()
        self._clean.cleanup()


@functools.cache
def server() -> Server:
    """The one server of this process."""
    return Server()


_ENDING: Final = (signal.SIGINT, signal.SIGTERM)


def main() -> None:
    """Serve until stdin ends."""
    _load(sys.argv[1:])
    for line in sys.stdin:
        request = json.loads(line)
        signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)  # until the child has made itself ready
        pid = os.fork()
        if pid == 0:
            _child(request)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
        if request["ended"]:
            time.sleep(request["ended"][0])
            os.kill(pid, request["ended"][1])  # ours until it is waited for, if it has ended by itself
        _, status, usage = os.wait4(pid, 0)
        answer = {
            "exit_code": os.waitstatus_to_exitcode(status),
            "cpu_s": usage.ru_utime + usage.ru_stime,
            "peak_bytes": usage.ru_maxrss * 1024,
        }
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _load(profiles: Sequence[str]) -> None:
    """Import what every call would import, and compile what it would compile, once."""
    from gpuledger.cli.main import cli, verb_named
    from gpuledger.verbs import VERBS

    for part in ("read", "ledger", "replay", "analyse", "findings", "present"):
        package = importlib.import_module(f"gpuledger.{part}")
        for module in pkgutil.walk_packages(package.__path__, f"gpuledger.{part}."):
            with contextlib.suppress(ImportError):  # of an optional package
                importlib.import_module(module.name)
    for verb in VERBS:
        verb_named(verb)
    for name in ("numpy.ma", "tomllib"):  # what numpy and a verb load when they are first asked
        importlib.import_module(name)
    for verb, profile in itertools.product(("report", "info"), profiles):
        with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), encoding="utf-8")):
            cli.main([verb, profile, "--format=json"], standalone_mode=False)
    gc.collect()
    gc.freeze()  # a child that collects garbage would write to every page that it shares with us


def _child(request: Mapping[str, Any]) -> NoReturn:
    code = 1
    try:
        code = _called(request)
    except BaseException:  # what a user would see as a traceback
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError):
            sys.stderr.flush()
        os._exit(code)


def _called(request: Mapping[str, Any]) -> int:
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["cwd"])
    _redirect(request)
    _bound(request["file_bytes"])
    _watch(request["deeds"])
    warnings.simplefilter("error")
    sys.argv = ["gpuledger", *request["arguments"]]
    from gpuledger.cli.main import main as command

    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
    except KeyboardInterrupt:  # it came before there was a command to end
        return 128 + signal.SIGINT
    try:
        command()
    except SystemExit as end:
        sys.stdout.flush()
        return end.code if isinstance(end.code, int) else 1


def _redirect(request: Mapping[str, Any]) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    for number, place in ((1, request["stdout"]), (2, request["stderr"])):
        file = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(file, number)
        os.close(file)
    sys.stdin = io.TextIOWrapper(open(0, "rb", closefd=False))  # noqa: SIM115
    sys.stdout, sys.stderr = (
        io.TextIOWrapper(open(number, "wb", closefd=False), encoding="utf-8")  # noqa: SIM115
        for number in (1, 2)
    )


def _bound(file_bytes: int | None) -> None:
    if file_bytes is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS * PATIENCE, CPU_SECONDS * PATIENCE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.alarm(_WALL_SECONDS)


def _watch(place: str) -> None:
    log = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)

    def hook(event: str, arguments: Sequence[object]) -> None:
        if event == "open":
            name, flags = arguments[0], arguments[2]
            writes = isinstance(flags, int) and flags & _WRITING
            if isinstance(name, int) or not (writes or "canary" in os.fsdecode(str(name))):
                return
            event = "write" if writes else "read"
        elif not event.startswith(_OUTSIDE):
            return
        if len(arguments) == 2 and isinstance(arguments[1], int) and event in ("os.remove", "os.rmdir"):
            with contextlib.suppress(OSError):  # within a folder that is open
                arguments = (Path(f"/proc/self/fd/{arguments[1]}").readlink(), *arguments)
        line = f"{event} {' '.join(map(str, arguments[:2]))}".replace("\n", " ")[:300]
        os.write(log, (line + "\n").encode(errors="backslashreplace"))

    sys.addaudithook(hook)


if __name__ == "__main__":
    main()
