"""A line of the books: compute of one family, exposed communication or copies, or idle time of one cause.

A line is its name, as documents and baselines write it (`compute.gemm`, `comm`, `copy`, `idle.sync`), and knows its
kind, family and cause, so that nobody takes the name apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from gpuledger.ledger.causes import CAUSES, Cause
from gpuledger.messages import say


class LineKind(StrEnum):
    """What a GPU does at an instant; the first that applies."""

    COMPUTE = "compute"
    COMM = "comm"
    COPY = "copy"
    IDLE = "idle"


EXPOSED = {LineKind.COMM: say("exposed communication"), LineKind.COPY: say("exposed copies")}
"""What lines of work that nothing hides are called."""

_BRIEF = {LineKind.COMM: say("communication"), LineKind.COPY: say("copies")}


class Line(str):
    """One line, by its name."""

    __slots__ = ("cause", "family", "kind")

    kind: LineKind
    family: str
    """Of compute; else empty."""
    cause: Cause | None
    """Of idle time; else None."""

    def __new__(cls, name: str) -> Line:
        """The line that is called so; ValueError where there can be none."""
        if isinstance(name, Line):
            return name
        kind, _, rest = name.partition(".")
        if kind == LineKind.IDLE and rest not in CAUSES:
            raise ValueError(f"{rest!r} is no cause of idle time")
        line = super().__new__(cls, name)
        line.kind = LineKind(kind)
        line.family = rest if line.kind is LineKind.COMPUTE else ""
        line.cause = Cause[rest.upper()] if line.kind is LineKind.IDLE else None
        return line

    def __reduce__(self) -> tuple[Any, ...]:
        return Line, (str(self),)

    @classmethod
    def of_family(cls, family: str) -> Line:
        return cls(f"{LineKind.COMPUTE}.{family}")

    @classmethod
    def of_cause(cls, cause: Cause) -> Line:
        return cls(f"{LineKind.IDLE}.{cause}")

    @property
    def detail(self) -> str:
        """The family of compute, or the cause of idle time; empty for the others."""
        return self.family or str(self.cause or "")

    @property
    def is_compute(self) -> bool:
        return self.kind is LineKind.COMPUTE

    @property
    def is_idle(self) -> bool:
        return self.kind is LineKind.IDLE

    @property
    def label(self) -> str:
        """What people call it."""
        if self.cause is not None:
            return say("idle: {cause}", cause=self.cause.label)
        return say("compute: {family}", family=self.family) if self.is_compute else EXPOSED[self.kind]

    @property
    def brief_label(self) -> str:
        """The same where the kind is known from what stands around it."""
        if self.cause is not None:
            return self.cause.label
        return self.family if self.is_compute else _BRIEF[self.kind]


UNCLASSIFIED = Line.of_family("other")
"""Compute in kernels of no known family."""

WHOLE_GRAPHS = Line.of_family("graph")
"""Compute in graphs that were traced whole."""

COMM = Line(LineKind.COMM)
COPY = Line(LineKind.COPY)

OTHER_FAMILIES = say("  other families")
"""What reports call the families of compute that they show together."""

SMALL_FAMILY = 0.02
"""Families with less than this share of compute are shown together."""


def small_families(line_ns: Mapping[Line, int]) -> list[Line]:
    """The lines of compute that reports show together."""
    compute = {line: ns for line, ns in line_ns.items() if line.is_compute}
    return [line for line, ns in compute.items() if ns < SMALL_FAMILY * sum(compute.values())]
