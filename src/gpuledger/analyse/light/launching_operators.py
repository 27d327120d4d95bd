"""Which operator launched each of some kernels, and what stands around it.

torch records operators; in other profiles they are NVTX ranges that it emits, with the sizes of their inputs and not
the types: these are what their kernels' names say.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.analyse.operators.arithmetic import Inputs, parse_inputs
from gpuledger.analyse.operators.operators import OPERATOR
from gpuledger.attribution.ranges import Nest
from gpuledger.catalog.kernel_names import emitted_operator
from gpuledger.catalog.kernel_types import torch_type
from gpuledger.ledger.activity import Activities
from gpuledger.ledger.host import Host
from gpuledger.ledger.ranges import innermost
from gpuledger.trace.keys import Positions, distinct, group, is_among
from gpuledger.trace.model import GraphPlace, GraphPlaces, Trace
from gpuledger.trace.statistics import largest
from gpuledger.trace.strings import NO_TEXT, Strings
from gpuledger.trace.tables import Rows, Table

MOST_KINDS: Final = 300
"""So many operators with other inputs are looked at: programs have hundreds, of which few take most of the time."""

ALWAYS: Final = frozenset(("torch::autograd::AccumulateGrad", "aten::embedding_dense_backward"))
"""What says something whether or not it launched a kernel itself."""


class LaunchingOperators:
    """Operators of one excerpt, and for each of the given activities the innermost that it was launched in."""

    def __init__(self, trace: Trace, host: Host, work: Activities, activities: Positions) -> None:
        ranges, code = trace[Table.RANGES], trace.strings.code(OPERATOR)
        launch = work.launch[activities]
        used = distinct(launch[launch >= 0])
        calls = host.calls.only("pid", "tid").at(used)
        mine, rows = np.zeros(0, np.intp), ranges.at(np.zeros(0, np.intp))
        if len(used) and "inputs" in ranges:
            first, last = calls["start_ns"].min(), calls["end_ns"].max()
            is_there = (ranges["start_ns"] <= last) & (ranges["end_ns"] >= first)
            mine = np.flatnonzero((ranges.codes("kind") == code) & is_there) if code != NO_TEXT else mine
            if len(mine):
                rows = ranges.at(mine)
            else:
                mine, rows = _emitted(ranges, np.flatnonzero(is_there))
        place = np.full(len(ranges) + 1, -1, np.intp)  # the last one is for -1
        place[mine] = np.arange(len(mine))
        self.nest: Final = Nest(rows, place[ranges["parent"][mine]] if len(mine) else mine)
        self._texts: Final = trace.strings
        self._kernel: Final = work.name[activities]
        around = np.full(len(host.calls) + 1, -1, np.intp)  # the last one is for work without a call
        if len(mine):
            around[used] = innermost(self.nest.rows, calls)
        self.row: Final[Positions] = around[launch]
        """Of each activity; -1 for none."""
        self._took_ns: Final = (work.end_ns - work.start_ns)[activities]

    def __len__(self) -> int:
        return len(self.nest)

    @cached_property
    def _groups(self) -> tuple[Positions, Positions, NDArray[np.bool_]]:
        """One operator of each of `kinds`, each operator's kind, and of which kinds the inputs are looked at."""
        rows = self.nest.rows
        names = rows.codes("name")
        first, number = group(names, rows.codes("inputs"))
        launching = self.row >= 0
        took = np.bincount(number[self.row[launching]], self._took_ns[launching], len(first))
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
        kinds = [
            (name or "", parse_inputs(given) if told else None)
            for name, given, told in zip(names, inputs, is_told.tolist(), strict=True)
        ]
        if all(given is None or given.types for _, given in kinds):
            return kinds
        return [
            (name, self._typed(given, number) if given is not None and not given.types else given)
            for number, (name, given) in enumerate(kinds)
        ]

    def _typed(self, given: Inputs, number: int) -> Inputs:
        """With the type that the names of its kernels say, where they say one."""
        mine = (self.row >= 0) & (self.kind[self.row] == number)
        said = {torch_type(self._texts.text(code) or "") for code in distinct(self._kernel[mine]).tolist()}
        named = [kind for kind in said if kind is not None]
        return given._replace(types=tuple(named) * len(given.shapes)) if len(named) == 1 else given

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


def _emitted(ranges: Rows, there: Positions) -> tuple[Positions, Rows]:
    """Which of these ranges PyTorch emitted for operators; and these, with their bare names and inputs."""
    names = ranges.codes("name")[there]
    codes = [code for code in ranges.strings.distinct(names) if code != NO_TEXT]
    told = {code: emitted for code in codes if (emitted := emitted_operator(ranges.strings.text(code) or ""))}
    there = there[is_among(names, list(told))]
    chosen = ranges.only("start_ns", "end_ns", "pid", "tid").at(there)
    strings = Strings(dict.fromkeys(text for pair in told.values() for text in pair))
    columns = {column: chosen[column] for column in ("start_ns", "end_ns", "pid", "tid")}
    for at, column in enumerate(("name", "inputs")):
        number = {code: strings.code(pair[at]) if pair[at] else NO_TEXT for code, pair in told.items()}
        columns[column] = np.array([number[code] for code in ranges.codes("name")[there].tolist()], np.int32)
    return there, Rows(ranges.schema, columns, strings)


class GraphOperators:
    """The operators of work inside CUDA graphs, as its places tell, like LaunchingOperators.

    One execution is what one launch of a graph runs at one place in a row, until a kernel comes that it ran already.
    """

    def __init__(self, places: GraphPlaces, work: Activities, activities: Positions) -> None:
        row = places.of_kernel[work.row[activities]]
        self.blocks: Final = np.array([*(place.blocks for place in places.places), 0], np.int64)[row]
        """Of each activity, as it was captured; 0 where that is not known."""
        alike: dict[GraphPlace, int] = {}  # whatever was launched there
        of_place = [alike.setdefault(replace(place, blocks=0), len(alike)) for place in places.places]
        place = np.array([*of_place, -1], np.intp)[row]
        launch, name = work.launch[activities], work.name[activities]
        stretch = np.cumsum((np.diff(place, prepend=-2) != 0) | (np.diff(launch, prepend=-2) != 0))
        order = np.lexsort((name, stretch))  # it keeps the order of equal ones
        begins = np.flatnonzero((np.diff(stretch[order], prepend=-1) != 0) | (np.diff(name[order], prepend=-1) != 0))
        time = np.empty(len(order), np.intp)
        time[order] = np.arange(len(order)) - np.repeat(begins, np.diff(begins, append=len(order)))
        first, number = group(stretch, time)
        self.row: Final[Positions] = np.where(place >= 0, number, -1)
        self.kind: Final[Positions] = np.maximum(place[first], 0)
        self.kinds: Final = [(place.path[-1], parse_inputs(place.inputs)) for place in alike]

    def __len__(self) -> int:
        return len(self.kind)

    def around(self, chosen: NDArray[np.bool_]) -> Positions:
        """Only the innermost operator is known."""
        return np.where(np.append(chosen, [False])[self.row], self.row, -1)
