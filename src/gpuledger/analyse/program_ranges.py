"""The ranges of a trace as a forest with names: what differs from one time to the next is folded out of them.

`step 7` and `step 8` are one name, `step #`; `aten::mm, seq = 3` is `aten::mm`. A name that stands alone keeps its
numbers. Made once for a trace, however many questions are asked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.analyse.range_nest import Nest
from gpuledger.catalog.name_likeness import normalised, unnumbered
from gpuledger.ledger.ranges import thread
from gpuledger.trace.keys import Positions, group
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints, parents
from gpuledger.trace.tables import Rows, Table

_INSTANCE: Final = re.compile(r"#+")
_ALONE: Final = re.compile(r"(?<![A-Za-z_\d])\d+")
_ADDRESS: Final = re.compile(r" object at 0x[0-9a-f]+")
_MODULE: Final = re.compile(r"^(?P<kind>nn\.Module: .*)_\d+$")


@dataclass(frozen=True, slots=True, eq=False)
class NamedNest:
    """Ranges, which encloses which, and what they are called."""

    nest: Nest
    thread: Ints
    """For each range the number of its thread."""
    names: list[str]
    name_of: Positions
    """For each range the position of its name."""

    @property
    def rows(self) -> Rows:
        return self.nest.rows

    def __len__(self) -> int:
        return len(self.nest)


class ProgramRanges:
    """What a program, or its framework, has named of its own time."""

    def __init__(self, trace: Trace) -> None:
        self._trace: Final = trace

    @cached_property
    def named(self) -> NamedNest:
        """Ranges and operators; without those that nobody ended, as when they did is not known."""
        ranges = self._trace[Table.RANGES]
        others = [ranges.strings.code(kind) for kind in ("mark", "python")]
        return _named(ranges.where(~np.isin(ranges.codes("kind"), others) & ~ranges["open"]))

    @cached_property
    def annotations(self) -> NamedNest:
        """What the program named itself; without ranges that nobody ended."""
        ranges = self._trace[Table.RANGES]
        others = [ranges.strings.code(kind) for kind in ("mark", "python", "op")]
        return _named(ranges.where(~np.isin(ranges.codes("kind"), others) & ~ranges["open"]))

    @cached_property
    def operators(self) -> NamedNest:
        """Operators of the framework, as torch.profiler records them."""
        ranges = self._trace[Table.RANGES]
        return _named(ranges.where(ranges.codes("kind") == ranges.strings.code("op")))

    @cached_property
    def functions(self) -> NamedNest:
        """Functions of Python, as torch.profiler records them."""
        ranges = self._trace[Table.RANGES]
        return _named(ranges.where(ranges.codes("kind") == ranges.strings.code("python")))


def _named(rows: Rows) -> NamedNest:
    owner = thread(rows)
    return NamedNest(Nest(rows, parents(rows["start_ns"], rows["end_ns"], owner)), owner, *folded_names(rows))


def folded_names(rows: Rows) -> tuple[list[str], NDArray[np.intp]]:
    """The different names, and for each row the position of its own."""
    kinds = rows.codes("kind")
    first, pair = group(rows.codes("name"), kinds)
    texts = zip(*(rows.strings.decode(codes[first]) for codes in (rows.codes("name"), kinds)), strict=True)
    number: dict[str, int] = {}
    names: list[str] = []
    of_pair = []
    for name, kind in texts:
        general = _general(name or "?", kind or "")
        position = number.setdefault(general, len(number))
        bare = unnumbered(name or "?")
        if position == len(names):
            names.append(bare)
        elif names[position] != bare:
            names[position] = general
        of_pair.append(position)
    return names, np.array(of_pair, np.intp)[pair]


def _general(name: str, kind: str) -> str:
    """A range's name without what differs from one time to the next.

    The digits of an operator are part of its name, unless they stand alone; NVTX shows operators by their ids.
    """
    if kind == "python":
        return _MODULE.sub(r"\g<kind>_#", _ADDRESS.sub("", name))
    bare = unnumbered(name)
    is_operator = kind == "op" or bare != name
    return _INSTANCE.sub("#", _ALONE.sub("#", bare) if is_operator else normalised(bare))
