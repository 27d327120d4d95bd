"""Where cases are tried: the command in forked processes with bounds, many a second, and how each call ended.

A case is tried on a small copy of a capture, so that a call takes a tenth of a second; `whole` remembers what is said
of the copy before anything was done to it.
"""

from __future__ import annotations

import json
import random
import shutil
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from hostile.forked import Outcome, Server

BAD: Final = ("crash", "hang", "memory", "silent", "square", "torn", "wrong")
"""Verdicts of which there must be none."""

_TOO_LONG: Final = (-signal.SIGXCPU, -signal.SIGALRM)
_KILLED: Final = (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, 130, 143)


@dataclass(frozen=True, slots=True)
class Tried:
    """How a call ended: `read`, `refused`, `killed`, or one of `BAD`; and the document, where it wrote one."""

    verdict: str
    cpu_s: float
    peak_bytes: int
    said: str
    document: Any = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of one case."""

    case: str
    verdict: str
    detail: str = ""
    file: Path | None = None
    """What shows it, to be kept."""
    way: str = ""
    """The way to break things that it is of."""


@dataclass(slots=True)
class Bench:
    """One tester: a folder, a server that forks, a source of chance."""

    folder: Path
    chance: random.Random
    server: Server = field(default_factory=Server)
    _whole: dict[Path, Tried] = field(default_factory=dict)

    def call(self, *arguments: str | Path, place: str = "ran", **options: Any) -> Tried:
        """Call the command once; `place` is where its home, cache and temporary files are."""
        cached = () if options.pop("cache", False) else ("--no-cache",)
        return tried(self.server.run(*arguments, *cached, folder=self.folder / place, **options))

    def whole(self, path: Path) -> Tried:
        """What is reported of a profile that nothing was done to."""
        if path not in self._whole:
            self._whole[path] = self.call("report", path, "--format=json")
        return self._whole[path]

    def empty(self, name: str) -> Path:
        """A folder of this name with nothing in it."""
        path = self.folder / name
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir()
        return path


def tried(ran: Outcome) -> Tried:
    """A call, judged by its manners alone."""
    said = ran.said[-2000:]
    document = None
    if ran.exit_code in _TOO_LONG:
        verdict = "hang"
    elif "Traceback" in said or "internal error" in said:
        verdict = "crash"
    elif "not enough memory" in said:
        verdict = "memory"
    elif ran.exit_code == 0:
        verdict = "read"
        document = json.loads(ran.stdout) if ran.stdout.startswith(b"{") else None
    elif ran.exit_code == 1:
        verdict = "refused" if said.startswith("error: ") and not ran.stdout else "crash"
    else:
        verdict = "killed" if ran.exit_code in _KILLED else "crash"
    return Tried(verdict, ran.cpu_s, ran.peak_bytes, said, document)
