"""What is told apart when samples are taken apart: kernels, their phases, copies, nothing; a column of the fit each.

A group of kernels has a column, or two or three where it lasts long beside a period: its beginning, middle and end.
Groups beyond the first few hundred by time share a column with others of their name. Copies have a column by kind,
graphs whose kernels were not recorded have one, and the last is nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.analyse.use.launch_groups import LaunchGroups
from gpuledger.analyse.use.levels import Prior
from gpuledger.analyse.use.shares import ColumnSpans
from gpuledger.trace.columns import equal
from gpuledger.trace.keys import Positions, group
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints
from gpuledger.trace.tables import Table

Floats = NDArray[Any]

_MOST_GROUPS: Final = 400
_MOST_SHARED: Final = 100
_MOST_SPLIT: Final = 50
"""Kernels with a column of their own, columns that others share, kernels with several columns: by time."""
_FEWEST_LAUNCHES: Final = 8
"""Of a kernel with several columns."""
_EDGE: Final = 0.3
_PARTS: Final = (0.4, 0.8, 1.4, 2.0, 3.0, 5.0)
"""In periods: from what length on a kernel has two columns, three, and so on."""
_OFTEN: Final = 400
_PARTS_IF_OFTEN: Final = (0.04, 0.08, 0.12, 0.16, 0.2, 0.3)
"""In periods: from what length on a kernel with so many launches has one column more, two, and so on. Its launches lie
differently in the periods each time, so that many of them show what one period cannot: that a kernel of ten
microseconds reads little at first, and that what is read then is its neighbour's."""
_MOST_WITH_FINER: Final = 300
"""Columns in all, up to which kernels get finer ones, by time: the fit takes time by the cube of their number."""
_MOST_PARTS: Final = 1 + len(_PARTS) + len(_PARTS_IF_OFTEN)
_PHASES_DIFFER: Final = 20.0
"""Points by which the phases of a kernel usually differ from their mean."""
_COPY_KINDS: Final = 7
_OTHERS: Final = _COPY_KINDS + 1
_OTHERS_DIFFER, _IDLE_DIFFERS = 40.0, 0.03
_LEAST_CEILING: Final = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class FitColumns:
    """The columns of one GPU's kernels and of what else ran on it."""

    groups: LaunchGroups
    first: Ints
    """Of each group: its first column."""
    parts: Ints
    """Of each group: how many columns it has."""
    shared: NDArray[np.bool_]
    """Of each group: whether its column is other groups' too."""
    count: int
    """Columns of kernels; after them come copies, graphs and nothing."""
    edge_ns: int

    @classmethod
    def of(cls, groups: LaunchGroups, period_ns: int) -> FitColumns:
        order = np.argsort(-groups.total_ns, kind="stable")
        length, rank = groups.mean_ns / period_ns, np.empty(len(groups), np.int64)
        rank[order] = np.arange(len(groups))
        may_split = (rank < _MOST_SPLIT) & (groups.launches >= _FEWEST_LAUNCHES)
        parts = np.where(may_split, 1 + np.searchsorted(_PARTS, length, side="right"), 1)
        may_be_finer = may_split & (groups.launches >= _OFTEN)
        finer = np.where(may_be_finer, np.searchsorted(_PARTS_IF_OFTEN, length, side="right"), 0)
        finer[order[np.cumsum(finer[order]) > _MOST_WITH_FINER - parts.sum()]] = 0
        parts += finer
        shared = rank >= _MOST_GROUPS
        first = np.zeros(len(groups), np.int64)
        own = order[:_MOST_GROUPS]
        first[own] = np.cumsum(parts[own]) - parts[own]
        count = int(parts[own].sum())
        names: dict[str, int] = {}
        for row in order[_MOST_GROUPS:].tolist():
            number = names.setdefault(groups.names[row], min(len(names), _MOST_SHARED - 1))
            first[row] = count + number
        count += min(len(names), _MOST_SHARED)
        return cls(groups, first, parts, shared, count, round(_EDGE * period_ns))

    @property
    def total(self) -> int:
        """Columns with those of copies, graphs and nothing."""
        return self.count + _OTHERS + 1

    def divided(self, most: int) -> FitColumns:
        """The same with at most so many columns per kernel; the others stay empty."""
        return replace(self, parts=np.minimum(self.parts, most))

    def spans(self, trace: Trace, gpu: int, launches: Positions | None = None) -> ColumnSpans:
        """When what each column stands for ran; of kernels, some of the launches."""
        groups = self.groups
        chosen = slice(None) if launches is None else launches
        start, end, group_of = groups.start_ns[chosen], groups.end_ns[chosen], groups.group[chosen]
        first, parts = self.first[group_of], self.parts[group_of]
        kernels = (start, end, first)
        if (parts > 1).any():
            whose = np.repeat(np.arange(len(parts)), parts)
            part = np.arange(len(whose)) - np.repeat(np.cumsum(parts) - parts, parts)
            length = (end - start)[whose]
            edges = (self._offset(length, parts[whose], edge) for edge in (part, part + 1))
            begin, end = (start[whose] + edge for edge in edges)
            kernels = (begin, end, first[whose] + part)
        return ColumnSpans.by_start([kernels, *self._others(trace, gpu)], self.total - 1)

    def _offset(self, length: Floats, parts: Ints, edge: Ints) -> Ints:
        """Where the edge of a part lies in a launch: its beginning and its end are short, what is between is even."""
        short = np.minimum(self.edge_ns, length / parts)
        between = short + (length - 2 * short) * (edge - 1) / np.maximum(parts - 2, 1)
        offset = np.where(edge == 0, 0, np.where(edge == parts, length, np.where(parts == 2, length / 2, between)))
        return np.round(offset).astype(np.int64)

    def _others(self, trace: Trace, gpu: int) -> list[tuple[Ints, Ints, Ints]]:
        pieces = []
        for table in (Table.COPIES, Table.GRAPHS):
            if table not in trace.tables:
                continue
            rows = trace[table].where(equal(trace[table]["gpu"], gpu))
            kind = np.full(len(rows), _COPY_KINDS)
            if table is Table.COPIES:
                kind = np.minimum(group(rows.codes("kind"))[1], _COPY_KINDS - 1)
            pieces.append((rows["start_ns"], rows["end_ns"], self.count + kind))
        return pieces

    def _places(self) -> tuple[Ints, Ints, Floats]:
        """For each column of a group that has its own: the group, the column, and its share of a launch's time."""
        own = np.flatnonzero(~self.shared)
        groups = np.repeat(own, self.parts[own])
        part = np.arange(len(groups)) - np.repeat(np.cumsum(self.parts[own]) - self.parts[own], self.parts[own])
        mean, parts = self.groups.mean_ns[groups], self.parts[groups]
        share = (self._offset(mean, parts, part + 1) - self._offset(mean, parts, part)) / np.round(mean)
        return groups, self.first[groups] + part, share

    def mixes(self) -> tuple[Floats, Ints]:
        """A row per mix of columns, how much of its time is in each; and the row of every group.

        Groups that share a column have one row: there may be as many groups as launches, but there are few columns.
        """
        own, columns_shared = np.flatnonzero(~self.shared), np.unique(self.first[self.shared])
        row = np.empty(len(self.groups), np.int64)
        row[own] = np.arange(len(own))
        row[self.shared] = len(own) + np.searchsorted(columns_shared, self.first[self.shared])
        weights = np.zeros((len(own) + len(columns_shared), self.total))
        groups, columns, share = self._places()
        weights[row[groups], columns] = share
        weights[len(own) + np.arange(len(columns_shared)), columns_shared] = 1.0
        return weights, row

    def prior(self, ceiling: Floats, expected: float, differ: Floats) -> Prior:
        """A level is between nothing and its ceiling; phases of a kernel are near their mean; nothing uses none.

        `differ`: points by which the level of each group differs from what is expected, usually.
        """
        mean, top = np.zeros(self.total), np.full(self.total, 100.0)
        precision = np.zeros((self.total, self.total))
        np.fill_diagonal(precision[: self.total - 1, : self.total - 1], _OTHERS_DIFFER**-2)
        precision[-1, -1] = _IDLE_DIFFERS**-2
        groups, columns, share = self._places()
        mean[columns], top[columns] = expected * ceiling[groups], ceiling[groups]
        precision[columns, columns] = 0.0
        spread = np.minimum(np.maximum(ceiling, _LEAST_CEILING) / 2, differ)
        for shift in range(1 - _MOST_PARTS, _MOST_PARTS):
            other = np.arange(len(groups)) + shift
            inside = (other >= 0) & (other < len(groups))
            inside[inside] &= groups[other[inside]] == groups[inside]
            here, there = np.flatnonzero(inside), other[inside]
            precision[columns[here], columns[there]] += share[here] * share[there] / spread[groups[here]] ** 2
            count = self.parts[groups[here]]
            apart = (here == there) - share[there] - share[here]
            # the sum over phases of (own level - mean level) squared
            precision[columns[here], columns[there]] += np.where(
                count > 1, (apart + count * share[here] * share[there]) / _PHASES_DIFFER**2, 0.0
            )
        return Prior(mean, top, precision)
