"""Where in the program the work inside CUDA graphs comes from, where a second file told it. It goes with a trace.

A place is a path of names, the outermost first: annotations, modules, operators. Each kernel, copy or memset that ran
in a graph has one, or none; no time and no row changes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Names = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GraphPlace:
    """One place in the program."""

    path: Names
    """Annotations, modules and operators, the outermost first."""
    source: str
    """How it is known: an equal run, a capture, or an annotation of the graph's node."""
    is_part: bool = False
    """Whether several places fit and differ, and this is what they agree on, counted from the innermost."""
    where: str = ""
    """The line of code that launched it, where stacks were recorded and all places that fit agree on it."""


@dataclass(frozen=True, slots=True)
class NameCoverage:
    """How much of the work inside graphs has a name: kernels, copies and memsets."""

    count: int
    named: int
    gpu_ns: int
    named_ns: int
    in_part: int
    """Of those with a name, how many have only what several places agree on."""

    @property
    def named_share(self) -> float:
        return self.named_ns / self.gpu_ns if self.gpu_ns else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class GraphPlaces:
    """The places of the work inside graphs, row by row."""

    file: str
    """The file that told them; '' where it is the profile itself."""
    places: tuple[GraphPlace, ...]
    of_kernel: NDArray[np.int32]
    """For each row of the kernels a position in `places`; -1 where there is none."""
    of_copy: NDArray[np.int32]
    """Likewise for each row of the copies."""
    coverage: NameCoverage | None = None
    """How much they name, where that was counted."""
