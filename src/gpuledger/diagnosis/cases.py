"""The cases of the benchmark: `cases.yaml` in; causes by name, programs with their captures and measured savings out.

Causes are named without any tool's words. Whoever answers may use a cause's id, one of its aliases, or only its area.
`answers_of` reads what a tool says of the cases, as JSON: the document gpuledger.diagnosis-answers/1.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct

from gpuledger.errors import GpuledgerError
from gpuledger.trace.model import NotMeasured

CaseKind = Literal["fault", "fixed", "decoy", "tuned"]

RECORDING: Final = "recording"  # the cause, and the area, that say nothing about the program


class FaultCause(Struct, frozen=True, forbid_unknown_fields=True):
    """One reason to lose time; `codes` are the findings of ours that name it."""

    id: str
    area: str
    means: str
    codes: tuple[str, ...]
    aliases: tuple[str, ...]


class CaseGroup(Struct, frozen=True, forbid_unknown_fields=True):
    """Cases that were made together; `seen` says what our rules had to do with them."""

    id: str
    about: str
    seen: Literal["built on", "adjusted after", "not used"]
    made_by: str
    measured_in: str


class MeasuredSaving(Struct, frozen=True, forbid_unknown_fields=True):
    """What a fix saved of each step of `step_ns`."""

    step_ns: int
    saves_ns: int

    @property
    def percent(self) -> float:
        """Of the step before the fix."""
        return 100 * self.saves_ns / self.step_ns


class BothSavings(Struct, frozen=True, forbid_unknown_fields=True):
    """Under the profiler and without it."""

    profiled: MeasuredSaving
    plain: MeasuredSaving


class PlantedFault(Struct, frozen=True, forbid_unknown_fields=True):
    """One thing that is wrong with a program: any of the `accepted` causes is right."""

    accepted: tuple[str, ...]
    profiled: MeasuredSaving | None = None
    plain: MeasuredSaving | None = None
    not_measured: str = ""

    @property
    def saving(self) -> MeasuredSaving | NotMeasured:
        """As profiled, which is what a tool sees."""
        return self.profiled or NotMeasured(self.not_measured)


class DiagnosisCase(Struct, frozen=True, forbid_unknown_fields=True):
    """One capture, and what is to be said of it."""

    id: str
    kind: CaseKind
    group: str
    loses: str
    program: str
    capture: str
    torch: str = ""
    faults: tuple[PlantedFault, ...] = ()
    all_fixed: BothSavings | None = None
    never: tuple[str, ...] = ()

    @property
    def accepted(self) -> tuple[str, ...]:
        """The causes that are right, of any of its faults."""
        return tuple(dict.fromkeys(cause for fault in self.faults for cause in fault.accepted))


class DiagnosisBenchmark(Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """All of it."""

    areas: Mapping[str, str]
    causes: tuple[FaultCause, ...]
    groups: tuple[CaseGroup, ...]
    left_out: Mapping[str, str]
    cases: tuple[DiagnosisCase, ...]

    @cached_property
    def cause_of_code(self) -> Mapping[str, str]:
        return {code: cause.id for cause in self.causes for code in cause.codes}

    @cached_property
    def area_of(self) -> Mapping[str, str]:
        """The area of each cause; an area is in itself."""
        return {**{area: area for area in self.areas}, **{cause.id: cause.area for cause in self.causes}}

    @cached_property
    def _named(self) -> Mapping[str, str]:
        aliases = {alias: cause.id for cause in self.causes for alias in cause.aliases}
        return {**aliases, **{known: known for known in self.area_of}}

    def named(self, text: str) -> str | None:
        """The cause or the area that a tool's word stands for; None where the list has no such word."""
        return self._named.get("-".join(text.lower().replace("_", " ").replace("-", " ").split()))

    @property
    def used_groups(self) -> list[CaseGroup]:
        there = {case.group for case in self.cases}
        return [group for group in self.groups if group.id in there]

    @cached_property
    def unseen(self) -> tuple[str, ...]:
        """The programs with a fault that no rule of ours was made on."""
        unused = {group.id for group in self.groups if group.seen == "not used"}
        return tuple(case.id for case in self.cases if case.faults and case.group in unused)

    def only(self, ids: Collection[str]) -> DiagnosisBenchmark:
        return msgspec.structs.replace(self, cases=tuple(case for case in self.cases if case.id in ids))

    def unknown(self, ids: Sequence[str]) -> list[str]:
        known = {case.id for case in self.cases}
        return [name for name in ids if name not in known]


def diagnosis_benchmark() -> DiagnosisBenchmark:
    """The cases that come with the package."""
    text = files("gpuledger").joinpath("diagnosis", "cases.yaml").read_bytes()
    return msgspec.yaml.decode(text, type=DiagnosisBenchmark)


SCHEMA: Final = "gpuledger.diagnosis-answers/1"
_LARGEST: Final = 16 * 1024 * 1024
_HINT: Final = "`gpuledger bench diagnosis --write-answers=FILE` writes answers as they should be"

Name = Annotated[str, Meta(min_length=1, max_length=200)]


class BadAnswers(GpuledgerError):
    """The answers are not what they should be."""


class NamedFinding(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One thing that a tool says: a cause, by a word of the list, and what fixing it would save of a step."""

    cause: Annotated[
        Name,
        Meta(
            description="The id of a cause, one of its aliases, or an area, in any case and with spaces, _ or -. Other "
            "words count as wrong."
        ),
    ]
    where: Annotated[str, Meta(description="For people; not scored.")] = ""
    saving_percent: Annotated[
        Annotated[float, Meta(ge=0, le=100)] | None,
        Meta(description="What fixing it alone saves of a step, as profiled."),
    ] = None


class CaseAnswer(Struct, frozen=True, forbid_unknown_fields=True):
    """What it says of one case."""

    id: Annotated[Name, Meta(description="The id of a case in cases.yaml.")]
    findings: Annotated[
        tuple[NamedFinding, ...],
        Meta(description="The most important first; the first three count. Empty: nothing is wrong."),
    ]


class DiagnosisAnswers(Struct, frozen=True, forbid_unknown_fields=True, tag_field="schema", tag=SCHEMA):
    """What a tool says of the cases of `gpuledger bench diagnosis`. A case that is left out counts as not answered."""

    tool: Name
    cases: tuple[CaseAnswer, ...]
    version: Annotated[str, Meta(max_length=200)] = ""


def answers_of(text: bytes, name: str, benchmark: DiagnosisBenchmark) -> DiagnosisAnswers:
    """The answers in a file's content; `name` is how errors call the file."""
    try:
        answers = msgspec.json.decode(text, type=DiagnosisAnswers)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadAnswers(f"{name}: not answers to the diagnosis benchmark", found=str(error), hint=_HINT) from None
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
