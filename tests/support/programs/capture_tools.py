"""For tests of captures: a stand-in for nsys on the PATH, the command in a process of its own, and who still runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuledger.system.processes import MARK
from support.command import PATIENCE_S, Ran, gpuledger

FAKE = Path(__file__).parent / "fake_nsys.py"
IN_THE_BACKGROUND = (
    sys.executable,
    "-c",
    "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); os.execvp(sys.argv[1], sys.argv[1:])",
)
"""Starts a program as `sh -c 'PROGRAM &'` does: Ctrl-C is not for it."""


@dataclass(frozen=True)
class Tools:
    """A folder with stand-ins, and the environment in which they are found."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    def install(self, name: str, script: str) -> None:
        path = self.folder / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(script)
        path.chmod(0o755)

    def install_python(self, name: str, code: str) -> None:
        """A program of this Python; `#!` does not do where the path of an interpreter holds a blank."""
        self.install(name, f'#!/bin/sh\nexec "{sys.executable}" "{self.folder / "bin" / name}.py" "$@"\n')
        (self.folder / "bin" / f"{name}.py").write_text(code)

    def run(self, *arguments: str | Path, how: str = "", **more: str) -> Ran:
        return gpuledger("capture", *arguments, cwd=self.folder, **self.environment, FAKE_NSYS=how, **more)

    def begun(
        self, *arguments: str | Path, how: str = "", under: tuple[str | Path, ...] = ()
    ) -> subprocess.Popen[bytes]:
        """The command, started and left running, perhaps under another that gives way to it."""
        return subprocess.Popen(
            [*under, sys.executable, "-m", "gpuledger", "capture", *arguments],
            cwd=self.folder,
            env=dict(os.environ) | self.environment | {"FAKE_NSYS": how},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def calls(self) -> list[list[str]]:
        """The arguments of every call of a stand-in, but for questions about the version."""
        log = self.folder / "calls"
        lines = log.read_text().splitlines() if log.exists() else []
        return [call for line in lines if (call := json.loads(line)) != ["--version"]]

    def manifest(self, name: str = "run") -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / f"{name}.capture.json").read_text())
        return found


def tools(folder: Path, export: Path) -> Tools:
    """nsys and ncu, and a PATH on which nothing else of NVIDIA's is."""
    (folder / "sessions").mkdir()
    environment = {
        "PATH": f"{folder / 'bin'}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}/usr/bin{os.pathsep}/bin",
        "FAKE_EXPORT": str(export),
        "FAKE_LOG": str(folder / "calls"),
        "FAKE_SESSIONS": str(folder / "sessions"),
        "XDG_STATE_HOME": str(folder / "state"),
        "XDG_CACHE_HOME": str(folder / "cache"),
    }
    made = Tools(folder, environment)
    for name in ("nsys", "ncu"):
        made.install_python(name, FAKE.read_text())
    return made


def alive(tag: str) -> list[int]:
    """The processes that run with this word in their command line, or that a capture in this folder started."""
    found = []
    for each in Path("/proc").iterdir():
        if not each.name.isdecimal() or int(each.name) == os.getpid():
            continue
        try:
            line, around = (each / "cmdline").read_bytes(), (each / "environ").read_bytes()
        except OSError:
            continue
        if tag.encode() in line or (tag.encode() in around and MARK.encode() in around):
            found.append(int(each.name))
    return found


def finished(process: subprocess.Popen[bytes], seconds: float = PATIENCE_S) -> Ran:
    """What a command left running did in the end."""
    out, err = process.communicate(timeout=seconds)
    return Ran(process.returncode, out.decode(), err.decode())


def wait_for(path: Path, seconds: float = PATIENCE_S) -> None:
    """Until a file is there."""
    until = time.monotonic() + seconds
    while not path.exists():
        if time.monotonic() > until:
            raise TimeoutError(path)
        time.sleep(0.01)


def interrupt(process: subprocess.Popen[bytes], which: signal.Signals = signal.SIGINT) -> None:
    process.send_signal(which)
