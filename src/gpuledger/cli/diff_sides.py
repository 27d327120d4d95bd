"""What the user names, as a side to compare: a profile, several runs, a baseline, or tables of `nsys stats`."""

from __future__ import annotations

from pathlib import Path

from gpuledger.analyse.diff.baseline import from_document, is_baseline
from gpuledger.analyse.diff.from_tables import side_of_tables
from gpuledger.analyse.diff.from_timing import side_of_timing, sides_of_pair
from gpuledger.analyse.diff.from_trace import busiest, side_of
from gpuledger.analyse.diff.run_side import RunSide, pooled
from gpuledger.analyse.timed_operations import TimedOperation, is_timing, timed_operations
from gpuledger.cli.progress import ProgressLine
from gpuledger.errors import UnreadableProfile
from gpuledger.fleet.profiles import job_profiles
from gpuledger.ledger.device import analysed
from gpuledger.ledger.steps import Wanted
from gpuledger.limits import Limits
from gpuledger.read import SAMPLES, open_trace
from gpuledger.read.source import look_at, opened
from gpuledger.read.stats_text.tables import is_printed_tables, open_summaries
from gpuledger.stages import BOOKS
from gpuledger.units import bytes_text


class Sides:
    """Reads sides. All of one comparison are of the same GPU: that of the first, where the others use it too."""

    def __init__(self, wanted: Wanted, tell: ProgressLine, limits: Limits) -> None:
        self._wanted, self._tell, self._limits = wanted, tell, limits
        self._gpu: int | None = None

    def read(self, given: str) -> RunSide:
        """The side at a path or glob."""
        path = Path(given)
        if path.is_file() and is_baseline(look_at(path).head):
            return self._kept(from_document(_content(path, "baseline", self._limits), path.name))
        if (timed := timings_at(given, self._limits)) is not None:
            return side_of_timing(_only(timed, path.name), path.name)
        if is_printed_tables(given, limits=self._limits):
            return side_of_tables(open_summaries(given, limits=self._limits), path.name, self._wanted.families)
        found, failed = job_profiles([given], self._limits)
        if failed:
            raise UnreadableProfile(f"{failed[0].name}: {failed[0].sentence}")
        runs = [self._of_profile(profile.address, profile.name) for profile in found]
        return pooled(runs, path.name or given)

    def _of_profile(self, address: str, name: str) -> RunSide:
        self._tell.clear()
        trace = open_trace(address, where_sampled=SAMPLES, limits=self._limits, progress=self._tell)
        self._tell.stage(BOOKS)
        devices = analysed(trace, name, self._wanted)
        return self._kept(side_of(trace, devices, busiest(devices, self._gpu), name, self._wanted.families))

    def _kept(self, side: RunSide) -> RunSide:
        if self._gpu is None:
            self._gpu = side.gpu
        return side


def told_apart(one: str, other: str) -> tuple[str, str]:
    """What to call two files: their names, with as many folders as it takes to tell them apart."""
    parts = Path(one).parts, Path(other).parts
    longest = max(map(len, parts))
    least = next((count for count in range(1, longest + 1) if parts[0][-count:] != parts[1][-count:]), 1)
    return str(Path(*parts[0][-least:])), str(Path(*parts[1][-least:]))


def timings_at(given: str, limits: Limits) -> tuple[TimedOperation, ...] | None:
    """What `gpuledger time` wrote there, one operation or two; None where it is something else."""
    path = Path(given)
    if not path.is_file() or not is_timing(look_at(path).head):
        return None
    return timed_operations(_content(path, "timing", limits), path.name)


def pair_of_timings(given: str, limits: Limits) -> tuple[RunSide, RunSide] | None:
    """Both sides from one file of two operations that were timed in turns; None where it is something else."""
    timed = timings_at(given, limits)
    if timed is None or len(timed) == 1:
        return None
    return sides_of_pair(*timed)


def _only(timed: tuple[TimedOperation, ...], name: str) -> TimedOperation:
    if len(timed) > 1:
        raise UnreadableProfile(
            f"{name}: holds two operations that were timed in turns", hint=f"`gpuledger diff {name}` compares the two"
        )
    return timed[0]


def _content(path: Path, what: str, limits: Limits) -> bytes:
    source = look_at(path)
    if source.size > limits.event_bytes:
        most = bytes_text(limits.event_bytes)
        raise UnreadableProfile(
            f"{source.name}: {bytes_text(source.size)}, and no {what} is larger than {most}",
            hint=f"if this is one: --limit=event-bytes={source.size}",
        )
    with opened(source) as file:
        return file.read()
