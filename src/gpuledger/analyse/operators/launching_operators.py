"""Which operator launched each of some kernels, and what stands around it.

torch records operators; in other profiles they are NVTX ranges that it emits, with the sizes of their inputs and not
the types: these are what their kernels' names say.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from gpuledger.analyse.operators.arithmetic import Inputs, parse_inputs
from gpuledger.analyse.operators.operators import OPERATOR, emitted_ranges, nested, with_types
from gpuledger.ledger.activity import Activities
from gpuledger.ledger.host import Host
from gpuledger.ledger.ranges import innermost
from gpuledger.trace.keys import Positions, group, is_among, leave_out, ordinals
from gpuledger.trace.model import GraphPlace, GraphPlaces, Trace
from gpuledger.trace.statistics import largest
from gpuledger.trace.strings import NO_TEXT
from gpuledger.trace.sweep import sums
from gpuledger.trace.tables import Table

MOST_KINDS: Final = 300
"""So many operators with other inputs are looked at: programs have hundreds, of which few take most of the time."""

ALWAYS: Final = frozenset(("torch::autograd::AccumulateGrad", "aten::embedding_dense_backward"))
"""What says something whether or not it launched a kernel itself."""


class LaunchingOperators:
    """Operators of one excerpt, and for each of the given activities the innermost that it was launched in."""

    def __init__(self, trace: Trace, host: Host, work: Activities, activities: Positions) -> None:
        ranges, code = trace[Table.RANGES], trace.strings.code(OPERATOR)
        launch = work.launch[activities]
        used = leave_out(launch, np.array([-1]))
        mine, rows = np.zeros(0, np.intp), ranges.at(np.zeros(0, np.intp))
        if len(used) and "inputs" in ranges:
            first, last = host.calls["start_ns"][used].min(), host.calls["end_ns"][used].max()
            is_there = (ranges["start_ns"] <= last) & (ranges["end_ns"] >= first)
            mine = np.flatnonzero((ranges.codes("kind") == code) & is_there) if code != NO_TEXT else mine
            if is_recorded := len(mine) > 0:
                rows = ranges.at(mine)
            else:
                mine, rows = emitted_ranges(ranges, np.flatnonzero(is_there))
                if not (rows.codes("inputs") != NO_TEXT).any():  # without sizes they say nothing here
                    mine, rows = mine[:0], rows.between(slice(0))
        around = np.full(len(host.calls) + 1, -1, np.intp)  # the last one is for work without a call
        if len(mine):
            around[used] = innermost(rows, host.calls, at=used)
        self.row: Final[Positions] = around[launch]  # of each activity; -1 for none
        if len(mine) and not is_recorded:
            rows = with_types(rows, self.row, work.name[activities], trace.strings)
        self.nest: Final = nested(rows, ranges, mine)
        self._work, self._activities = work, activities

    def __len__(self) -> int:
        return len(self.nest)

    @cached_property
    def _groups(self) -> tuple[Positions, Positions, NDArray[np.bool_]]:
        """One operator of each of `kinds`, each operator's kind, and of which kinds the inputs are looked at."""
        rows = self.nest.rows
        names = rows.codes("name")
        first, number = group(names, rows.codes("inputs"))
        launching = self.row >= 0
        launched = self._activities[launching]
        took = sums(number[self.row[launching]], (self._work.end_ns - self._work.start_ns)[launched], len(first))
        is_told = is_among(names[first], [rows.strings.code(name) for name in ALWAYS])
        is_told[largest(took, min(MOST_KINDS, len(first)))] = True
        kept, kind = group(names[first], np.where(is_told, np.arange(len(first)), -1))  # the others by name alone
        return first[kept], kind[number], is_told[kept]

    @property
    def kind(self) -> Positions:
        """For each operator the number of its name and inputs."""
        return self._groups[1]

    @cached_property
    def kinds(self) -> list[tuple[str, Inputs | None]]:
        """The different names, with what they were given: of those whose kernels take the most, and of ALWAYS."""
        rows, (first, _, is_told) = self.nest.rows, self._groups
        names, inputs = (rows.strings.decode(rows.codes(key)[first]) for key in ("name", "inputs"))
        return [
            (name or "", parse_inputs(given) if told else None)
            for name, given, told in zip(names, inputs, is_told.tolist(), strict=True)
        ]

    def around(self, chosen: NDArray[np.bool_]) -> Positions:
        """Of each activity the innermost of the chosen operators that it was launched in; -1 for none."""
        return np.append(self.nest.handed_down(np.where(chosen, np.arange(len(chosen)), -1)), -1)[self.row]

    def of_names(self, names: frozenset[str]) -> list[tuple[str, Inputs]]:
        """The different operators of some names, with what they were given where that was recorded."""
        rows = self.nest.rows
        codes = {rows.strings.code(name): name for name in names}
        mine = np.flatnonzero(is_among(rows.codes("name"), [code for code in codes if code != NO_TEXT]))
        mine = mine[group(*(rows.codes(key)[mine] for key in ("name", "inputs")))[0]]
        named = zip(rows.codes("name")[mine].tolist(), rows.strings.decode(rows.codes("inputs")[mine]), strict=True)
        return [(codes[code], given) for code, text in named if (given := parse_inputs(text)) is not None]


class GraphOperators:
    """The operators of work inside CUDA graphs, as its places tell, like LaunchingOperators. One execution is what one
    launch of a graph runs at one place in a row, until a kernel comes that it ran already."""

    def __init__(self, places: GraphPlaces, work: Activities, activities: Positions) -> None:
        row = places.of_kernel[work.row[activities]]
        self.blocks: Final = np.array([*(place.blocks for place in places.places), 0], np.int64)[row]
        """Of each activity, as it was captured; 0 where that is not known."""
        alike: dict[GraphPlace, int] = {}  # whatever was launched there
        of_place = [alike.setdefault(replace(place, blocks=0), len(alike)) for place in places.places]
        place = np.array([*of_place, -1], np.intp)[row]
        launch, name = work.launch[activities], work.name[activities]
        stretch = np.cumsum((np.diff(place, prepend=-2) != 0) | (np.diff(launch, prepend=-2) != 0))
        first, number = group(stretch, ordinals(group(stretch, name)[1]))
        self.row: Final[Positions] = np.where(place >= 0, number, -1)
        self.kind: Final[Positions] = np.maximum(place[first], 0)
        self.kinds: Final = [(place.path[-1], parse_inputs(place.inputs)) for place in alike]

    def __len__(self) -> int:
        return len(self.kind)

    def around(self, chosen: NDArray[np.bool_]) -> Positions:
        """Only the innermost operator is known."""
        return np.where(np.append(chosen, [False])[self.row], self.row, -1)
