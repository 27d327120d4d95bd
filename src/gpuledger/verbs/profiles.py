"""The profiles that verbs are asked about: a path, or a trace that was read already."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from gpuledger.errors import GpuledgerError
from gpuledger.limits import DEFAULT_LIMITS, Limits
from gpuledger.read import SAMPLES, open_trace, wanted_columns
from gpuledger.selection import SLOWEST, Selection
from gpuledger.stages import NOBODY, Listener
from gpuledger.trace.model import Trace
from gpuledger.trace.tables import EVENTS, Table

if TYPE_CHECKING:
    from gpuledger.analyse.ranks.rank import Place

WHERE_SAMPLED: Final = {**SAMPLES, **wanted_columns((Table.KERNELS,))}
"""What is read besides where a GPU was sampled: samples are laid to kernels of a shape."""

Profile = Trace | str | Path  # a profile: where it is, or what was read of it


class ProfileReading(Struct, frozen=True):
    """How profiles are read: what that may cost, who is told of it, and what names the work inside CUDA graphs."""

    limits: Limits = DEFAULT_LIMITS
    progress: Listener = NOBODY
    names_from: Path | None = None
    rank: int | str | None = None

    def trace(
        self,
        profile: Profile,
        only: Collection[Table] | Mapping[Table, Collection[str]] = EVENTS,
        where_sampled: Mapping[Table, Collection[str]] | None = None,
    ) -> Trace:
        if isinstance(profile, Trace):
            return profile if self.rank is None else _one_rank(profile, "profile", self.rank)
        path, rank = (profile, None) if self.rank is None else self._of_rank(str(profile), self.rank)
        trace = open_trace(
            path, only=only, where_sampled=where_sampled or {}, limits=self.limits, progress=self.progress
        )
        if rank is not None:
            trace = _one_rank(trace, Path(path).name, rank)
        return trace if self.names_from is None else self._named(trace, Path(profile).name, self.names_from)

    def _of_rank(self, profile: str, rank: int | str) -> tuple[str | Path, int | str | Place | None]:
        """The file of a rank, and which of those in it that is; None where it is the only one."""
        from gpuledger.jobs.run import fleet, job_profiles

        if rank == SLOWEST:
            job = fleet((profile,), Selection(), count=0, limits=self.limits).job
            computed = [rank.compute_ns / rank.step_count for rank in job.ranks]
            slowness = list(zip((part.caused_ns for part in job.parts), computed, strict=True))
            slowest = job.ranks[slowness.index(max(slowness))]
            files = {file.name: file.address for file in job_profiles((profile,), self.limits)[0]}
            return files[slowest.profile], slowest.place
        if Path(profile).is_file():
            return profile, rank
        found, _ = job_profiles((profile,), self.limits)
        if len(found) == 1:
            return found[0].address, rank
        opened = (open_trace(file.address, only=(Table.COLLECTIVES,), limits=self.limits) for file in found)
        numbers = [trace.origin.rank for trace in opened]
        if all(number is None for number in numbers):  # then in the order of their names
            numbers = list(range(len(found)))
        if rank not in numbers:
            listed = "\n".join(f"rank {number}: {file.name}" for number, file in zip(numbers, found, strict=True))
            raise GpuledgerError(f"{profile}: no rank {rank} in it", found=listed)
        return found[numbers.index(int(rank))].address, None

    def _named(self, trace: Trace, profile: str, names_from: Path) -> Trace:
        from gpuledger.analyse.operators.graph_places import named_by_nodes, named_by_trace
        from gpuledger.read.torch.reader import is_kernel_annotations, kernel_annotations

        if is_kernel_annotations(names_from):
            return named_by_nodes(trace, profile, kernel_annotations(names_from, self.limits), names_from.name)
        other = open_trace(names_from, limits=self.limits, progress=self.progress)
        return named_by_trace(trace, profile, other, names_from.name)


def _one_rank(trace: Trace, name: str, rank: int | str | Place) -> Trace:
    from gpuledger.analyse.ranks.rank import rank_at

    if isinstance(rank, str):
        raise GpuledgerError(f"{name}: which rank is the slowest can only be asked of a file or a folder")
    return rank_at(trace, name, rank)


def profile_name(profile: Profile, otherwise: str = "profile") -> str:
    """What to call a profile: the name of its file."""
    return otherwise if isinstance(profile, Trace) else Path(profile).name
