"""What a program named of its own time: ranges as a forest, with names, and the paths of names in it.

What differs from one time to the next is folded out of names: `step 7` and `step 8` are one name, `step #`;
`aten::mm, seq = 3` is `aten::mm`. A name that stands alone keeps its numbers. Made once for a trace, however many
questions are asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gpuledger.catalog.kernel_names import without_ids, without_numbers
from gpuledger.ledger.ranges import thread
from gpuledger.regex import regex
from gpuledger.trace.keys import Positions, group, is_among
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints, depths, furthest, parents
from gpuledger.trace.tables import Rows, Table


def levels(parent: Positions) -> Iterator[Positions]:
    """Positions of a forest level by level, the outermost first."""
    level = depths(parent)
    order = np.argsort(level, kind="stable")
    yield from np.split(order, np.flatnonzero(np.diff(level[order])) + 1)


class Nest(Struct, frozen=True, eq=False):
    """Ranges of one kind, and which encloses which: `parent` holds positions in `rows`, -1 for the outermost."""

    rows: Rows
    parent: Positions

    def __len__(self) -> int:
        return len(self.rows)

    def summed_up(self, own: NDArray[Any]) -> NDArray[Any]:
        """Each row's own amounts with those of all that it encloses."""
        whole = own.copy()
        for here in reversed(list(levels(self.parent))):
            inside = here[self.parent[here] >= 0]
            np.add.at(whole, self.parent[inside], whole[inside])
        return whole

    def outermost(self) -> Positions:
        outermost = np.arange(len(self))
        for here in levels(self.parent):
            inside = here[self.parent[here] >= 0]
            outermost[inside] = outermost[self.parent[inside]]
        return outermost

    def handed_down(self, values: Positions) -> Positions:
        """Each row's value, or where that is -1 the value of the nearest row around it that has one."""
        nearest = values.copy()
        for here in levels(self.parent):
            lacking = here[(nearest[here] < 0) & (self.parent[here] >= 0)]
            nearest[lacking] = nearest[self.parent[lacking]]
        return nearest


_INSTANCE: Final = regex(r"#+")
_ALONE: Final = regex(r"(?<![A-Za-z_\d])\d+")
_ADDRESS: Final = regex(r" object at 0x[0-9a-f]+")
_MODULE: Final = regex(r"^(?P<kind>nn\.Module: .*)_\d+$")


class NamedNest(Struct, frozen=True, eq=False):
    """Ranges, which encloses which, and what they are called."""

    nest: Nest
    thread: Ints  # for each range the number of its thread
    names: list[str]
    name_of: Positions  # for each range the position of its name

    @property
    def rows(self) -> Rows:
        return self.nest.rows

    def __len__(self) -> int:
        return len(self.nest)


class ProgramRanges:
    """What a program, or its framework, has named of its own time."""

    def __init__(self, trace: Trace) -> None:
        self._ranges: Final = trace[Table.RANGES]

    def _of_kinds(self, *kinds: str) -> NDArray[np.bool_]:
        codes = [self._ranges.strings.code(kind) for kind in kinds]
        return is_among(self._ranges.codes("kind"), codes)

    @cached_property
    def named(self) -> NamedNest:
        """Ranges and operators; without those that nobody ended, as when they did is not known."""
        return _named_nest(self._ranges.where(~self._of_kinds("mark", "python") & ~self._ranges["open"]))

    @cached_property
    def annotations(self) -> NamedNest:
        """What the program named itself; without ranges that nobody ended."""
        if not self._of_kinds("op").any():
            return self.named
        return _named_nest(self._ranges.where(~self._of_kinds("mark", "python", "op") & ~self._ranges["open"]))

    @cached_property
    def operators(self) -> NamedNest:
        """Operators of the framework, as torch.profiler records them."""
        return _named_nest(self._ranges.where(self._of_kinds("op")))

    @cached_property
    def functions(self) -> NamedNest:
        """Functions of Python, as torch.profiler records them."""
        return _named_nest(self._ranges.where(self._of_kinds("python")))


def _named_nest(rows: Rows) -> NamedNest:
    owner = thread(rows)
    return NamedNest(Nest(rows, parents(rows["start_ns"], rows["end_ns"], owner)), owner, *folded_names(rows))


MODULE: Final = "nn.Module: "  # what torch puts before a module's class and number


def naming_ranges(trace: Trace, *kinds: str) -> Rows:
    """The ranges of these kinds, and of Python's functions the calls of modules: what says where one is."""
    ranges = trace[Table.RANGES]
    kind = ranges.codes("kind")
    named = is_among(kind, [trace.strings.code(text) for text in kinds])
    python = np.flatnonzero(kind == trace.strings.code("python"))
    is_module = trace.strings.each(ranges.codes("name")[python], lambda name: name.startswith(MODULE), np.bool_)
    named[python[is_module]] = True
    return ranges.where(named)


def folded_names(rows: Rows) -> tuple[list[str], NDArray[np.intp]]:
    """The different names, and for each row the position of its own."""
    kinds, bares = rows.codes("kind"), rows.strings.rewritten(rows.codes("name"), without_ids)
    first, number_of = group(bares.codes, kinds, bares.changed)
    names_and_kinds = bares.strings.decode(bares.codes[first]), rows.strings.decode(kinds[first])
    texts = zip(*names_and_kinds, bares.changed[first].tolist(), strict=True)
    number: dict[str, int] = {}
    names: list[str] = []
    position_of = []
    for name, kind, had_ids in texts:
        bare = name or "?"
        general = _general(bare, kind or "", had_ids)
        position = number.setdefault(general, len(number))
        if position == len(names):
            names.append(bare)
        elif names[position] != bare:
            names[position] = general
        position_of.append(position)
    return names, np.array(position_of, np.intp)[number_of]


def _general(bare: str, kind: str, had_ids: bool) -> str:
    """A range's name, without ids, without what differs from one time to the next. The digits of an operator are part
    of its name, unless they stand alone; NVTX shows operators by their ids."""
    if kind == "python":
        return _MODULE.sub(r"\g<kind>_#", _ADDRESS.sub("", bare))
    is_operator = kind == "op" or had_ids
    return _INSTANCE.sub("#", _ALONE.sub("#", bare) if is_operator else without_numbers(bare))


class NamePaths:
    """The paths of a forest: of each member the one that directly holds it (-1: none), and the number of its name."""

    def __init__(self, parent: Positions, name_of: NDArray[Any]) -> None:
        self.of_row: Final = np.full(len(parent) + 1, -1, np.intp)
        """For each member its path; -1 at the end, for member -1."""
        parents, names, edges = [np.empty(0, np.intp)], [np.empty(0, np.int64)], [0]
        for here in levels(parent) if len(parent) else ():
            above, name = self.of_row[parent[here]], name_of[here]
            first, number = group(above, name)
            self.of_row[here] = edges[-1] + number
            parents.append(above[first])
            names.append(name[first].astype(np.int64))
            edges.append(edges[-1] + len(first))
        self.parent: Final[Positions] = np.concatenate(parents)  # the path without its last name; -1 for the outermost
        self.name: Final[Ints] = np.concatenate(names)
        self._levels: Final = [slice(low, high) for low, high in pairwise(edges)]

    def __len__(self) -> int:
        return len(self.name)

    @property
    def depth(self) -> Ints:
        """How many names each path has before its last."""
        return np.repeat(np.arange(len(self._levels)), [level.stop - level.start for level in self._levels])

    def sums(self, amounts: NDArray[Any]) -> NDArray[Any]:
        """What the members of each path have together: a number or a row of them each."""
        whole = np.zeros((len(self), *amounts.shape[1:]), np.result_type(amounts, np.int64))
        np.add.at(whole, self.of_row[:-1], amounts)
        return whole

    def with_inner(self, own: NDArray[Any]) -> NDArray[Any]:
        """Each path's own amount with those of all paths under it."""
        whole = own.copy()
        for level in reversed(self._levels[1:]):
            np.add.at(whole, self.parent[level], whole[level])
        return whole

    def least_inner(self, own: NDArray[Any]) -> NDArray[Any]:
        """The least of each path's own amount and those of all paths under it."""
        whole = own.copy()
        for level in reversed(self._levels[1:]):
            np.minimum.at(whole, self.parent[level], whole[level])
        return whole

    def in_order(self, weight: Ints, texts: Sequence[str]) -> Positions:
        """All paths as a tree is written, parents first: of siblings the heaviest first, then by name."""
        size = self.with_inner(np.ones(len(self), np.int64))
        rank_of = {text: rank for rank, text in enumerate(sorted(set(texts)))}
        rank = np.array([rank_of[text] for text in texts], np.int64)
        place = np.zeros(len(self), np.int64)
        for level in self._levels:
            begins = np.where(self.parent[level] >= 0, place[self.parent[level]] + 1, 0)
            order = np.lexsort((rank[level], -weight[level], begins))
            sizes, family = size[level][order], begins[order]
            before = np.cumsum(sizes) - sizes
            first = furthest(np.where(np.diff(family, prepend=-1) != 0, before, 0))
            place[np.arange(level.start, level.stop)[order]] = family + before - first
        return np.argsort(place, kind="stable")
