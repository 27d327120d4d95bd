"""Sides of a comparison: each a profile, several runs, a baseline, a timing, or printed tables."""

from __future__ import annotations

import gc
import shlex
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from gpuledger.analyse.diff.baseline import is_baseline, read_baseline
from gpuledger.analyse.diff.from_tables import side_of_tables
from gpuledger.analyse.diff.from_trace import busiest, side_of
from gpuledger.analyse.diff.run_side import RunSide, like_sides, pool_runs, side_of_timing, sides_of_pair
from gpuledger.errors import UnreadableProfile
from gpuledger.findings.profiled_run import columns_for
from gpuledger.jobs.run import job_profiles
from gpuledger.ledger.device import Device, analyse_devices
from gpuledger.limits import DEFAULT_LIMITS, Limits
from gpuledger.read.source import look_at, opened
from gpuledger.read.stats_text.tables import is_printed_tables, open_summaries
from gpuledger.selection import Selection
from gpuledger.stages import BOOKS, NOBODY, Listener
from gpuledger.timing.timed_operations import TimedOperation, is_timing, timed_operations
from gpuledger.trace.model import Trace
from gpuledger.units import bytes_text
from gpuledger.verbs.profiles import WHERE_SAMPLED, Profile, read_profile


def read_sides(
    before: Profile, after: Profile, wanted: Selection, limits: Limits = DEFAULT_LIMITS, progress: Listener = NOBODY
) -> tuple[RunSide, RunSide]:
    """Both sides, of the same GPU, cut into steps alike; under names that tell them apart."""

    def read(asked: Selection) -> tuple[RunSide, RunSide]:
        sides = Sides(asked, progress, limits)
        return sides.read(before, "before"), sides.read(after, "after")

    one, other = like_sides(read, wanted)
    if one.name != other.name:
        return one, other
    names = told_apart(before, after)
    return replace(one, name=names[0]), replace(other, name=names[1])


class Sides:
    """Reads sides. All of one comparison are of the same GPU: that of the first, where the others use it too."""

    def __init__(
        self, wanted: Selection, tell: Listener, limits: Limits, look: Callable[[Trace, Device], object] = lambda *_: 0
    ) -> None:
        """`look` sees each trace that a side is made of, with the GPU that is compared."""
        self._wanted, self._tell, self._limits, self._look = wanted, tell, limits, look
        self._gpu: int | None = None

    def read(self, given: Profile, otherwise: str = "") -> RunSide:
        if isinstance(given, Trace):
            return self._of_profile(given, otherwise)
        path, given = Path(given), str(given)
        if path.is_file() and is_baseline(look_at(path).head):
            return self._keep_gpu(read_baseline(_content(path, "baseline", self._limits), path.name))
        if (timed := timings_at(given, self._limits)) is not None:
            return side_of_timing(_only(timed, path.name), path.name)
        if is_printed_tables(given, limits=self._limits):
            return side_of_tables(open_summaries(given, limits=self._limits), path.name, self._wanted.families)
        if self._wanted.rank is not None:
            return self._of_profile(given, path.name)
        found, failed = job_profiles([given], self._limits)
        if failed:
            raise UnreadableProfile(f"{failed[0].profile}: {failed[0].sentence}")
        runs = [self._of_profile(profile.address, profile.name) for profile in found]
        return pool_runs(runs, path.name or given)

    def _of_profile(self, profile: Profile, name: str) -> RunSide:
        self._tell.clear()
        gc.collect()  # the last side's trace and books, which refer to each other in a circle
        trace = read_profile(
            profile, columns_for(), WHERE_SAMPLED, wanted=self._wanted, limits=self._limits, progress=self._tell
        )
        self._tell.stage(BOOKS)
        devices = analyse_devices(trace, name, self._wanted)
        device = busiest(devices, self._gpu)
        self._look(trace, device)
        return self._keep_gpu(side_of(trace, devices, device, name, self._wanted.families))

    def _keep_gpu(self, side: RunSide) -> RunSide:
        if self._gpu is None:
            self._gpu = side.gpu
        return side


def told_apart(one: Profile, other: Profile) -> tuple[str, str]:
    """What to call two files: their names, with as many folders as it takes to tell them apart."""
    if isinstance(one, Trace) or isinstance(other, Trace):
        return "before", "after"
    parts = Path(one).parts, Path(other).parts
    longest = max(map(len, parts))
    least = next((count for count in range(1, longest + 1) if parts[0][-count:] != parts[1][-count:]), 1)
    return str(Path(*parts[0][-least:])), str(Path(*parts[1][-least:]))


def timings_at(given: str | Path, limits: Limits) -> tuple[TimedOperation, ...] | None:
    """What `gpuledger time` wrote there, one operation or two; None where it is something else."""
    path = Path(given)
    if not path.is_file() or not is_timing(look_at(path).head):
        return None
    return timed_operations(_content(path, "timing", limits), path.name)


def pair_of_timings(given: str | Path, limits: Limits) -> tuple[RunSide, RunSide] | None:
    """Both sides from one file of two operations that were timed in turns; None where it is something else."""
    timed = timings_at(given, limits)
    if timed is None or len(timed) == 1:
        return None
    return sides_of_pair(*timed)


def _only(timed: tuple[TimedOperation, ...], name: str) -> TimedOperation:
    if len(timed) > 1:
        raise UnreadableProfile(
            f"{name}: holds two operations that were timed in turns",
            hint=f"`gpuledger diff {shlex.quote(name)}` compares the two",
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
