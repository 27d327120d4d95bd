"""A job of many ranks for programs: gpuledger.fleet/1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from gpuledger.json_types import Count, Json, Ns
from gpuledger.present.json.types import HealthJson, TableJson, fill, health_json, tables_json
from gpuledger.present.views.report_answer import FindingReport, finding_report

if TYPE_CHECKING:
    from gpuledger.present.views.fleet import Merged


class FailedProfileJson(Json):
    profile: str
    sentence: Annotated[str, Meta(min_length=1)]


class LateJson(Json):
    """how late each rank was in each step: late_ns has a row per entry of ranks and a column per entry of steps"""

    what: str
    ranks: list[str]
    steps: list[Count]
    late_ns: list[list[Ns]]


class FleetJson(Json):
    """Many profiles of one job, put together by rank. Keys ending in _ns are integer nanoseconds, in _bytes bytes, in
    _percent percent. The same bytes whoever did the work.
    """

    schema: Literal["gpuledger.fleet/1"]
    job: Annotated[str, Meta(description="the folders, globs and archives that were given")]
    profiles: Annotated[int, Meta(ge=1, description="how many there were, those that failed included")]
    failed: list[FailedProfileJson]
    ranks: Annotated[int, Meta(ge=0, description="ranks that take part")]
    world_size: Annotated[int | None, Meta(description="ranks that the job has, as the profiles say")]
    tables: list[TableJson]
    """times are per step. job_ranks: caused_ns is what the others, added up, waited until the rank came as the last;
    saves_ns by how much the job's step is shorter if that rank alone takes what the median rank takes between
    collectives, replayed; null where that was not tried. job_fixing, what saves the most first: kind is rank, stage or
    collective, alone_ns what fixing it alone saves, then_ns what it saves more once those above are fixed, step_ns the
    job's step with it and those above fixed, saved_percent of the step all of them; cause is what it takes longer in
    than the median, by longer_ns. fleet_stragglers: saves_percent is saves_ns of the job's step"""
    late: LateJson | None
    findings: list[FindingReport]
    health: list[HealthJson]


def fleet_json(merged: Merged) -> FleetJson:
    """The job; what was found in it has no one clock, so evidence has no instants."""
    late = merged.map
    return fill(
        FleetJson,
        merged,
        schema="gpuledger.fleet/1",
        job=merged.name,
        failed=[FailedProfileJson(profile=name, sentence=sentence) for name, sentence in merged.failed],
        tables=tables_json(merged.tables),
        late=None if late is None else fill(LateJson, late, late_ns=late.ns.tolist()),
        findings=[finding_report(finding, None) for finding in merged.findings],
        health=health_json(merged.notes),
    )
