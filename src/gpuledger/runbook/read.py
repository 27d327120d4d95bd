"""A runbook's file into a `Runbook`: strict, so that a typing error is told with its line before anything runs.

`check_runbook` sees to it that its parts fit together: names that are used are there, and no two things are called the
same. `missing` says what steps need that this machine does not have: names in, for each that is missing the reason out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from math import prod
from typing import Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from gpuledger.errors import GpuledgerError
from gpuledger.runbook import definition
from gpuledger.runbook.definition import (
    BUILT_IN,
    Axis,
    CellFilter,
    ReadingStep,
    ReportStep,
    Runbook,
    SavingCheck,
    Step,
    cells_of,
)
from gpuledger.runbook.forms import RunbookFault, Word, check_keys, parse_tree, read_as, suggestion
from gpuledger.system.machine import find_ncu, find_nsys, machine

T = TypeVar("T")
_NUMBER: Final = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,9})?")


class KnownNames(Struct, frozen=True):
    """What `${...}` may stand for, and what cells may be chosen by."""

    axes: Mapping[str, Axis]
    variables: Collection[str]
    sizes: Collection[str]

    @property
    def placeholders(self) -> list[str]:
        flags = [f"{name}.flags" for name, axis in self.axes.items() if axis.flags]
        return [*self.axes, *flags, *self.variables, *BUILT_IN]

    def check_words(self, words: Iterable[Word], *, whole: bool = True) -> None:
        """Refuse a name that is not there; a list of flags may only be a word of its own, and only where `whole`."""
        for word in words:
            try:
                used = definition.names_in(word)
            except definition.BadPlaceholder as error:
                raise RunbookFault(word.line, str(error)) from None
            for name in used:
                if name not in self.placeholders:
                    hint = suggestion(name, self.placeholders)
                    raise RunbookFault(word.line, f"'{word}': nothing is called '{name}'; {hint}")
                if name.endswith(".flags") and not (whole and word == f"${{{name}}}"):
                    raise RunbookFault(word.line, f"'{word}': ${{{name}}} is a list, so it must be a word of its own")

    def check_cells(self, cells: CellFilter) -> None:
        known: dict[str, Collection[str]] = {name: axis.values for name, axis in self.axes.items()}
        if self.sizes:
            known["size"] = self.sizes
        for name, values in cells.items():
            if name not in known:
                hint = suggestion(name, known)
                raise RunbookFault(cells.key_lines[name], f"no axis is called '{name}'; {hint}")
            for value in values:
                if value not in known[name]:
                    raise RunbookFault(value.line, f"'{name}': unknown '{value}'; {suggestion(value, known[name])}")


def check_runbook(book: Runbook) -> None:
    """Refuse what the runbook's forms allow and the rest of it does not."""
    names = KnownNames(book.axes, book.variables, book.sizes)
    without_axes = KnownNames({}, book.variables, book.sizes)
    without_sizes = KnownNames(book.axes, book.variables, ())
    for name, axis in book.axes.items():
        _check_axis(name, book.axes.key_lines[name], axis, without_axes)
    _check_variables(book)
    names.check_words(book.environment.values(), whole=False)
    for number, cells in enumerate(book.exclude, 1):
        with _inside(f"item {number}", "'exclude'"):
            without_sizes.check_cells(cells)
            if not cells:
                raise RunbookFault(cells.line, "it names no axis, so it would exclude every cell")
    _check_items(book.prelude, "prelude", lambda step: _check_step(step, without_axes, book))
    _check_items(book.steps, "steps", lambda step: _check_step(step, names, book))
    _check_items(book.targets, "targets", lambda target: _check_target(target, names))
    _check_matrix(book)
    _check_items(book.compares, "compare", lambda compare: _check_comparison(compare, book, without_sizes))


def _check_items(items: Iterable[T], part: str, check: Callable[[T], None]) -> None:
    for number, item in enumerate(items, 1):
        with _inside(f"item {number}", f"'{part}'"):
            check(item)


@contextmanager
def _inside(*parts: str) -> Iterator[None]:
    try:
        yield
    except RunbookFault as fault:
        for part in parts:
            fault = fault.inside(part)
        raise fault from None


def _check_axis(name: str, line: int, axis: Axis, names: KnownNames) -> None:
    if name in BUILT_IN:
        raise RunbookFault(line, f"'{name}' is taken: it has a meaning of its own in every runbook")
    repeated = [value for value, count in Counter(axis.values).items() if count > 1]
    if repeated:
        raise RunbookFault(axis.line, f"axis '{name}' has the value '{repeated[0]}' twice")
    if not axis.values:
        raise RunbookFault(axis.line, f"axis '{name}' has no values")
    for key, by_value in (("flags", axis.flags), ("needs", axis.needs)):
        with _inside(f"'{key}'", f"'{name}'", "'matrix'"):
            check_keys(by_value, axis.values)
    for flags in axis.flags.values():
        names.check_words(flags, whole=False)


def _check_variables(book: Runbook) -> None:
    for name, line in book.variables.key_lines.items():
        if name in BUILT_IN or name in book.axes:
            what = "a name with a meaning of its own" if name in BUILT_IN else "an axis of the matrix"
            raise RunbookFault(line, f"the variable '{name}' is also {what}")
    for size, variables in book.sizes.items():
        with _inside(f"'{size}'", "'sizes'"):
            check_keys(variables, book.variables)
    for name, line in book.environment.key_lines.items():
        if any(axis.environment == name for axis in book.axes.values()):
            raise RunbookFault(line, f"'{name}' is set by an axis of the matrix too")


def _check_step(step: Step, names: KnownNames, book: Runbook) -> None:
    names.check_cells(step.when)
    if (via := step.via_of(book)) is not None:
        names.check_words([via], whole=False)
        _check_elsewhere(step, book)
    match step:
        case definition.CaptureStep():
            if (step.bench is None) == (step.command is None):
                raise RunbookFault(step.line, "either 'bench' or 'command' is needed: what to record")
            if step.preset is not None and step.tool != "nsys":
                raise RunbookFault(step.preset.line, f"presets are for nsys, not for {step.tool}")
            names.check_words((*step.own_flags, *step.program))
        case definition.BenchStep():
            names.check_words(step.bench)
        case ReadingStep():
            names.check_words(step.flags)
        case definition.CommandStep():
            names.check_words(step.command)


def _check_elsewhere(step: Step, book: Runbook) -> None:
    """Refuse folders of this machine in what runs on another; but for a capture's, `${folder}` is one over there."""
    program: tuple[Word, ...] = ()
    match step:
        case definition.CaptureStep():
            program = step.program
        case definition.BenchStep():
            program = step.bench
        case definition.CommandStep():
            program = step.command
    folders = {*definition.OF_THIS_MACHINE, *(["folder"] if isinstance(step, definition.CaptureStep) else [])}
    for word in (*program, *book.environment.values()):
        if used := [name for name in definition.names_in(word) if name in folders]:
            claim = f"'{word}': ${{{used[0]}}} is a folder of this machine, and the step runs elsewhere"
            raise RunbookFault(word.line, claim)


def _check_target(target: definition.FigureTarget, names: KnownNames) -> None:
    names.check_cells(target.where)
    limits = [limit for limit in (target.at_most, target.at_least) if limit is not None]
    if len(limits) != 1:
        raise RunbookFault(target.line, "either 'at_most' or 'at_least' is needed")
    names.check_words(limits, whole=False)
    if "${" not in limits[0] and _NUMBER.fullmatch(limits[0]) is None:
        raise RunbookFault(limits[0].line, f"the limit '{limits[0]}' is no number")


def _check_matrix(book: Runbook) -> None:
    count = prod(len(axis.values) for axis in book.axes.values())
    if count > definition.MOST_CELLS:
        raise RunbookFault(book.axes.line, f"the matrix has {count:,} cells; {definition.MOST_CELLS:,} are the limit")
    if not cells_of(book):
        raise RunbookFault(book.exclude[0].line, "'exclude' leaves no cell of the matrix")
    if not book.steps:
        raise RunbookFault(book.line, "the runbook has no 'steps', so there is nothing to do")
    for size in book.sizes or ("",):
        for cell in cells_of(book):
            _check_cell(cell.steps(book, size), cell.title)


def _check_cell(steps: tuple[Step, ...], title: str) -> None:
    """Refuse a report of what no earlier step leaves, and two steps that leave the same."""
    lines: dict[str, int] = {}
    profiles: list[str] = []
    for step in steps:
        if isinstance(step, ReadingStep):
            for profile in (step.profile, step.ncu):
                if profile is not None:
                    _must_know(profile, profiles, "profile", step.line, f" of an earlier step in {title}")
        profiles += step.profiles
        for name in [step.name] if step.name else step.profiles:
            if name in lines:
                claim = f"'{name}' is also what the step in line {lines[name]} leaves, in {title}; name one with 'as'"
                raise RunbookFault(step.line, claim)
            lines[name] = step.line


def _check_comparison(compare: definition.Comparison, book: Runbook, names: KnownNames) -> None:
    names.check_cells(compare.before)
    names.check_cells(compare.after)
    if not definition.pairs(cells_of(book), compare.before, compare.after):
        raise RunbookFault(compare.line, "this comparison has no pair of cells that differ in what it names only")
    if isinstance(compare, SavingCheck):
        if not compare.saving:
            raise RunbookFault(compare.saving.line, "'saving' names no finding")
        other_axes = [axis for axis in book.axes if axis not in {*compare.before, *compare.after}]
        if compare.over is not None and compare.over not in other_axes:
            hint = suggestion(compare.over, other_axes)
            raise RunbookFault(compare.over.line, f"'over': there is no axis '{compare.over}' besides; {hint}")
        reports = [step.name for step in book.steps if isinstance(step, ReportStep) and "json" in step.formats]
        _must_know(compare.report, reports, "report in JSON", compare.line)
        return
    own_flags = compare.own_flags if isinstance(compare, definition.AlignCells) else compare.flags
    KnownNames({}, names.variables, ()).check_words(own_flags)
    profiles = [name for step in book.steps for name in step.profiles]
    for profile in compare.profiles:
        _must_know(profile, profiles, "profile", compare.line)


def _must_know(name: str, known: Collection[str], what: str, line: int, where: str = "") -> None:
    if name not in known:
        raise RunbookFault(line, f"there is no {what} '{name}'{where}; {suggestion(name, known)}")


class BadRunbook(GpuledgerError):
    """The runbook is not what it should be; the claim begins with the file and the line."""


def runbook_of(text: bytes, file: str, via: str | None = None) -> Runbook:
    """The runbook in a file; `file` is how errors call it, `via` where its programs are to run, whatever it says."""
    try:
        runbook = replace(read_as(Runbook, parse_tree(text)), file=file)
        runbook = runbook if via is None else replace(runbook, via=Word(via, runbook.line))
        check_runbook(runbook)
    except RunbookFault as fault:
        line = "" if fault.line is None else f":{fault.line}"
        part = f"{' of '.join(fault.part)}: " if fault.part else ""
        raise BadRunbook(f"{file}{line}: {part}{fault.claim}", hint=fault.hint) from None
    return runbook


ASKED: Final[Mapping[str, Callable[[], str]]] = {
    "gpu": lambda: "" if (here := machine()).gpus else f"there is no GPU here ({here.reason})",
    "nsys": lambda: "" if find_nsys() else "nsys is not installed here",
    "ncu": lambda: "" if find_ncu() else "ncu is not installed here",
    "torch": lambda: "" if find_spec("torch") else "the package torch is not installed here",
}
"""How each need is looked for; '' where it is there."""


def missing(needs: Iterable[str], asked: Mapping[str, Callable[[], str]] = ASKED) -> dict[str, str]:
    """Those that are not here, each with the reason."""
    return {need: reason for need in dict.fromkeys(needs) if (reason := asked[need]())}
