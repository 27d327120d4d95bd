"""Does `fleet` need more memory with every rank? Jobs of more and more generated ranks, by local workers and by Dask.

    .venv/bin/python benchmarks/fleet.py      # 64, 256, 512 traces of 3 MB; 8, 16, 64 exports of 100 MB
    .venv/bin/python benchmarks/fleet.py --small 64,512 --large "" --by local

Per job: seconds, megabytes of its own that the command has at most, and the largest of its workers. The Dask cluster is
a scheduler and workers of this machine, through TCP, as the guide starts them. It fails where a further rank costs the
command more than what is kept of it and replayed, where a worker needs more the more ranks there are, or where Dask's
answer is not the local one, byte for byte. The exports are links to one file, which each rank is read from anew.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import gen_ranks
from growth import COLD, OURS
from harness import machine
from harness.inputs import HERE, export_of
from harness.measure import Command, Failed, Measured, once

EVENTS: Final = 12_000  # per small rank: 400 launches in each of 5 steps, 3 MB
STEPS: Final = 5
KERNELS: Final = 750_000  # per large rank: 100 MB
WORKERS: Final = 2
LIMIT_S: Final = 1800.0
REPLAYED_BYTES: Final = 1_000_000
"""What some steps of a rank take while all ranks are replayed together; of 1.5 M operations in all, as more are not."""
KEPT_SHARE: Final = 0.03
"""What is kept of a rank until all have come, its collectives' times above all, as a part of its profile."""
WORKER_ROOM: Final = 1.5
START_BYTES: Final = 50_000_000
"""What a worker takes without a profile; growth is told from what is above it."""
AS_IN_GUIDE: Final = {"MALLOC_TRIM_THRESHOLD_": "268435456", "MALLOC_MMAP_THRESHOLD_": "33554432"}


@dataclass(frozen=True)
class Size:
    """What one job took."""

    ranks: int
    rank_bytes: int
    run: Measured

    def __str__(self) -> str:
        run, megabyte = self.run, 1_000_000
        memory = f"main {run.main_bytes / megabyte:5.0f} MB, largest other {run.other_bytes / megabyte:5.0f} MB"
        return f"{self.ranks:>4} ranks of {self.rank_bytes / megabyte:5.1f} MB {run.wall_s:7.1f} s  {memory}"


def small_job(ranks: int, work: Path) -> Path:
    """A job of small torch traces."""
    folder = work / "fleet" / f"small-{ranks}"
    if not folder.exists():
        part = folder.with_suffix(".part")
        gen_ranks.write_job(part, ranks=ranks, events=EVENTS, steps=STEPS)
        part.rename(folder)
    return folder


def large_job(ranks: int, work: Path) -> Path:
    """A job of large exports."""
    folder = work / "fleet" / f"large-{ranks}"
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(ranks):
        with contextlib.suppress(FileExistsError):
            os.link(export_of(KERNELS, work), folder / f"rank{number:04}.sqlite")
    return folder


@contextlib.contextmanager
def cluster(work: Path) -> Iterator[tuple[str, tuple[int, ...]]]:
    """A Dask cluster of this machine: its address, and the sessions of its processes."""
    dask, file = (sys.executable, "-m", "dask"), work / "fleet" / "scheduler.json"
    file.unlink(missing_ok=True)
    started: list[subprocess.Popen[bytes]] = []

    def start(*argv: str) -> None:
        started.append(
            subprocess.Popen(
                (*dask, *argv, "--no-dashboard"),
                env=os.environ | AS_IN_GUIDE | dict(COLD),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        )

    try:
        start("scheduler", f"--scheduler-file={file}", "--port=0", "--host=127.0.0.1")
        while not file.exists() or not file.stat().st_size:
            time.sleep(0.1)
        address = json.loads(file.read_text())["address"]
        for _ in range(WORKERS):
            start("worker", address, "--nthreads=1", f"--local-directory={file.parent / 'dask'}")
        yield address, tuple(process.pid for process in started)
    finally:
        for process in started:  # a worker that is asked to end looks for its scheduler first
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def job_run(folder: Path, by: str, work: Path) -> Measured | Failed:
    """One run, watched."""
    argv = (*OURS, "fleet", str(folder), "--format=json")
    if by == "local":
        return once(Command((*argv, f"--workers={WORKERS}"), COLD), LIMIT_S, looks_at_memory=True)
    with cluster(work) as (address, sessions):
        command = Command((*argv, f"--scheduler={address}"), COLD, helpers=sessions)
        return once(command, LIMIT_S, looks_at_memory=True)


def faults(kind: str, sizes: list[Size]) -> list[str]:
    """What is wrong with how a job's memory grows."""
    first, last = sizes[0], sizes[-1]
    if first is last:
        return []
    wrong = []
    more = (last.run.main_bytes - first.run.main_bytes) / (last.ranks - first.ranks)
    allowed = REPLAYED_BYTES + KEPT_SHARE * last.rank_bytes
    if more > allowed:
        wrong.append(f"{kind}: {more / 1e6:.2f} MB for each further rank, at most {allowed / 1e6:.2f} MB")
    most = START_BYTES + WORKER_ROOM * max(first.run.other_bytes - START_BYTES, START_BYTES)
    if last.run.other_bytes > most:
        wrong.append(f"{kind}: a worker of {last.run.other_bytes / 1e6:.0f} MB, at most {most / 1e6:.0f} MB")
    return wrong


def main() -> None:
    """Measure, print, and fail where memory grows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", default="64,256,512", help="Ranks of jobs of small traces, with commas.")
    parser.add_argument("--large", default="8,16,64", help="Ranks of jobs of large exports.")
    parser.add_argument("--by", nargs="+", default=("local", "dask"), choices=("local", "dask"))
    parser.add_argument("--work", type=Path, default=HERE.parent / "build" / "bench")
    asked = parser.parse_args()
    machine.compile_package()
    wrong = list[str]()
    for kind, make, counts in (("small", small_job, asked.small), ("large", large_job, asked.large)):
        answers = dict[int, str]()
        for by in asked.by:
            sizes = list[Size]()
            for ranks in map(int, filter(None, counts.split(","))):
                folder = make(ranks, asked.work)
                run = job_run(folder, by, asked.work)
                if isinstance(run, Failed):
                    wrong.append(f"{kind}, {by}, {ranks} ranks: {run.reason}")
                    break
                sizes.append(Size(ranks, next(folder.iterdir()).stat().st_size, run))
                print(f"{kind} {by:5} {sizes[-1]}", flush=True)
                if answers.setdefault(ranks, run.output) != run.output:
                    wrong.append(f"{kind}, {by}, {ranks} ranks: another answer than by {asked.by[0]}")
            wrong += faults(f"{kind} {by}", sizes) if sizes else []
    print("\n".join(f"error: {line}" for line in wrong))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
