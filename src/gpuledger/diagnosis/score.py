"""How right a tool's answers are: cases and answers in; a score of each case, and counts over some of them, out.

Right is what names an accepted cause. First, among the first three, and whether the first at least names the area;
whether its saving is what the fix saved; and what is claimed of programs that do not have it. Findings about the
recording take no place. A finding that says it saves less than NO_CLAIM percent claims nothing: runs differ by as much.
`own_answers` gives our own: a report of each capture, its findings by the causes of the list.
"""

from __future__ import annotations

import tarfile
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Annotated, Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from gpuledger.diagnosis.cases import (
    RECORDING,
    CaseAnswer,
    CaseKind,
    DiagnosisAnswers,
    DiagnosisBenchmark,
    DiagnosisCase,
    NamedFinding,
)
from gpuledger.errors import GpuledgerError
from gpuledger.findings.profiled_run import WHERE_SAMPLED, ProfiledRun, columns_for, diagnose
from gpuledger.messages import say
from gpuledger.read import open_trace
from gpuledger.rows import Label, Row, Unit
from gpuledger.selection import Selection
from gpuledger.version import own_version

LOOKED_AT: Final = 3  # so many findings count; who lists every cause there is names none
NO_CLAIM: Final = 5.0
WITHIN: Final = 0.25


class CaseScore(Struct, frozen=True):
    """How right a tool's findings of one case are. Percents are of a step before the fix, under nsys."""

    id: str
    kind: CaseKind
    group: str
    accepted: tuple[str, ...]
    answered: bool
    first: str | None
    """The first finding, in the tool's words; null where it has none."""
    place: int | None
    """From 1, of the first finding that names the fault; null where none of the first three does."""
    area_is_right: bool
    said_percent: float | None
    """What the finding that names the fault says it saves."""
    measured_percent: float | None
    """What fixing that, or else the first of the faults, saved; null where it was not measured."""
    measured_ns: int | None
    false_claims: tuple[str, ...]
    not_in_list: tuple[str, ...]
    """Words that name no cause of the list."""

    @property
    def saving_error(self) -> float | None:
        """Of what was said, as a share of what was saved."""
        if self.said_percent is None or self.measured_percent is None:
            return None
        return self.said_percent / self.measured_percent - 1


class ScoreTally(Row, frozen=True, kw_only=True):
    """How a tool does over some cases: `faults` that could be named, `controls` without them."""

    group: Annotated[str | None, Label(say("Case group"), meaning="null: all cases")] = None
    seen: Annotated[
        Literal["built on", "adjusted after", "not used"] | None,
        Label(say("Our rules"), detail=1, meaning="what the rules of gpuledger had to do with these programs"),
    ] = None
    tool: Annotated[str | None, Label(say("Tool"))] = None
    faults: Annotated[int, Label(say("Faults"), Unit.COUNT, meaning="programs with a fault")]
    first: Annotated[int, Label(say("First"), Unit.COUNT, meaning="faults that the first finding names")]
    in_first_three: Annotated[int, Label(say("Top 3"), Unit.COUNT)]
    area: Annotated[
        int,
        Label(say("Right area"), Unit.COUNT, detail=3, meaning="faults whose area at least is named first"),
    ]
    measured: Annotated[
        int, Label(say("Measured savings"), Unit.COUNT, detail=2, meaning="faults whose saving was measured by itself")
    ]
    savings_given: int
    """Of those, where one of the first three findings names the fault and says a saving."""
    savings_within: Annotated[
        int, Label(say("Within 25 %"), Unit.COUNT, meaning="of those, how many are within 25 % of what was measured")
    ]
    median_error: Annotated[
        float | None, Label(say("Median error"), Unit.SHARE, meaning="of the savings given; null: none was")
    ]
    controls: Annotated[
        int, Label(say("Controls"), Unit.COUNT, detail=2, meaning="programs without the fault, or without any")
    ]
    claimed: Annotated[int, Label(say("False claims"), Unit.COUNT, meaning="controls where it is claimed all the same")]
    answered: int


class ToolScore(Struct, frozen=True):
    """One tool."""

    tool: str
    version: str
    total: ScoreTally
    groups: tuple[ScoreTally, ...]
    cases: tuple[CaseScore, ...]

    @property
    def name(self) -> str:
        return f"{self.tool} {self.version}".rstrip()

    def of_cases(self, ids: Collection[str]) -> ScoreTally:
        return tally(score for score in self.cases if score.id in ids)


def tool_score(benchmark: DiagnosisBenchmark, answers: DiagnosisAnswers) -> ToolScore:
    """How a tool does on all cases; one that it does not answer is not named."""
    given = {answer.id: answer.findings for answer in answers.cases}
    scores = tuple(case_score(benchmark, case, given.get(case.id)) for case in benchmark.cases)
    groups = (
        replace(
            tally(score for score in scores if score.group == group.id),
            group=group.id,
            seen=group.seen,
            tool=answers.tool,
        )
        for group in benchmark.used_groups
    )
    total = tally(scores)
    score = ToolScore(answers.tool, answers.version, total, tuple(groups), scores)
    return replace(score, total=replace(total, tool=score.name))


def case_score(
    benchmark: DiagnosisBenchmark, case: DiagnosisCase, findings: Sequence[NamedFinding] | None
) -> CaseScore:
    """How right the findings of one case are; None: it was not answered."""
    looked_at = [finding for finding in findings or () if benchmark.named(finding.cause) != RECORDING][:LOOKED_AT]
    causes = [benchmark.named(finding.cause) for finding in looked_at]
    place = next((place for place, cause in enumerate(causes) if cause in case.accepted), None)
    right = None if place is None else causes[place]
    faults = (*(fault for fault in case.faults if right in fault.accepted), *case.faults)
    areas = {benchmark.area_of[cause] for cause in case.accepted}

    def is_false(finding: NamedFinding, cause: str | None) -> bool:
        """Of a tuned program every reason is false, in any words; what names no reason at all is none."""
        if finding.saving_percent is not None and finding.saving_percent < NO_CLAIM:
            return False
        if case.kind == "tuned":
            return benchmark.area_of.get(cause or "") != RECORDING
        return cause in case.never

    named = list(zip(looked_at, causes, strict=True))
    measured = faults[0].profiled if faults else None
    return CaseScore(
        id=case.id,
        kind=case.kind,
        group=case.group,
        accepted=case.accepted,
        answered=findings is not None,
        first=looked_at[0].cause if looked_at else None,
        place=None if place is None else place + 1,
        area_is_right=bool(causes) and benchmark.area_of.get(causes[0] or "") in areas,
        said_percent=None if place is None else looked_at[place].saving_percent,
        measured_percent=None if measured is None else measured.percent,
        measured_ns=None if measured is None else measured.saves_ns,
        false_claims=tuple(finding.cause for finding, cause in named if is_false(finding, cause)),
        not_in_list=tuple(finding.cause for finding, cause in named if cause is None),
    )


def tally(scores: Iterable[CaseScore]) -> ScoreTally:
    """The counts over some cases."""
    scores = list(scores)
    faults = [score for score in scores if score.accepted]
    controls = [score for score in scores if not score.accepted]
    errors = [abs(score.saving_error) for score in faults if score.saving_error is not None]
    return ScoreTally(
        faults=len(faults),
        first=sum(score.place == 1 for score in faults),
        in_first_three=sum(score.place is not None for score in faults),
        area=sum(score.area_is_right for score in faults),
        measured=sum(score.measured_ns is not None for score in faults),
        savings_given=len(errors),
        savings_within=sum(error <= WITHIN for error in errors),
        median_error=median(errors) if errors else None,
        controls=len(controls),
        claimed=sum(bool(score.false_claims) for score in controls),
        answered=sum(score.answered for score in scores),
    )


Tell = Callable[[int, DiagnosisCase], None]  # told which case comes next, and how many came before it

_SEPARATOR: Final = "::"


class NoCaptures(GpuledgerError):
    """The captures of the cases are not here."""


def captures_folder(benchmark: DiagnosisBenchmark) -> Path:
    """`captures/` of the repository that we stand in, or that this package is run from."""
    archive = benchmark.cases[0].capture.partition(_SEPARATOR)[0]
    here = Path.cwd()
    for folder in (here, *here.parents, *Path(__file__).resolve().parents):
        if (folder / "captures" / archive).is_file():
            return folder / "captures"
    hint = "clone gpuledger's repository and run this in it; --answers scores a tool's answers anywhere"
    raise NoCaptures("the captures of the cases are not here", found=f"looked for captures/{archive}", hint=hint)


def own_answers(benchmark: DiagnosisBenchmark, folder: Path, tell: Tell) -> DiagnosisAnswers:
    """What our reports of all captures say."""
    answers: list[CaseAnswer] = []
    for case, capture in _unpacked(benchmark.cases, folder):
        tell(len(answers), case)
        trace = open_trace(capture, only=columns_for(), where_sampled=WHERE_SAMPLED, cache=False)
        answers.append(own_answer(benchmark, case, diagnose(trace, case.id, Selection())))
    return DiagnosisAnswers("gpuledger", tuple(answers), own_version())


def own_answer(benchmark: DiagnosisBenchmark, case: DiagnosisCase, run: ProfiledRun) -> CaseAnswer:
    """The findings of one report, in its order."""
    steady_ns = {device.gpu: device.steady_ns for device in run.devices}
    whole_ns = run.main_device.steady_ns
    return CaseAnswer(
        case.id,
        tuple(
            NamedFinding(
                benchmark.cause_of_code[finding.code],
                f"{finding.code}: {finding.claim}",
                min(100.0, round(100 * finding.saving_ns / steady_ns.get(finding.gpu, whole_ns), 1)),
            )
            for finding in run.findings
        ),
    )


def _unpacked(cases: tuple[DiagnosisCase, ...], folder: Path) -> Iterator[tuple[DiagnosisCase, Path]]:
    """Each case with its capture, archive by archive; one after the other is on disk."""
    for name, group in groupby(cases, key=lambda case: case.capture.partition(_SEPARATOR)[0]):
        wanted = {case.capture.partition(_SEPARATOR)[2]: case for case in group}
        try:
            with tarfile.open(folder / name) as archive, tempfile.TemporaryDirectory() as beside:
                for member in archive:
                    if (case := wanted.pop(member.name, None)) is not None:
                        archive.extract(member, beside, filter="data")
                        yield case, Path(beside, member.name)
                        Path(beside, member.name).unlink()
                    if not wanted:
                        break
        except (OSError, tarfile.TarError) as error:
            raise NoCaptures(f"{folder / name}: cannot be read", found=str(error)) from None
        if wanted:
            raise NoCaptures(f"{folder / name}: holds no member {next(iter(wanted))}")
