"""What a tool says of the cases, as JSON: the document gpuledger.diagnosis-answers/1.

Anybody's file: it is small, checked field by field, and a mistake in it is one sentence.
"""

from __future__ import annotations

import difflib
from collections import Counter
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from gpuledger.diagnosis.cases import DiagnosisBenchmark
from gpuledger.errors import GpuledgerError

SCHEMA: Final = "gpuledger.diagnosis-answers/1"
_LARGEST: Final = 16 * 1024 * 1024
_HINT: Final = "`gpuledger bench diagnosis --write-answers=FILE` writes answers as they should be"

Name = Annotated[str, Meta(min_length=1, max_length=200)]


class BadAnswers(GpuledgerError):
    """The answers are not what they should be."""


class NamedFinding(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One thing that a tool says: a cause, by a word of the list, and what fixing it would save of a step."""

    cause: Name
    where: str = ""
    saving_percent: Annotated[float, Meta(ge=0, le=100)] | None = None


class CaseAnswer(Struct, frozen=True, forbid_unknown_fields=True):
    """What it says of one case, the most important first."""

    id: Name
    findings: tuple[NamedFinding, ...]


class DiagnosisAnswers(Struct, frozen=True, forbid_unknown_fields=True):
    """All its answers."""

    tool: Name
    cases: tuple[CaseAnswer, ...]
    version: Annotated[str, Meta(max_length=200)] = ""
    schema: str = SCHEMA


def answers_of(text: bytes, name: str, benchmark: DiagnosisBenchmark) -> DiagnosisAnswers:
    """The answers in a file's content; `name` is how errors call the file."""
    try:
        answers = msgspec.json.decode(text, type=DiagnosisAnswers)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadAnswers(f"{name}: not answers to the diagnosis benchmark", found=str(error), hint=_HINT) from None
    if answers.schema != SCHEMA:
        found = f"its schema is {answers.schema!r}, expected {SCHEMA!r}"
        raise BadAnswers(f"{name}: not answers to the diagnosis benchmark", found=found, hint=_HINT)
    ids = [answer.id for answer in answers.cases]
    if unknown := benchmark.unknown(ids):
        close = difflib.get_close_matches(unknown[0], [case.id for case in benchmark.cases], n=1)
        hint = f"did you mean {close[0]!r}?" if close else _HINT
        raise BadAnswers(f"{name}: there is no case {unknown[0]!r}", hint=hint)
    if twice := [one for one, count in Counter(ids).items() if count > 1]:
        raise BadAnswers(f"{name}: the case {twice[0]!r} is answered twice", hint="put its findings into one list")
    return answers


def answers_at(path: Path, benchmark: DiagnosisBenchmark) -> DiagnosisAnswers:
    """The answers in a file."""
    try:
        with path.open("rb") as file:
            text = file.read(_LARGEST + 1)
    except OSError as error:
        raise BadAnswers(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}") from None
    if len(text) > _LARGEST:
        raise BadAnswers(f"{path}: answers have {_LARGEST:,} bytes at most")
    return answers_of(text, str(path), benchmark)


def answers_text(answers: DiagnosisAnswers) -> bytes:
    """The same as a file."""
    return msgspec.json.format(msgspec.json.encode(answers), indent=1) + b"\n"
