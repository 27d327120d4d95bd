"""The manifest of a capture, NAME.capture.json: what was run, with what, where, and how it ended.

It is written before the program starts and again at the end, each time beside and then renamed, so that whatever
happens in between a reader finds a whole file that says how far the capture came. The document is gpuledger.capture/1.
"""

from __future__ import annotations

import dataclasses
import errno
import json
import os
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gpuledger.capture.environment import Commit
from gpuledger.capture.file_endings import MANIFEST_SCHEMA
from gpuledger.capture.withheld import without_secrets
from gpuledger.errors import OutputRefused
from gpuledger.system.atomic_files import whole_file
from gpuledger.system.machine import Machine
from gpuledger.version import own_version

RUNNING, FINISHED, INTERRUPTED, FAILED = "running", "finished", "interrupted", "failed"
"""The states: not over yet (or killed, if `pid` is gone), over, ended by a signal to us, or nothing was recorded.

`failed` is also where what was set for the program did not reach it.
"""


@dataclass(frozen=True, slots=True)
class RecordedFile:
    """One file that the capture made."""

    name: str
    bytes: int


@dataclass(frozen=True, slots=True)
class RecordedCheck:
    """Whether the profile holds one thing that was asked for."""

    check: str
    verdict: str
    found: str
    advice: str


@dataclass(frozen=True, slots=True)
class PlainRun:
    """The program once without its profiler, or why there was no such run."""

    window_ns: tuple[int, ...] | None = None
    """How long what is recorded took, once per process that has a window; None where that is not known."""
    reason: str | None = None
    """Why it is not known."""
    seconds: float | None = None
    """How long the run took; None where there was none."""
    exit_code: int | None = None
    how: str | None = None
    """What was measured, and how it was seen."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """Everything that is written down about one capture."""

    tool: str
    tool_version: str | None
    presets: tuple[str, ...]
    command: tuple[str, ...]
    """What the user wants recorded."""
    commands: tuple[tuple[str, ...], ...]
    """What is run for that, in order."""
    called_as: tuple[str, ...]
    started_utc: str
    environment: dict[str, str] = field(default_factory=dict)
    """What the program had, of the variables that are kept."""
    carried: dict[str, str] = field(default_factory=dict)
    """What was set for the program with --env."""
    environment_of: str | None = None
    """The program that was seen to have `environment`; None where it is ours, which the program inherits."""
    machine: Machine | None = None
    git: Commit | None = None
    via: tuple[str, ...] | None = None
    session: str | None = None
    state: str = RUNNING
    reason: str | None = None
    exit_code: int | None = None
    seconds: float | None = None
    files: tuple[RecordedFile, ...] = ()
    checks: tuple[RecordedCheck, ...] = ()
    plain: PlainRun | None = None
    """None where no time is compared: kernels that ncu replays, a piece of a server."""
    pid: int | None = field(default_factory=os.getpid)

    def to_dict(self) -> dict[str, Any]:
        return {
            "schema": MANIFEST_SCHEMA,
            "state": self.state,
            "reason": self.reason,
            "tool": self.tool,
            "versions": {"gpuledger": own_version(), self.tool: self.tool_version},
            "presets": list(self.presets),
            "command": without_secrets(self.command),
            "commands": [without_secrets(each) for each in self.commands],
            "called_as": without_secrets(self.called_as),
            "via": None if self.via is None else without_secrets(self.via),
            "session": self.session,
            "started_utc": self.started_utc,
            "seconds": None if self.seconds is None else round(self.seconds, 3),
            "exit_code": self.exit_code,
            "plain": None if self.plain is None else _plain(self.plain),
            "pid": self.pid,
            "environment": self.environment,
            "environment_of": self.environment_of,
            "carried": self.carried,
            "git": None if self.git is None else {"commit": self.git.commit, "dirty": self.git.is_dirty},
            "machine": None if self.machine is None else _machine(self.machine),
            "files": [dataclasses.asdict(each) for each in self.files],
            "checks": [dataclasses.asdict(each) for each in self.checks],
        }


def _plain(plain: PlainRun) -> dict[str, Any]:
    return dataclasses.asdict(plain) | {
        "window_ns": None if plain.window_ns is None else list(plain.window_ns),
        "seconds": None if plain.seconds is None else round(plain.seconds, 3),
    }


def _machine(machine: Machine) -> dict[str, Any]:
    keys = ("index", "name", "memory_bytes", "sm_mhz", "highest_sm_mhz", "power_limit_mw")
    return {
        "driver": machine.driver,
        "gpus": [{key: getattr(gpu, key) for key in keys} for gpu in machine.gpus],
        "reason": machine.reason or None,
    }


def utc(seconds: float) -> str:
    """A time, in seconds as the system counts them, as a manifest writes it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def written(manifest: Manifest, path: Path) -> None:
    """Write the manifest, whole or not at all."""
    text = json.dumps(manifest.to_dict(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    try:
        with whole_file(path, private=True) as file:
            file.write(text.encode(errors="backslashreplace"))
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise full(path.parent) from None
        raise OutputRefused(
            f"{path.parent}: cannot be written to: {(error.strerror or str(error)).lower()}",
            hint="-o names another place for the profile",
        ) from None


def full(folder: Path) -> OutputRefused:
    """The error where a disk is full."""
    return OutputRefused(
        f"{folder}: the disk is full",
        hint="free some space, or name another place with -o; shorter captures are smaller",
    )
