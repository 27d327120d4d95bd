"""What a runbook says, as values: names and words as they were written, with `${name}` not yet filled in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

NEEDS: Final = ("gpu", "nsys", "ncu", "torch")
"""What a step may need; where one is missing, the step is skipped, with the reason."""

TOOLS: Final = {"nsys": ".sqlite", "ncu": ".ncu-rep", "torch": ".json.gz"}
"""What `gpuledger capture` records with, and how the name of the profile ends that it leaves."""

BUILT_IN: Final = ("cell", "folder", "run", "here", "size", "python")
"""Names that every step may use: the cell, its folder, the run's folder, the runbook's, the size, this Python."""

Pick = Mapping[str, tuple[str, ...]]
"""Some cells: for each axis named, the values that are meant. `size` may stand here too."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One dimension of the matrix."""

    name: str
    values: tuple[str, ...]
    variable: str | None = None
    """The environment variable that is set to the value."""
    flags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What `${NAME.flags}` stands for, by value."""
    needs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What a value cannot do without."""


@dataclass(frozen=True, slots=True)
class Bench:
    """`gpuledger bench`, its result kept as JSON."""

    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Capture:
    """`gpuledger capture` of a program or a bench."""

    tool: str
    flags: tuple[str, ...]
    words: tuple[str, ...]
    is_bench: bool


@dataclass(frozen=True, slots=True)
class Report:
    """`gpuledger report` of a profile that an earlier step left, in several formats."""

    profile: str
    flags: tuple[str, ...]
    formats: tuple[str, ...]
    ncu: str | None = None
    """A capture with Nsight Compute, to be joined with the profile."""


@dataclass(frozen=True, slots=True)
class Command:
    """Any program. `makes` names the profiles that it leaves in the cell's folder, with their files.

    Where the step has a name, the program leaves its figures there too, as NAME.json.
    """

    words: tuple[str, ...]
    makes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do in a cell."""

    does: Bench | Capture | Report | Command
    name: str
    """Of what it leaves: the profile, the result."""
    needs: tuple[str, ...]
    when: Pick
    optional: bool
    """Whether the cell goes on where this fails."""
    timeout_s: int | None
    line: int


@dataclass(frozen=True, slots=True)
class Diff:
    """`gpuledger diff` of two cells' profiles, for each pair of cells that differ in what is named only."""

    before: Pick
    after: Pick
    profile: str
    flags: tuple[str, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Align:
    """`gpuledger align` of a mock's profile with the model's."""

    mock: Pick
    e2e: Pick
    mock_profile: str
    e2e_profile: str
    flags: tuple[str, ...]
    gate: bool
    line: int


@dataclass(frozen=True, slots=True)
class Saving:
    """The saving that a report predicted for one cell, against what another cell, mended, saved."""

    before: Pick
    after: Pick
    findings: Mapping[str, tuple[str, ...]] | None
    """Codes, each with the figures of a bench in proportion to whose sum the finding goes away; without figures all
    of it does. None: the finding that promises most."""
    report: str
    key: str | None
    """A time in the bench's result, measured without a profiler."""
    within_share: float | None
    """How far prediction and saving may lie apart, as a share of the saving."""
    line: int
    over: str | None = None
    """An axis of repetitions: of the pairs that differ in it alone, the one with the middle ratio is judged."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a figure must reach."""

    key: str
    at_most: str | None
    at_least: str | None
    where: Pick
    line: int


@dataclass(frozen=True, slots=True)
class Runbook:
    """All of it."""

    file: str
    name: str
    question: str
    variables: Mapping[str, str]
    sizes: Mapping[str, Mapping[str, str]]
    environment: Mapping[str, str]
    prelude: tuple[Step, ...]
    axes: tuple[Axis, ...]
    exclude: tuple[Pick, ...]
    steps: tuple[Step, ...]
    compares: tuple[Diff | Align | Saving, ...]
    targets: tuple[Target, ...]
    show: tuple[str, ...]
