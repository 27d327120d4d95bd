"""What a runbook may say, as values: words as they were written, with `${name}` not yet filled in.

Each class is both what a part of the file may hold and what the rest of the package reads.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final, Literal

from msgspec import Meta, Struct, field

from gpuledger.runbook.forms import NOT_IN_FILE, Fields, FieldsOrWord, Listed, Program, RunbookPart, Word, WordList

Need = Literal["gpu", "nsys", "ncu", "torch"]
"""What a step may need; where one is missing, the step is skipped, with the reason."""

Tool = Literal["nsys", "ncu", "torch"]  # what `gpuledger capture` records with

PROFILE_ENDINGS: Final[Mapping[Tool, str]] = {"nsys": ".sqlite", "ncu": ".ncu-rep", "torch": ".json.gz"}
"""How the name of the profile ends that each leaves."""

ReportFormat = Literal["txt", "md", "json", "html"]
Switch = Literal["true", "false"]

BUILT_IN: Final = ("cell", "folder", "run", "here", "size", "python")
"""Names that every step may use: the cell, its folder, the run's folder, the runbook's, the size, this Python."""

HERE: Final = "here"  # what `via` says of a step that stays on this machine, whatever the runbook says
OF_THIS_MACHINE: Final = ("run", "here")
"""Folders that are not there where a step runs elsewhere."""


def _matching(pattern: str, problem: str) -> Meta:
    return Meta(pattern=rf"(?a)\A(?:{pattern})\Z", description=problem)


FileName = Annotated[str, _matching(r"[A-Za-z0-9_][\w.-]{0,63}", "is no name: letters, digits, dots, dashes and _")]
AxisName = Annotated[str, _matching(r"[A-Za-z0-9_][\w-]{0,63}", "is no name for an axis: letters, digits, - and _")]
VariableName = Annotated[str, _matching(r"[A-Za-z_]\w{0,99}", "is no name for a variable: letters, digits and _")]
EnvironmentName = Annotated[str, _matching(r"[A-Za-z_]\w{0,99}", "is no name of an environment variable")]
FindingCode = Annotated[str, _matching(r"[A-Z][A-Z0-9-]{2,40}|top", "is no code of a finding, nor top")]
PlainValue = Annotated[str, _matching(r"(?s:(?!.*\$\{).*)", "has a ${; a variable holds a plain value")]
FigureKey = Annotated[str, _matching(r"[A-Za-z_][\w.-]{0,99}", "is no name of a figure")]
TimeKey = Annotated[str, _matching(r"(?s:.*)_(ns|us|ms|s)", "is no time: it should end in _ms, _us, _ns or _s")]
WholeNumber = Annotated[str, _matching(r"[1-9][0-9]{0,8}", "is no whole number above 0")]
Share = Annotated[str, _matching(r"[0-9]{1,6}(\.[0-9]{1,6})?\s*%?", "is no share, e.g. 20 % or 0.2")]

CellFilter = Fields[str, WordList[Word]]
"""Some cells: for each axis named, the values that are meant. `size` may stand here too."""


def no_fields() -> Fields[Any, Any]:
    """A mapping that is not in the file."""
    return Fields({}, 0, {})


class Axis(RunbookPart, frozen=True, kw_only=True):
    """One dimension of the matrix."""

    KEY = "values"
    SHORTHAND = True
    values: WordList[Word]
    environment: EnvironmentName | None = None  # the environment variable that is set to the value
    flags: Fields[str, WordList[Word]] = field(default_factory=no_fields)
    """What `${NAME.flags}` stands for, by value."""
    needs: Fields[str, WordList[Need]] = field(default_factory=no_fields)


class _StepPart(RunbookPart, frozen=True, kw_only=True):
    """What every step may say."""

    own_needs: WordList[Need] | None = field(default=None, name="needs")
    when: CellFilter = field(default_factory=no_fields)
    optional: Switch = "false"
    timeout_s: WholeNumber | None = None

    @property
    def needs(self) -> tuple[Need, ...]:
        return self.own_needs or ()

    @property
    def is_optional(self) -> bool:
        """Whether the cell goes on where this fails."""
        return self.optional == "true"

    @property
    def profiles(self) -> Mapping[str, str]:
        """The profiles that it leaves, each with its file in the cell's folder."""
        return {}

    def via_of(self, book: Runbook) -> Word | None:
        """What leads to the machine or the pod where it runs, such as `ssh HOST`; None: it runs here."""
        return None

    def needs_of(self, book: Runbook) -> tuple[Need, ...]:
        """What it needs of this machine; elsewhere its program says itself what is not there."""
        return self.needs if self.via_of(book) is None else ()


class _ProgramStep(_StepPart, frozen=True, kw_only=True):
    """What starts a program, here or elsewhere."""

    via: Word | None = None

    def via_of(self, book: Runbook) -> Word | None:
        via = self.via or book.via
        return None if via == HERE else via


class CaptureStep(_ProgramStep, frozen=True, kw_only=True):
    """`gpuledger capture` of a program or a bench."""

    KEY = "capture"
    tool: Tool = field(name="capture")
    bench: Program | None = None
    command: Program | None = None
    preset: Word | None = None
    own_flags: WordList[Word] = field(default=WordList(), name="flags")
    own_name: FileName | None = field(default=None, name="as")

    @property
    def program(self) -> tuple[Word, ...]:
        return self.bench or self.command or ()

    @property
    def name(self) -> str:
        return self.own_name or ("ncu" if self.tool == "ncu" else "profile")

    @property
    def flags(self) -> tuple[str, ...]:
        return self.own_flags if self.preset is None else (f"--preset={self.preset}", *self.own_flags)

    def via_of(self, book: Runbook) -> Word | None:
        flags = self.own_flags
        given = [Word(flag.removeprefix("--via="), flag.line) for flag in flags if flag.startswith("--via=")]
        given += [word for flag, word in itertools.pairwise(flags) if flag == "--via"]
        return given[-1] if given else _ProgramStep.via_of(self, book)

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("gpu", self.tool) if self.own_needs is None else self.own_needs

    @property
    def profiles(self) -> Mapping[str, str]:
        return {self.name: f"{self.name}{PROFILE_ENDINGS[self.tool]}"}


class BenchStep(_ProgramStep, frozen=True, kw_only=True):
    """`gpuledger bench`, its result kept as JSON."""

    KEY = "bench"
    bench: Program
    name: FileName = field(default="bench", name="as")

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("torch",) if self.own_needs is None else self.own_needs


class ReadingStep(_StepPart, frozen=True, kw_only=True):
    """A verb of ours that reads a profile which an earlier step left, in several formats; figures are in its JSON."""

    profile: FileName
    name: FileName
    ncu: ClassVar[Word | None] = None
    flags: WordList[Word] = WordList()
    formats: WordList[ReportFormat] = WordList(("txt", "json"))


class ReportStep(ReadingStep, frozen=True, kw_only=True):
    """`gpuledger report`."""

    KEY = "report"
    profile: FileName = field(name="report")
    ncu: Word | None = None  # type: ignore[misc]  # a capture with Nsight Compute, to be joined with the profile
    name: FileName = field(default="report", name="as")


class RangesStep(ReadingStep, frozen=True, kw_only=True):
    """`gpuledger ranges`: what ranges, attention, dispatch and so on take of a step, and the idle between them."""

    KEY = "ranges"
    profile: FileName = field(name="ranges")
    name: FileName = field(default="ranges", name="as")


class FleetStep(ReadingStep, frozen=True, kw_only=True):
    """`gpuledger fleet`: who waits for whom."""

    KEY = "fleet"
    profile: FileName = field(name="fleet")
    name: FileName = field(default="fleet", name="as")


class WhatIfStep(ReadingStep, frozen=True, kw_only=True):
    """`gpuledger whatif`: what its flags would buy."""

    KEY = "whatif"
    profile: FileName = field(name="whatif")
    name: FileName = field(default="whatif", name="as")


class CommandStep(_ProgramStep, frozen=True, kw_only=True):
    """Any program. `makes` names the profiles that it leaves in the cell's folder, with their files.

    Where the step has a name, the program leaves its figures there too, as NAME.json. From elsewhere both are copied.
    """

    KEY = "command"
    SHORTHAND = True
    command: Program
    makes: Fields[FileName, FileName] = field(default_factory=no_fields)
    name: FileName = field(default="", name="figures")

    @property
    def profiles(self) -> Mapping[str, str]:
        return self.makes


Step = (
    CaptureStep | BenchStep | ReportStep | RangesStep | FleetStep | WhatIfStep | CommandStep
)  # one thing to do in a cell


class DiffCells(RunbookPart, frozen=True, kw_only=True):
    """`gpuledger diff` of two cells' profiles, for each pair of cells that differ in what is named only."""

    KEY = "diff"
    profile: FileName = field(name="diff")
    before: CellFilter
    after: CellFilter
    flags: WordList[Word] = WordList()

    @property
    def profiles(self) -> tuple[str, str]:
        return (self.profile, self.profile)


class AlignCells(RunbookPart, frozen=True, kw_only=True):
    """`gpuledger align` of a mock's profile with the model's: `before` and `after`, as in the other comparisons."""

    KEY = "align"
    profile: FileName = field(name="align")
    before: CellFilter = field(name="mock")
    after: CellFilter = field(name="e2e")
    e2e_profile: FileName | None = None
    range: Word | None = None
    own_flags: WordList[Word] = field(default=WordList(), name="flags")
    gate: Switch = "false"

    @property
    def profiles(self) -> tuple[str, str]:
        return (self.profile, self.e2e_profile or self.profile)

    @property
    def flags(self) -> tuple[str, ...]:
        return self.own_flags if self.range is None else (f"--range={self.range}", *self.own_flags)


class SavingCheck(RunbookPart, frozen=True, kw_only=True):
    """The saving that a report predicted for one cell, against what another cell, fixed, saved."""

    KEY = "saving"
    saving: FieldsOrWord[FindingCode, WordList[Word]]
    before: CellFilter = field(name="from")
    after: CellFilter = field(name="to")
    report: FileName = "report"
    key: TimeKey | None = None  # a time in the bench's result, measured without a profiler
    within: Share | None = None
    over: Word | None = None
    """An axis of repetitions: of the pairs that differ in it alone, the one with the middle ratio is judged."""

    @property
    def findings(self) -> Mapping[str, tuple[str, ...]] | None:
        """Codes, each with the figures of a bench in proportion to whose sum the finding goes away; without figures
        all of it does. None: the finding that promises most."""
        return None if "top" in self.saving else self.saving

    @property
    def within_share(self) -> float | None:
        """How far prediction and saving may lie apart, as a share of the saving."""
        if self.within is None:
            return None
        return float(self.within.rstrip("%").rstrip()) / (100 if self.within.endswith("%") else 1)


Comparison = DiffCells | AlignCells | SavingCheck


class FigureTarget(RunbookPart, frozen=True, kw_only=True):
    """What a figure must reach."""

    key: FigureKey
    at_most: Word | None = None
    at_least: Word | None = None
    where: CellFilter = field(default_factory=no_fields)
    undecided: Literal["fail", "pass"] = "pass"  # what becomes of it where the figure's interval holds the limit


class Runbook(RunbookPart, frozen=True, kw_only=True):
    """All of it."""

    file: str = field(default="", name=f"{NOT_IN_FILE}file")
    form: Literal["1"] = field(name="runbook")
    name: FileName
    question: Word
    via: Word | None = None  # where benches, captures and commands run, as `gpuledger capture --via` has it
    variables: Fields[VariableName, PlainValue] = field(default_factory=no_fields)
    sizes: Fields[str, Fields[str, PlainValue]] = field(default_factory=no_fields)
    environment: Fields[EnvironmentName, Word] = field(default_factory=no_fields)
    prelude: Listed[Step] = Listed()
    axes: Fields[AxisName, Axis] = field(default_factory=no_fields, name="matrix")
    exclude: Listed[CellFilter] = Listed()
    steps: Listed[Step]
    compares: Listed[Comparison] = field(default=Listed(), name="compare")
    targets: Listed[FigureTarget] = Listed()
    show: WordList[FigureKey] = WordList()


MOST_CELLS: Final = 1_000
ONLY: Final = "the only cell"
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_.=-]+")
_LONGEST: Final = 100


def cell_title(values: Mapping[str, str]) -> str:
    """What a cell is called, by its values."""
    return ", ".join(f"{axis}={value}" for axis, value in values.items()) or ONLY


class MatrixCell(Struct, frozen=True):
    """One combination of values. `folder` is the name of its folder: no two cells share one, in any letter case."""

    values: tuple[tuple[str, str], ...]
    folder: str

    @property
    def title(self) -> str:
        return cell_title(dict(self.values))

    def is_in(self, wanted: Mapping[str, Collection[str]], size: str = "") -> bool:
        own = dict(self.values) | {"size": size}
        return all(own[axis] in values for axis, values in wanted.items())

    def steps(self, book: Runbook, size: str) -> tuple[Step, ...]:
        return tuple(step for step in book.steps if self.is_in(step.when, size))


def cells_of(book: Runbook) -> tuple[MatrixCell, ...]:
    """Every cell that is not excluded, the last axis turning fastest."""
    axes = [[(name, str(value)) for value in axis.values] for name, axis in book.axes.items()]
    cells, taken = [], set[str]()
    for values in itertools.product(*axes):
        name = "__".join(f"{axis}={value}" for axis, value in values) or "only"
        name = _UNSAFE.sub("_", name)[:_LONGEST]
        candidates = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
        folder = next(candidate for candidate in candidates if candidate.casefold() not in taken)
        taken.add(folder.casefold())
        cells.append(MatrixCell(values, folder))
    return tuple(cell for cell in cells if not any(cell.is_in(excluded) for excluded in book.exclude))


def pairs(
    cells: Sequence[MatrixCell], before: Mapping[str, Collection[str]], after: Mapping[str, Collection[str]]
) -> list[tuple[MatrixCell, MatrixCell]]:
    """Cells of `before` with those of `after` that agree in every axis that neither names."""

    def others(cell: MatrixCell) -> list[tuple[str, str]]:
        return [(axis, value) for axis, value in cell.values if axis not in before and axis not in after]

    return [
        (first, second)
        for first in cells
        if first.is_in(before)
        for second in cells
        if second.is_in(after) and others(first) == others(second) and first != second
    ]


_PLACEHOLDER: Final = re.compile(r"\$\$|\$\{([^{}]*)\}|\$\{")
_NAME: Final = re.compile(r"[A-Za-z_][\w-]*(\.flags)?")


class BadPlaceholder(ValueError):
    """What stands in a word cannot be filled in; says why."""


def names_in(word: str) -> tuple[str, ...]:
    """The names that a word uses, in order."""
    names = []
    for match in _PLACEHOLDER.finditer(word):
        if match[0] == "$$":
            continue
        if match[1] is None:
            raise BadPlaceholder(f"'{word}': ${{ without an end; $$ is a dollar sign")
        if _NAME.fullmatch(match[1]) is None:
            raise BadPlaceholder(f"'{word}': '{match[1]}' is no name; $$ is a dollar sign")
        names.append(match[1])
    return tuple(names)


def fill(word: str, values: Mapping[str, str]) -> str:
    """The word with each name replaced by its value. Values are not looked into again."""
    return _PLACEHOLDER.sub(lambda match: "$" if match[0] == "$$" else values[match[1]], word)


def fill_all(words: tuple[str, ...], values: Mapping[str, str], lists: Mapping[str, tuple[str, ...]]) -> list[str]:
    """An argument list; a word that is a name of `lists` and nothing else becomes as many words as that has."""
    arguments: list[str] = []
    for word in words:
        names = names_in(word)
        if len(names) == 1 and names[0] in lists:
            arguments += lists[names[0]]
        else:
            arguments.append(fill(word, values))
    return arguments
