"""Whether profiles can be recorded here, check by check and with what to do; and a capture's flags with their
reasons.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Final

from msgspec.structs import replace

from gpuledger.capture.manifest import CaptureCheck
from gpuledger.doctor.check import DoctorCheck, DoctorVerdict, ExaminedMachine
from gpuledger.doctor.checks import Tool, examine, tools_of, ways_to_record
from gpuledger.present.document import Block, Document, Drawn
from gpuledger.present.safe_text import display_width, visible, wrapped
from gpuledger.present.sheet import Sheet
from gpuledger.present.terminal import Terminal
from gpuledger.present.views.answer import VerbAnswer
from gpuledger.present.writers.markdown import escaped, table_markdown
from gpuledger.rows import Label
from gpuledger.system.machine import Machine
from gpuledger.units import bytes_text

_MARKS: Final = {"ok": "✓", "warning": "!", "problem": "✗", "not checked": "-"}
_WORDS: Final = max(map(len, _MARKS))
_NARROW: Final = 72
"""Columns under which sentences go below a check's name, not beside it."""

_LEAST_ROOM: Final = 8
_IN_ORDER: Final = (DoctorVerdict.PROBLEM, DoctorVerdict.WARNING)


class DoctorAnswer(VerbAnswer, frozen=True, kw_only=True, tag="gpuledger.doctor/1"):
    """Whether profiles can be recorded on a machine, check by check, with what to do. null: not known, not measured."""

    ready: bool
    """Whether something records timelines here and nothing is a problem; the exit code is 0 then, else 1."""
    records_with: tuple[str, ...]
    tracing_ns_per_call: float | None
    """What tracing with nsys adds to a CUDA call on the host, measured on empty kernels."""
    checks: Annotated[tuple[DoctorCheck, ...], Label("Checks")]
    tools: tuple[Tool, ...]
    machine: Machine

    def sheet(self, table: str, *, is_exact: bool = False) -> Sheet:
        """The checks; tools' own words are in them. For people, what to do comes after the table."""
        sheet = super().sheet(table, is_exact=is_exact)
        shown = len(sheet.columns) if is_exact else -2
        rows = (
            (*(None if cell is None else visible(str(cell)) for cell in row[:-1]), visible("; ".join(check.commands)))
            for row, check in zip(sheet.rows, self.checks, strict=True)
        )
        return replace(sheet, columns=sheet.columns[:shown], rows=tuple(row[:shown] for row in rows))

    def blocks(self) -> Iterator[Block]:
        yield Drawn(lambda terminal, _: _text(self, terminal), lambda _: _markdown(self))

    def document(self) -> Document:
        return replace(super().document(), page=None)


def doctor_answer(patient: ExaminedMachine, tell: Callable[[str], None] = lambda _: None) -> DoctorAnswer:
    """Every check of a machine; `tell` is told the name of each before it begins."""
    checks, ways = examine(patient, tell), tuple(ways_to_record(patient))
    counts = Counter(check.verdict.value for check in checks)
    besides = ", ".join(f"{counts[word]} {word}{'s' * (counts[word] > 1)}" for word in _IN_ORDER if counts[word])
    told = f"Profiles cannot be recorded here: {besides or 'nothing to record with'}."
    if ways:
        told = f"Profiles can be recorded here, with {' and with '.join(ways)}{f'; {besides}' if besides else ''}."
    cost = patient.tracing_ns_per_call
    return DoctorAnswer(
        sentences=(told,),
        ready=bool(ways) and not counts[DoctorVerdict.PROBLEM],
        records_with=ways,
        tracing_ns_per_call=None if cost is None else round(cost, 3),
        checks=checks,
        tools=tuple(tools_of(patient)),
        machine=patient.machine,
    )


def _text(found: DoctorAnswer, terminal: Terminal) -> str:
    """One block per check, then what to do."""
    width = terminal.width
    blocks = _blocks(found)
    names = max(len(name) for _, name, _ in blocks)
    lines = [*(terminal.painted(line, "bold") for line in _lines(found.sentences[0], width)), ""]
    for word, name, sentences in blocks:
        lines += _block_lines(f"{_MARKS[word]} {word:<{_WORDS}}  {name:<{names}}  ", sentences, width)
    to_fix = _to_fix(found)
    lines += ["", "What to do"] if to_fix else []
    for number, check in enumerate(to_fix, 1):
        lines += _lines(f"{check.name}: {check.fix}", width, f"{number:>3}. ")
        for command in check.commands:
            lines += _lines(command, width, " " * 9, then=" " * 11)
    return "\n".join(lines)


def _blocks(found: DoctorAnswer) -> list[tuple[str, str, list[str]]]:
    """Word, name and sentences of each check; those left open for one and the same reason are told together."""
    blocks = []
    for check in found.checks:
        if check.verdict is not DoctorVerdict.NOT_CHECKED or check.means:
            blocks.append((check.verdict.value, check.name, [each for each in (check.found, check.means) if each]))
            continue
        alike = [each.name for each in found.checks if replace(each, name=check.name) == check]
        if len(alike) == 1:
            blocks.append((check.verdict.value, check.name, [check.found]))
        elif check.name == alike[0]:
            blocks.append((check.verdict.value, f"{len(alike)} checks", [f"{check.found}: {', '.join(alike)}"]))
    return blocks


def _block_lines(head: str, sentences: list[str], width: int | None) -> list[str]:
    """The mark, the word and the name, then what was found and what it means: beside them, or below where narrow."""
    lines = []
    if width is not None and width < _NARROW:
        lines = [head.rstrip()]
        head = " " * 4
    for at, sentence in enumerate(sentences):
        lines += _lines(sentence, width, head if at == 0 else " " * len(head))
    return lines


def _lines(text: str, width: int | None, first: str = "", then: str | None = None) -> list[str]:
    """A text after `first`, in lines of at most `width`; a word that is longer, such as a path, is cut."""
    margin = " " * len(first) if then is None else then
    if width is None:
        return [first + visible(text)]
    room = max(width - max(len(first), len(margin)), _LEAST_ROOM)
    lines = [""]
    for piece in (piece for word in visible(text).split() for piece in _pieces(word, room)):
        if display_width(lines[-1]) + 1 + display_width(piece) <= room:
            lines[-1] = f"{lines[-1]} {piece}".strip()
        else:
            lines.append(piece)
    return [(first if at == 0 else margin) + line for at, line in enumerate(each for each in lines if each)]


def _pieces(word: str, room: int) -> list[str]:
    """A word, in as many pieces as it takes."""
    pieces = [""]
    for letter in word:
        if display_width(pieces[-1] + letter) > room:
            pieces.append("")
        pieces[-1] += letter
    return pieces


def _to_fix(found: DoctorAnswer) -> list[DoctorCheck]:
    """The checks with something to do, problems first."""
    return [check for verdict in _IN_ORDER for check in found.checks if check.verdict is verdict and check.fix]


def _markdown(found: DoctorAnswer) -> str:
    parts = [f"# gpuledger doctor\n\n{escaped(found.sentences[0])}\n", table_markdown(found.sheet("checks"))]
    to_fix = _to_fix(found)
    if to_fix:
        parts.append("## What to do\n")
    for number, check in enumerate(to_fix, 1):
        commands = "".join(f"       {visible(command)}\n" for command in check.commands)
        text = f"{number}. {escaped(check.name)}: {escaped(check.fix or '')}\n"
        parts.append(f"{text}\n{commands}" if commands else text)
    return "\n".join(parts).rstrip("\n")


def reasons_text(reasons: Sequence[tuple[str, str]], width: int | None) -> str:
    """Each flag, and under it the reason."""
    lines = []
    for flag, why in reasons:
        lines += [visible(flag), wrapped(f"    {visible(why)}", width, 4)]
    return "\n".join(lines) + "\n"


def checks_text(checks: Iterable[CaptureCheck]) -> list[str]:
    """One line per check; what to do stands behind what is missing."""
    return [
        visible(f"{each.verdict:<8} {each.check}: {each.found}" + (f"; {each.advice}" if each.advice else ""))
        for each in checks
    ]


def files_text(files: Iterable[tuple[str, int]]) -> str:
    """Files with their sizes, in one line."""
    return ", ".join(f"{visible(name)} ({bytes_text(size)})" for name, size in files)
