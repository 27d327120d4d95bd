"""Whether profiles can be recorded here, check by check and with what to do; and a capture's flags with their
reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from gpuledger.analyse.capture_checks import CaptureCheck
from gpuledger.present.document import Document, Drawn, json_by
from gpuledger.present.safe_text import display_width, visible, wrapped
from gpuledger.present.sheet import Column, Sheet, Unit
from gpuledger.present.terminal import Terminal
from gpuledger.present.writers.markdown import escaped, table_markdown
from gpuledger.units import bytes_text

if TYPE_CHECKING:
    from gpuledger.doctor.check import DoctorCheck
    from gpuledger.doctor.checks import Diagnosis

_MARKS: Final = {"ok": "✓", "warning": "!", "problem": "✗", "not checked": "-"}
_WORDS: Final = max(map(len, _MARKS))
_NARROW: Final = 72
"""Columns under which sentences go below a check's name, not beside it."""

_LEAST_ROOM: Final = 8
_IN_ORDER: Final = ("problem", "warning")


def doctor_document(found: Diagnosis) -> Document:
    """The checks; JSON is the document gpuledger.doctor/1."""
    return Document(
        blocks=lambda: (Drawn(lambda terminal, _: _text(found, terminal), lambda _: _markdown(found)),),
        data=json_by("inventory.doctor_json", found),
        sheets=lambda: (_sheet(found, with_fixes=True),),
    )


def _text(found: Diagnosis, terminal: Terminal) -> str:
    """One block per check, then what to do."""
    width = terminal.width
    blocks = _blocks(found)
    names = max(len(name) for _, name, _ in blocks)
    lines = [*(terminal.painted(line, "bold") for line in _lines(_headline(found), width)), ""]
    for word, name, sentences in blocks:
        lines += _block_lines(f"{_MARKS[word]} {word:<{_WORDS}}  {name:<{names}}  ", sentences, width)
    to_fix = _to_fix(found)
    lines += ["", "What to do"] if to_fix else []
    for number, check in enumerate(to_fix, 1):
        lines += _lines(f"{check.name}: {check.outcome.fix}", width, f"{number:>3}. ")
        for command in check.outcome.commands:
            lines += _lines(command, width, " " * 9, then=" " * 11)
    return "\n".join(lines)


def _blocks(found: Diagnosis) -> list[tuple[str, str, list[str]]]:
    """Word, name and sentences of each check; those left open for one and the same reason are told together."""
    blocks = []
    for check in found.checks:
        outcome = check.outcome
        if outcome.verdict.value != "not checked" or outcome.means:
            sentences = [each for each in (outcome.found, outcome.means) if each]
            blocks.append((outcome.verdict.value, check.name, sentences))
            continue
        alike = [each.name for each in found.checks if each.outcome == outcome]
        if len(alike) == 1:
            blocks.append((outcome.verdict.value, check.name, [outcome.found]))
        elif check.name == alike[0]:
            blocks.append((outcome.verdict.value, f"{len(alike)} checks", [f"{outcome.found}: {', '.join(alike)}"]))
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


def _headline(found: Diagnosis) -> str:
    problems, warnings = (_counted(found, word) for word in _IN_ORDER)
    besides = ", ".join(each for each in (problems, warnings) if each)
    if not found.records_with:
        return f"Profiles cannot be recorded here: {besides or 'nothing to record with'}."
    ways = " and with ".join(found.records_with)
    return f"Profiles can be recorded here, with {ways}{f'; {besides}' if besides else ''}."


def _counted(found: Diagnosis, word: str) -> str:
    count = sum(check.outcome.verdict.value == word for check in found.checks)
    return f"{count} {word}{'s' * (count > 1)}" if count else ""


def _to_fix(found: Diagnosis) -> list[DoctorCheck]:
    """The checks with something to do, problems first."""
    return [
        check
        for word in _IN_ORDER
        for check in found.checks
        if check.outcome.verdict.value == word and check.outcome.fix
    ]


def _markdown(found: Diagnosis) -> str:
    parts = [f"# gpuledger doctor\n\n{escaped(_headline(found))}\n", table_markdown(_sheet(found, with_fixes=False))]
    to_fix = _to_fix(found)
    if to_fix:
        parts.append("## What to do\n")
    for number, check in enumerate(to_fix, 1):
        commands = "".join(f"       {visible(command)}\n" for command in check.outcome.commands)
        text = f"{number}. {escaped(check.name)}: {escaped(check.outcome.fix)}\n"
        parts.append(f"{text}\n{commands}" if commands else text)
    return "\n".join(parts).rstrip("\n")


def _sheet(found: Diagnosis, *, with_fixes: bool) -> Sheet:
    cells: dict[str, Callable[[DoctorCheck], str]] = {
        "check": lambda check: check.name,
        "verdict": lambda check: check.outcome.verdict.value,
        "found": lambda check: check.outcome.found,
        "means": lambda check: check.outcome.means,
    }
    if with_fixes:
        cells |= {"fix": lambda check: check.outcome.fix, "commands": lambda check: "; ".join(check.outcome.commands)}

    def column(key: str, cell: Callable[[DoctorCheck], str]) -> Column:
        name = key if with_fixes else key.capitalize()
        return Column(key, name, Unit.TEXT, lambda check: visible(cell(check)))  # tools' own words are in it

    columns = [column(key, cell) for key, cell in cells.items()]
    return Sheet.of("doctor", "Checks", columns, found.checks)


def reasons_text(reasons: Sequence[tuple[str, str]], width: int | None) -> str:
    """Each flag, and under it the reason."""
    lines = []
    for flag, why in reasons:
        lines += [visible(flag), wrapped(f"    {visible(why)}", width, 4)]
    return "\n".join(lines) + "\n"


def checks_text(checks: Iterable[CaptureCheck]) -> list[str]:
    """One line per check; what to do stands behind what is missing."""
    return [
        visible(f"{each.verdict:<8} {each.name}: {each.found}" + (f"; {each.advice}" if each.advice else ""))
        for each in checks
    ]


def files_text(files: Iterable[tuple[str, int]]) -> str:
    """Files with their sizes, in one line."""
    return ", ".join(f"{visible(name)} ({bytes_text(size)})" for name, size in files)
