"""How well tools name planted faults, for programs: gpuledger.diagnosis/1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Meta

from gpuledger.diagnosis.cases import DiagnosisBenchmark, MeasuredSaving
from gpuledger.diagnosis.score import CaseScore, ToolScore
from gpuledger.json_types import Count, Json
from gpuledger.present.json.types import fill


class ScoreTallyJson(Json, kw_only=True):  # so that the keys of a group stand before these
    faults: Annotated[Count, Meta(description="Programs with a fault.")]
    first: Annotated[Count, Meta(description="Of those, where the first finding names it.")]
    in_first_three: Count
    area: Annotated[Count, Meta(description="Where the first finding is in the right area, at least.")]
    measured: Annotated[Count, Meta(description="Faults whose saving was measured by itself.")]
    savings_given: Count
    """Of those, where one of the first three findings names the fault and says a saving."""
    savings_within: Annotated[Count, Meta(description="Of those, where it is within 25 % of what was measured.")]
    median_error: Annotated[float, Meta(ge=0)] | None
    """Of the savings that were given, as a share of what was measured; null where none was given."""
    controls: Annotated[Count, Meta(description="Programs without the fault, or without any.")]
    claimed: Annotated[Count, Meta(description="Of those, where it is claimed all the same.")]
    answered: Count


class GroupTallyJson(ScoreTallyJson):
    """The same of one group."""

    group: str
    seen: Literal["built on", "adjusted after", "not used"]
    """What the rules of gpuledger had to do with these programs."""


class CaseScoreJson(Json):
    id: str
    kind: Literal["fault", "fixed", "decoy", "tuned"]
    group: str
    accepted: list[str]
    answered: bool
    first: Annotated[str | None, Meta(description="The first finding, in the tool's words; null where it has none.")]
    place: Annotated[int, Meta(ge=1, le=3)] | None
    """Of the first finding that names the fault; null where none of the first three does."""
    area_is_right: bool
    said_percent: Annotated[float, Meta(ge=0, le=100)] | None
    measured_percent: Annotated[float | None, Meta(description="Under nsys; null where it was not measured.")]
    measured_ns: int | None
    false_claims: list[str]
    not_in_list: Annotated[list[str], Meta(description="Words that name no cause of the list.")]


class ToolScoreJson(Json):
    tool: str
    version: str
    total: ScoreTallyJson
    groups: list[GroupTallyJson]
    cases: list[CaseScoreJson]


class DiagnosisJson(Json):
    """How well tools name planted faults: `gpuledger bench diagnosis`.

    Counts are of cases; percents are of a step before the fix.
    """

    schema: Literal["gpuledger.diagnosis/1"]
    cases: Annotated[int, Meta(ge=1)]
    tools: list[ToolScoreJson]


def diagnosis_json(benchmark: DiagnosisBenchmark, scores: Sequence[ToolScore]) -> DiagnosisJson:
    """The scores of some tools over the same cases."""
    return DiagnosisJson(
        schema="gpuledger.diagnosis/1",
        cases=len(benchmark.cases),
        tools=[
            fill(
                ToolScoreJson,
                score,
                total=fill(ScoreTallyJson, score.total),
                groups=[
                    fill(GroupTallyJson, score.of_group(group.id), group=group.id, seen=group.seen)
                    for group in benchmark.used_groups
                ],
                cases=[_case(case) for case in score.cases],
            )
            for score in scores
        ],
    )


def _case(score: CaseScore) -> CaseScoreJson:
    measured = score.measured if isinstance(score.measured, MeasuredSaving) else None
    return fill(
        CaseScoreJson,
        score,
        id=score.case.id,
        kind=score.case.kind,
        group=score.case.group,
        accepted=list(score.case.accepted),
        answered=score.is_answered,
        first=score.first or None,
        area_is_right=score.is_area_right,
        measured_percent=None if measured is None else round(measured.percent, 3),
        measured_ns=None if measured is None else measured.saves_ns,
    )
