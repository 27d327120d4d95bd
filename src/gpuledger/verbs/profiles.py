"""The profiles that verbs are asked about: a path, or a trace that was read already."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from gpuledger.limits import DEFAULT_LIMITS, Limits
from gpuledger.read import SAMPLES, open_trace, wanted_columns
from gpuledger.records import dataclass
from gpuledger.stages import NOBODY, Listener
from gpuledger.trace.model import Trace
from gpuledger.trace.tables import EVENTS, Table

WHERE_SAMPLED: Final = {**SAMPLES, **wanted_columns((Table.KERNELS,))}
"""What is read besides where a GPU was sampled: samples are laid to kernels of a shape."""

Profile = Trace | str | Path  # a profile: where it is, or what was read of it


@dataclass(frozen=True, slots=True)
class ProfileReading:
    """How profiles are read: what that may cost, who is told of it, and what names the work inside CUDA graphs."""

    limits: Limits = DEFAULT_LIMITS
    progress: Listener = NOBODY
    names_from: Path | None = None

    def trace(
        self,
        profile: Profile,
        only: Collection[Table] | Mapping[Table, Collection[str]] = EVENTS,
        where_sampled: Mapping[Table, Collection[str]] | None = None,
    ) -> Trace:
        if isinstance(profile, Trace):
            return profile
        trace = open_trace(
            profile, only=only, where_sampled=where_sampled or {}, limits=self.limits, progress=self.progress
        )
        return trace if self.names_from is None else self._named(trace, Path(profile).name, self.names_from)

    def _named(self, trace: Trace, profile: str, names_from: Path) -> Trace:
        from gpuledger.analyse.operators.graph_places import named_by_nodes, named_by_trace
        from gpuledger.read.torch.reader import is_kernel_annotations, kernel_annotations

        if is_kernel_annotations(names_from):
            return named_by_nodes(trace, profile, kernel_annotations(names_from, self.limits), names_from.name)
        other = open_trace(names_from, limits=self.limits, progress=self.progress)
        return named_by_trace(trace, profile, other, names_from.name)


def profile_name(profile: Profile, otherwise: str = "profile") -> str:
    """What to call a profile: the name of its file."""
    return otherwise if isinstance(profile, Trace) else Path(profile).name
