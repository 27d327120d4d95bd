"""Who does what, against whom: inputs and peers in, contests out. A contest is one task, ours first, then the others.

Cold means that nothing is left from an earlier run; the file itself is in the system's memory for everyone, as the
runs before left it there. Warm means that a program finds what it kept on its first run.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.answers import (
    Agreement,
    Compare,
    exact_replay,
    same_books,
    same_breakdown,
    same_kernels,
    same_opened,
    same_tables,
    same_text,
)
from harness.books import Books
from harness.inputs import HERE
from harness.measure import Command, Env, Failed, once
from harness.peers import HTA, NSYS, NSYS_AI, Peer, home

TABLES: Final = "cuda_gpu_kern_sum,cuda_api_sum,nvtx_sum"
KEPT_NOTHING: Final = "not kept after its first run, so there is no second"
_COLD: Final[Env] = (("GPULEDGER_CACHE", "0"),)
_PRIMING_S: Final = 1800.0


@dataclass(frozen=True, slots=True)
class Entry:
    """One program's way to do the task; without a command it is not installed."""

    program: str
    command: Command | None
    agrees: Compare | None = None


@dataclass(frozen=True, slots=True)
class Contest:
    """One task on one input."""

    name: str
    task: str
    size: int
    """Kernels or events; 0 where there is no input."""
    file_bytes: int
    ours: Entry
    others: tuple[Entry, ...]
    check: Callable[[str], Agreement] | None = None
    """Our answer against what is known of the input."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where everything is."""

    work: Path
    peers: dict[str, Peer]


def start_contest() -> Contest:
    """Starting, which every command pays."""
    others = (
        Entry("gpuledger report --help", _gpuledger("report", "--help")),
        Entry("python -c 'import click'", Command((sys.executable, "-c", "import click"))),
        Entry("python -c 'import numpy'", Command((sys.executable, "-c", "import numpy"))),
        Entry("python -c pass", Command((sys.executable, "-c", "pass"))),
    )
    return Contest("start", "start", 0, 0, Entry("gpuledger --version", _gpuledger("--version")), others)


def nsys_contests(export: Path, kernels: int, books: Books, place: Place) -> Iterator[Contest]:
    """All about one SQLite export."""

    def contest(
        name: str, task: str, ours: Entry, others: tuple[Entry, ...], check: Callable[[str], Agreement] | None = None
    ) -> Contest:
        return Contest(name, task, kernels, size, ours, others, check)

    path, size = str(export), export.stat().st_size
    floor = Entry("cat FILE > /dev/null", Command(("cat", path), keeps_output=False))
    nsys = _nsys(path, place)
    tables = ("stats", path, f"--report={TABLES}", "--format=csv")
    table = ("stats", path, f"--report={TABLES.split(',')[0]}", "--format=csv")
    report = ("report", path, "--format=json")
    opening = (sys.executable, str(HERE / "programs" / "open_profile.py"), path)
    cold_report = Entry("gpuledger report, cold", _gpuledger(*report))
    cold_open = Command(opening, _COLD, is_timed_inside=True)
    warm_open = _warm(Command(opening, is_timed_inside=True), place.work / "cache" / f"open-{kernels}")
    yield contest("stats", "three tables, cold", Entry("gpuledger stats", _gpuledger(*tables)), (nsys, floor))
    against = (Entry(f"{nsys.program}, three tables", nsys.command), floor)
    yield contest("report", "the whole report as JSON, cold", cold_report, against, same_books(books))
    ai_cold = (_nsys_ai(export, place, "cold"), _nsys_ai(export, place, "no-cache"))
    yield contest("table", "one kernel table, cold", Entry("gpuledger stats", _gpuledger(*table)), ai_cold)
    again = Entry("gpuledger stats, kept", _warm(_gpuledger(*table), place.work / "cache" / f"table-{kernels}"))
    yield contest("table", "one kernel table, warm", again, (_nsys_ai(export, place, "warm"),))
    again = Entry("gpuledger report, kept", _warm(_gpuledger(*report), place.work / "cache" / f"report-{kernels}"))
    first = Entry(cold_report.program, cold_report.command, same_text)
    yield contest("warm", "the whole report as JSON, warm", again, (first,), same_books(books))
    first = Entry("open_trace, cold", cold_open, same_opened)
    yield contest("open", "opening alone, in Python, warm", Entry("open_trace, kept", warm_open), (first,))
    replay = (sys.executable, str(HERE / "programs" / "replay_profile.py"), path)
    once_more = Entry("one more replay", Command((*replay, "--pass"), _COLD, is_timed_inside=True))
    ours = Entry("graph and replay", Command(replay, _COLD, is_timed_inside=True))
    yield contest("replay", "the dependency graph and its replay, in Python", ours, (once_more,), exact_replay)


def torch_contest(trace: Path, events: int, place: Place) -> Contest:
    """A trace of torch.profiler."""
    peer = place.peers[HTA]
    program, path = HERE / "programs" / "hta_breakdown.py", str(trace)
    env = (("HOME", str(home(place.work))), ("HTA_DISABLE_NS_ROUNDING", "1"), ("PYTHONWARNINGS", "ignore"))
    command = Command((str(peer.program), str(program), path), env) if peer.program else None
    others = (
        Entry(f"{peer.full_name}, two tables", command, same_breakdown),
        Entry("cat FILE > /dev/null", Command(("cat", path), keeps_output=False)),
    )
    ours = Entry("gpuledger report", _gpuledger("report", path, "--format=json"))
    return Contest("torch", "the whole report as JSON, cold", events, trace.stat().st_size, ours, others)


def _gpuledger(*arguments: str) -> Command:
    return Command((sys.executable, "-m", "gpuledger", *arguments), _COLD)


def _nsys(path: str, place: Place) -> Entry:
    peer = place.peers[NSYS]
    arguments = ("stats", "--quiet", "--format=csv", f"--report={TABLES}", path)
    return Entry(peer.full_name, Command((str(peer.program), *arguments)) if peer.program else None, same_tables)


def _warm(cold: Command, cache: Path) -> Command:
    """The same command with a cache folder of its own, which a first run fills."""
    env = (("GPULEDGER_CACHE", "always"), ("XDG_CACHE_HOME", str(cache.absolute())))
    warm = Command(cold.argv, env, is_timed_inside=cold.is_timed_inside)

    def fill() -> str | None:
        shutil.rmtree(cache, ignore_errors=True)
        ran = once(warm, _PRIMING_S)
        if isinstance(ran, Failed):
            return ran.reason
        return None if any(each.is_file() for each in cache.rglob("*")) else KEPT_NOTHING

    return Command(warm.argv, env, is_timed_inside=cold.is_timed_inside, first=fill)


def _nsys_ai(export: Path, place: Place, mode: str) -> Entry:
    """One table. It gets a copy of the export, as it keeps its cache beside the file and may write into it."""
    peer = place.peers[NSYS_AI]
    said = {"cold": "first open", "no-cache": "--no-cache", "warm": "second open"}[mode]
    if not peer.program:
        return Entry(f"{peer.name}, {said}", None)
    folder = place.work / NSYS_AI
    copy = folder / export.name
    ending = ("--no-cache",) if mode == "no-cache" else ()
    question = ("skill", "run", "top_kernels", str(copy), "--format=json", "--param", "limit=1000000", *ending)
    argv = (str(peer.program), "-m", "nsys_ai", *question)
    env = (("HOME", str(home(place.work))),)

    def clean() -> None:
        for each in folder.glob(f"{export.stem}.nsys-cache*"):
            shutil.rmtree(each) if each.is_dir() else each.unlink()
        if not copy.exists() or copy.stat().st_size != export.stat().st_size:
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(export, copy)

    def fill() -> str | None:
        clean()
        ran = once(Command(argv, env), _PRIMING_S)
        return ran.reason if isinstance(ran, Failed) else None

    again = mode == "warm"
    command = Command(argv, env, first=fill if again else None, before=None if again else clean)
    return Entry(f"{peer.full_name}, {said}", command, same_kernels)
