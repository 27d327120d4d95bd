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
from typing import Final

from msgspec import Struct

from gpuledger.diagnosis.cases import (
    RECORDING,
    CaseAnswer,
    DiagnosisAnswers,
    DiagnosisBenchmark,
    DiagnosisCase,
    MeasuredSaving,
    NamedFinding,
)
from gpuledger.errors import GpuledgerError
from gpuledger.findings.profiled_run import WHERE_SAMPLED, ProfiledRun, columns_for, diagnose
from gpuledger.read import open_trace
from gpuledger.selection import Selection
from gpuledger.trace.model import NotMeasured
from gpuledger.version import own_version

LOOKED_AT: Final = 3  # so many findings count; who lists every cause there is names none
NO_CLAIM: Final = 5.0
WITHIN: Final = 0.25


class CaseScore(Struct, frozen=True):
    """One case. `place` is the place, from 1, of the first finding that is right, among those that are looked at."""

    case: DiagnosisCase
    is_answered: bool
    first: str  # the first finding, in the tool's words; empty where it has none
    place: int | None
    is_area_right: bool
    said_percent: float | None
    """What the finding that is right says it saves; None where none is, or says nothing."""
    measured: MeasuredSaving | NotMeasured  # what fixing that, or else the first of the faults, saved
    false_claims: tuple[str, ...]
    not_in_list: tuple[str, ...]  # words that name no cause that is known

    @property
    def saving_error(self) -> float | None:
        """Of what was said, as a share of what was saved."""
        if self.said_percent is None or isinstance(self.measured, NotMeasured):
            return None
        return self.said_percent / self.measured.percent - 1


class ScoreTally(Struct, frozen=True):
    """Counts over some cases: `faults` that could be named, `controls` without them."""

    faults: int
    first: int
    in_first_three: int
    area: int
    measured: int  # faults whose saving was measured
    savings_given: int
    savings_within: int
    median_error: float | None  # of the savings that were given; None where none was
    controls: int
    claimed: int  # controls of which something false is claimed
    answered: int


class ToolScore(Struct, frozen=True):
    """One tool."""

    tool: str
    version: str
    cases: tuple[CaseScore, ...]

    @property
    def name(self) -> str:
        return f"{self.tool} {self.version}".rstrip()

    @property
    def total(self) -> ScoreTally:
        return tally(self.cases)

    def of_group(self, group: str) -> ScoreTally:
        return tally(score for score in self.cases if score.case.group == group)

    def of_cases(self, ids: Collection[str]) -> ScoreTally:
        return tally(score for score in self.cases if score.case.id in ids)


def tool_score(benchmark: DiagnosisBenchmark, answers: DiagnosisAnswers) -> ToolScore:
    """How a tool does on all cases; one that it does not answer is not named."""
    given = {answer.id: answer.findings for answer in answers.cases}
    scores = tuple(case_score(benchmark, case, given.get(case.id)) for case in benchmark.cases)
    return ToolScore(answers.tool, answers.version, scores)


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
    return CaseScore(
        case,
        is_answered=findings is not None,
        first=looked_at[0].cause if looked_at else "",
        place=None if place is None else place + 1,
        is_area_right=bool(causes) and benchmark.area_of.get(causes[0] or "") in areas,
        said_percent=None if place is None else looked_at[place].saving_percent,
        measured=faults[0].saving if faults else NotMeasured("nothing is wrong"),
        false_claims=tuple(finding.cause for finding, cause in named if is_false(finding, cause)),
        not_in_list=tuple(finding.cause for finding, cause in named if cause is None),
    )


def tally(scores: Iterable[CaseScore]) -> ScoreTally:
    """The counts over some cases."""
    scores = list(scores)
    faults = [score for score in scores if score.case.faults]
    controls = [score for score in scores if not score.case.faults]
    errors = [abs(score.saving_error) for score in faults if score.saving_error is not None]
    return ScoreTally(
        faults=len(faults),
        first=sum(score.place == 1 for score in faults),
        in_first_three=sum(score.place is not None for score in faults),
        area=sum(score.is_area_right for score in faults),
        measured=sum(isinstance(score.measured, MeasuredSaving) for score in faults),
        savings_given=len(errors),
        savings_within=sum(error <= WITHIN for error in errors),
        median_error=median(errors) if errors else None,
        controls=len(controls),
        claimed=sum(bool(score.false_claims) for score in controls),
        answered=sum(score.is_answered for score in scores),
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
