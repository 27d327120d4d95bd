"""A profile with the books of its GPUs, as most verbs ask about it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from gpuledger.findings.profiled_run import columns_for
from gpuledger.ledger.device import Device, analyse_devices
from gpuledger.limits import DEFAULT_LIMITS, Limits
from gpuledger.read import wanted_columns
from gpuledger.selection import Selection
from gpuledger.stages import BOOKS, NOBODY, Listener
from gpuledger.trace.model import Trace
from gpuledger.trace.tables import Table
from gpuledger.verbs.profiles import Profile, ProfileReading, profile_name

TO_NAME_GRAPHS: Final = {**columns_for(), **wanted_columns((Table.CALLS,))}
"""The shapes of launches, and calls with the kernels that they name."""


def read_devices(
    profile: Profile,
    columns: Mapping[Table, Collection[str]] | None = None,
    where_sampled: Mapping[Table, Collection[str]] | None = None,
    *,
    wanted: Selection | None = None,
    names_from: Path | None = None,
    limits: Limits = DEFAULT_LIMITS,
    progress: Listener = NOBODY,
) -> tuple[str, Trace, tuple[Device, ...]]:
    """The name of a profile, what was read of it, and the books of its GPUs."""
    name, wanted = profile_name(profile), wanted or Selection()
    columns = columns or (columns_for(launches=False) if names_from is None else TO_NAME_GRAPHS)
    trace = ProfileReading(limits, progress, names_from, wanted.rank).trace(profile, columns, where_sampled)
    progress.stage(BOOKS)
    return name, trace, analyse_devices(trace, name, wanted)
