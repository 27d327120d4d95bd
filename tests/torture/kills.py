"""Calls that are killed at some moment, or have no room for what they write: the output is whole or not there."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

from gpuledger.system.files import PARTIAL
from torture.bench import Bench, Tried, Verdict
from torture.captures import packed, small

_OUTPUTS = (
    ("report", "a.html"),
    ("report", "a.json"),
    ("report", "a.md"),
    ("export", "a.pftrace"),
    ("export", "a.json"),
)
_SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
_LEAST_BYTES = 4096
"""Sentences on stderr have room."""


def killed(bench: Bench) -> Iterator[Verdict]:
    """Ended by a signal at any moment."""
    while True:
        path, verb, name = _chosen(bench)
        begun = time.monotonic()
        first, whole = _written(bench, verb, path, name)
        if first.verdict != "read":
            yield Verdict(f"{path.name}: {verb} to {name}", first.verdict, first.said)
            continue
        after_s, number = bench.chance.uniform(0, time.monotonic() - begun), bench.chance.choice(_SIGNALS)
        ran, written = _written(bench, verb, path, name, ended=(after_s, number))
        verdict = "torn" if written and written != whole else ran.verdict
        case = f"{path.name}: {verb} to {name}, ended by {number.name} after {after_s:.3f} s"
        yield Verdict(case, verdict, f"{ran.said}{_sizes(whole)}, then {_sizes(written)}")


def without_room(bench: Bench) -> Iterator[Verdict]:
    """No file may grow as large as the output is."""
    while True:
        path, verb, name = _chosen(bench)
        _, whole = _written(bench, verb, path, name)
        size = max((len(content) for content in whole.values()), default=0)
        if size <= _LEAST_BYTES:
            continue
        room = bench.chance.randrange(_LEAST_BYTES, size)
        ran, written = _written(bench, verb, path, name, file_bytes=room)
        verdict = "torn" if written else "wrong" if ran.verdict == "read" else ran.verdict
        yield Verdict(f"{path.name}: {verb} to {name} with room for {room} bytes", verdict, ran.said)


def _chosen(bench: Bench) -> tuple[Path, str, str]:
    timelines = [capture for capture in packed() if not capture.name.endswith(".csv.xz")]
    while True:
        path = small(bench.chance.choice(timelines), bench.folder)
        if bench.whole(path).verdict == "read":  # a copy may be too short for a report
            return path, *bench.chance.choice(_OUTPUTS)


def _sizes(files: dict[str, bytes]) -> str:
    return ", ".join(f"{name} of {len(content)} bytes" for name, content in files.items()) or "nothing"


def _written(
    bench: Bench,
    verb: str,
    path: Path,
    name: str,
    ended: tuple[float, int] | None = None,
    file_bytes: int | None = None,
) -> tuple[Tried, dict[str, bytes]]:
    """How the call ended, and what lies where it writes; what a kill leaves half done has a name that says so."""
    target = bench.empty("written")
    ran = bench.call(verb, path, "-o", target / name, ended=ended, file_bytes=file_bytes)
    is_killed = ended is not None and ended[1] != signal.SIGINT
    files = [file for file in target.iterdir() if not (is_killed and file.name.endswith(PARTIAL))]
    return ran, {file.name: file.read_bytes() for file in files}
