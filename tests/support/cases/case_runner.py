"""Runs the cases of Markdown files: a trace or a program, and what must come out. tests/cases/README.md has the words.

A heading is a pytest item, or, where a table stands under it, each row is one: `{column}` is its cell. Whatever a case
expects, its books balance and its findings keep the laws of savings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from support.cases.case import LANGUAGES, Case, Unexpected
from support.cases.case_light_words import LIGHT_WORDS
from support.cases.case_rank_words import RANK_WORDS
from support.cases.case_replay_words import REPLAY_WORDS
from support.cases.case_words import PROFILE_WORDS
from support.traces.book_checks import check_balance
from support.traces.saving_laws import broken_laws
from support.traces.trace_notation import filled, number_or_text

EXPECTATIONS = {**PROFILE_WORDS, **REPLAY_WORDS, **RANK_WORDS, **LIGHT_WORDS}


def check(case: Case) -> None:
    """Everything that is expected, and what holds for all."""
    lines = [filled(line, case.known) for line in case.expected]
    found = [(line, _found_instead(case, line)) for line in lines]
    wrong = [f"expected  {line}\n   found  {instead}" for line, instead in found if instead is not None]
    if not lines:
        wrong = ["the case expects nothing"]
    if case.language not in ("command", "ranks") and not any(line.startswith("refused ") for line in lines):
        for device in case.devices:
            check_balance(device)
        wrong += broken_laws(case.run) if case.devices else []
    if wrong:
        raise Unexpected("\n".join(wrong))


def _found_instead(case: Case, line: str) -> str | None:
    """None where it is as expected."""
    negated = line.startswith("not ")
    word, _, rest = line.removeprefix("not ").partition(" ")
    if word not in EXPECTATIONS:
        return f"{word!r} is no expectation; there are {', '.join(sorted(EXPECTATIONS))}"
    try:
        is_so, found = EXPECTATIONS[word](case, rest.strip())
    except Unexpected as why:  # what is not there has neither this text nor another
        return str(why)
    return None if is_so is not negated else found


class CaseItem(pytest.Item):
    """A heading of a file, or a row of the table under it."""

    def __init__(self, *, case: Case, line: int, **given: Any) -> None:
        super().__init__(**given)
        self.case, self.line = case, line

    def runtest(self) -> None:
        try:
            check(self.case)
        except (ValueError, NameError, SyntaxError) as why:
            raise Unexpected(f"the case cannot be read: {why}") from why

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *given: Any) -> Any:
        if isinstance(excinfo.value, Unexpected):
            return f"{self.path}:{self.line}: {self.name}\n\n{excinfo.value}"
        return super().repr_failure(excinfo, *given)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, self.line - 1, self.name


class CaseFile(pytest.File):
    """A Markdown file of cases."""

    def collect(self) -> Iterator[CaseItem]:
        for line, name, case in cases_in(self.path.read_text()):
            yield CaseItem.from_parent(self, name=name, case=case, line=line)


_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NEXT = re.compile(rf"; (?=(?:not )?(?:{'|'.join(EXPECTATIONS)})(?: |;|$))")


def cases_in(text: str) -> Iterator[tuple[int, str, Case]]:
    """All cases of a file: line, words and content. Names of a section without a case are known from there on."""
    names: dict[str, str] = {}
    for section in re.split(r"^(?=## )", text, flags=re.MULTILINE):
        line = text[: text.index(section)].count("\n") + 1
        heading = section.partition("\n")[0].removeprefix("## ").strip()
        block = dict(_FENCE.findall(section))
        for name, value in re.findall(r"^(\w+) = (.+)$", block.pop("names", ""), re.MULTILINE):
            names[name] = _named(value, names)
        header, *rows = re.findall(r"^\|(.+)\|$", _FENCE.sub("", section), re.MULTILINE) or [""]
        columns = _cells(header)
        for row in rows[1:] if rows else [""] if block else []:
            cells = dict(zip(columns, _cells(row), strict=False))
            given = {language: cells[language] for language in LANGUAGES if language in cells} or block
            told = [cell for name, cell in cells.items() if name not in (*given, "=>")] or list(cells.values())[:1]
            yield line, " - ".join(filter(None, (heading, *told))), _case(given, cells, names)


def _cells(row: str) -> list[str]:
    return [cell.strip().strip("`").replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", row)]


def _named(text: str, *known: Mapping[str, str]) -> str:
    """The text with names and cells in their places; a cell may hold names."""
    for each in known:
        for name, value in each.items():
            text = text.replace(f"{{{name}}}", value)
    return text


def _case(given: Mapping[str, str], cells: Mapping[str, str], names: Mapping[str, str]) -> Case:
    [(language, text)] = given.items()
    text += "".join(f"\n=> {each}" for each in _NEXT.split(_named(cells.get("=>", ""), names)) if each)
    text = _named(text, cells, names)
    lines = [re.sub(r"(^|\s+)# .*$", "", line) for line in text.splitlines()]
    expected = tuple(line.removeprefix("=> ") for line in lines if line.startswith("=> "))
    numbers = {name: number_or_text(value) for name, value in cells.items()}
    return Case(language, tuple(line for line in lines if not line.startswith("=> ")), expected, numbers)
