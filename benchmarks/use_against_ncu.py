#!/usr/bin/env python3
"""Hold use of the GPU from samples against Nsight Compute: use_against_ncu.py FOLDER, as captures/use.sh fills it.

FOLDER has NAME.csv.xz of ncu and exports.tar.0, .1, ... with an export per program, in which programs are parted by the
kernel `spin_kernel`; or, to look at one pair, `use_against_ncu.py PROFILE.sqlite NCU.csv`. Prints a table per counter,
and with --misses the kernels whose interval does not hold what was counted.
"""

from __future__ import annotations

import argparse
import io
import json
import lzma
import tarfile
import tempfile
from pathlib import Path

import numpy as np

from gpuledger.analyse.utilization.against_counters import CounterComparison, agreement, held_against
from gpuledger.analyse.utilization.kernel_use import use_of_kernels
from gpuledger.catalog.gpu_metrics import OF_KERNELS
from gpuledger.read import open_trace
from gpuledger.read.ncu.reader import open_kernels
from gpuledger.trace.measured import KernelReport, Profiled
from gpuledger.trace.model import NotMeasured
from gpuledger.trace.tables import Table

PARTING = "spin_kernel"


def by_program(report: KernelReport, programs: list[str]) -> dict[str, KernelReport]:
    """The launches of each program, in the order in which they were counted."""
    parts: list[list[Profiled]] = []
    for launch in report.launches:
        if PARTING in launch.name:
            parts.append([])
        elif parts:
            parts[-1].append(launch)
    return {name: KernelReport(tuple(launches)) for name, launches in zip(programs, parts, strict=True)}


def counted(folder: Path, *, flushed: bool = False) -> dict[str, KernelReport]:
    """What Nsight Compute counted, by program; `flushed`: with caches emptied before each launch."""
    found: dict[str, KernelReport] = {}
    with tarfile.open(folder / "use.tar.gz") as logs:
        for packed in sorted(folder.glob("*.csv.xz")):
            name = packed.name.removesuffix(".csv.xz")
            if name.endswith("_flushed") != flushed:
                continue
            lines = logs.extractfile(f"use/{name}.jsonl")
            assert lines is not None
            rows = [json.loads(line) for line in lines.read().decode().splitlines()]
            programs = [row["program"] for row in rows if "error" not in row]
            with tempfile.NamedTemporaryFile(suffix=".csv") as plain:
                plain.write(lzma.decompress(packed.read_bytes()))
                plain.flush()
                report = open_kernels([Path(plain.name)])
            found |= by_program(report, programs)
    return found


def exports(folder: Path) -> dict[str, bytes]:
    """The export of each window, by program; `.2` and `.3` are further rounds of it."""
    whole = b"".join(part.read_bytes() for part in sorted(folder.glob("exports.tar.*")))
    with tarfile.open(fileobj=io.BytesIO(whole)) as archive:
        return {
            Path(member.name).name.removesuffix(".sqlite.xz"): lzma.decompress(content.read())
            for member in archive.getmembers()
            if member.name.startswith("exports/") and (content := archive.extractfile(member)) is not None
        }


def compared(profile: Path, report: KernelReport) -> tuple[CounterComparison, ...]:
    """One program."""
    trace = open_trace(profile, only=tuple(Table), cache=False)
    use = use_of_kernels(trace, 0)
    if isinstance(use, NotMeasured):
        raise SystemExit(f"{profile}: {use.reason}")
    print(f"  {profile.name}: lag {use.lag_ns / 1000:.1f} us, {use.samples} samples, {len(use.kernels)} kernels")
    return held_against(use, report)


def shown(held: dict[str, tuple[CounterComparison, ...]], *, misses: bool) -> None:
    """A table per counter."""
    everything = tuple(each for part in held.values() for each in part)
    headings = "kernels, mean error by time, within 5 points over 10 us, interval holds: all, under 5 us; usual width"
    for metric in OF_KERNELS:
        print(f"\n{metric}: {headings}")
        for name, part in (*held.items(), ("all", everything)):
            found = agreement(part, metric)
            if found is not None:
                width = np.median([each.sampled.high - each.sampled.low for each in part if each.metric is metric])
                near, short = map(share_text, (found.near_share, found.short_held_share))
                print(f"  {name:18} {found.kernels:4} {found.mean_error:6.2f} {near} {found.held_share:7.1%}", end="")
                print(f" {short} {width:6.1f}")
        for each in everything if misses else ():
            if each.metric is metric and not each.is_held:
                kernel, low, high = each.kernel, each.sampled.low, each.sampled.high
                print(f"    {kernel.name[:60]:60} {kernel.grid} {each.launch_ns / 1000:7.1f} us x", end="")
                print(f" {kernel.launches:5} {each.sampled.percent:5.1f} [{low:5.1f} {high:5.1f}] {each.counted:5.1f}")


def share_text(share: float | None) -> str:
    """A share, if there is one."""
    return "      -" if share is None else f"{share:7.1%}"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("given", nargs="+", type=Path, metavar="FOLDER | PROFILE NCU")
    parser.add_argument("--misses", action="store_true")
    parser.add_argument("--flushed", action="store_true", help="counted by ncu with empty caches")
    parser.add_argument("--round", default="", metavar=".2", help="another round of the programs")
    options = parser.parse_args()
    if len(options.given) == 2:
        profile, answer = options.given
        held = {profile.stem: compared(profile, open_kernels([answer]))}
    else:
        [folder] = options.given
        reports, held = counted(folder, flushed=options.flushed), {}
        windows = exports(folder)
        with tempfile.TemporaryDirectory() as place:
            for name, report in reports.items():
                if (content := windows.get(f"{name}{options.round}")) is not None:
                    profile = Path(place) / f"{name}.sqlite"
                    profile.write_bytes(content)
                    held[name] = compared(profile, report)
    shown(held, misses=options.misses)


if __name__ == "__main__":
    main()
