"""The profiles that verbs are asked about: a path, or a trace that was read already."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Unpack

from gpuledger.errors import GpuledgerError
from gpuledger.limits import DEFAULT_LIMITS, Limits
from gpuledger.read import SAMPLES, open_trace, wanted_columns
from gpuledger.selection import SLOWEST, Selection
from gpuledger.stages import BOOKS, NOBODY, Listener
from gpuledger.trace.model import Trace
from gpuledger.trace.tables import EVENTS, Table
from gpuledger.verbs.definition import ProfileOptions

if TYPE_CHECKING:
    from gpuledger.analyse.ranks.rank import Place
    from gpuledger.ledger.device import Device

WHERE_SAMPLED: Final = {**SAMPLES, **wanted_columns((Table.KERNELS,))}
"""What is read besides where a GPU was sampled: samples are laid to kernels of a shape."""

Profile = Trace | str | Path  # a profile: where it is, or what was read of it


def read_profile(
    profile: Profile,
    only: Collection[Table] | Mapping[Table, Collection[str]] = EVENTS,
    where_sampled: Mapping[Table, Collection[str]] | None = None,
    *,
    wanted: Selection | None = None,
    names_from: Path | None = None,
    limits: Limits = DEFAULT_LIMITS,
    progress: Listener = NOBODY,
) -> Trace:
    """The trace of a profile: of one rank if that is wanted, with names for the work inside CUDA graphs if given."""
    rank = wanted.rank if wanted else None
    if isinstance(profile, Trace):
        return profile if rank is None else _one_rank(profile, "profile", rank)
    path, place = (profile, None) if rank is None else _file_of_rank(str(profile), rank, limits)
    trace = open_trace(path, only=only, where_sampled=where_sampled or {}, limits=limits, progress=progress)
    if place is not None:
        trace = _one_rank(trace, Path(path).name, place)
    return trace if names_from is None else _with_names(trace, Path(profile).name, names_from, limits, progress)


def read_devices(
    profile: Profile,
    columns: Mapping[Table, Collection[str]] | None = None,
    where_sampled: Mapping[Table, Collection[str]] | None = None,
    **asked: Unpack[ProfileOptions],
) -> tuple[str, Trace, tuple[Device, ...]]:
    """The name of a profile, what was read of it, and the books of its GPUs."""
    from gpuledger.findings.profiled_run import columns_for
    from gpuledger.ledger.device import analyse_devices

    if columns is None:
        columns = columns_for(launches=False) if asked.get("names_from") is None else columns_to_name_graphs()
    name, trace = profile_name(profile), read_profile(profile, columns, where_sampled, **asked)
    asked.get("progress", NOBODY).stage(BOOKS)
    return name, trace, analyse_devices(trace, name, asked.get("wanted") or Selection())


def columns_to_name_graphs() -> dict[Table, Collection[str]]:
    """The shapes of launches, and calls with the kernels that they name."""
    from gpuledger.findings.profiled_run import columns_for

    return {**columns_for(), **wanted_columns((Table.CALLS,))}


def _file_of_rank(profile: str, rank: int | str, limits: Limits) -> tuple[str | Path, int | str | Place | None]:
    """The file of a rank, and which of those in it that is; None where it is the only one."""
    from gpuledger.jobs.run import fleet, job_profiles

    if rank == SLOWEST:
        job = fleet((profile,), Selection(), count=0, limits=limits).job
        computed = [rank.compute_ns / rank.step_count for rank in job.ranks]
        slowness = list(zip((part.caused_ns for part in job.parts), computed, strict=True))
        slowest = job.ranks[slowness.index(max(slowness))]
        files = {file.name: file.address for file in job_profiles((profile,), limits)[0]}
        return files[slowest.profile], slowest.place
    if Path(profile).is_file():
        return profile, rank
    found, _ = job_profiles((profile,), limits)
    if len(found) == 1:
        return found[0].address, rank
    opened = (open_trace(file.address, only=(Table.COLLECTIVES,), limits=limits) for file in found)
    numbers = [trace.origin.rank for trace in opened]
    if all(number is None for number in numbers):  # then in the order of their names
        numbers = list(range(len(found)))
    if rank not in numbers:
        listed = "\n".join(f"rank {number}: {file.name}" for number, file in zip(numbers, found, strict=True))
        raise GpuledgerError(f"{profile}: no rank {rank} in it", found=listed)
    return found[numbers.index(int(rank))].address, None


def _with_names(trace: Trace, profile: str, names_from: Path, limits: Limits, progress: Listener) -> Trace:
    from gpuledger.analyse.operators.graph_places import named_by_nodes, named_by_trace
    from gpuledger.read.torch.reader import is_kernel_annotations, kernel_annotations

    if is_kernel_annotations(names_from):
        return named_by_nodes(trace, profile, kernel_annotations(names_from, limits), names_from.name)
    other = open_trace(names_from, limits=limits, progress=progress)
    return named_by_trace(trace, profile, other, names_from.name)


def _one_rank(trace: Trace, name: str, rank: int | str | Place) -> Trace:
    from gpuledger.analyse.ranks.rank import rank_at

    if isinstance(rank, str):
        raise GpuledgerError(f"{name}: which rank is the slowest can only be asked of a file or a folder")
    return rank_at(trace, name, rank)


def profile_name(profile: Profile, otherwise: str = "profile") -> str:
    """What to call a profile: the name of its file."""
    return otherwise if isinstance(profile, Trace) else Path(profile).name
