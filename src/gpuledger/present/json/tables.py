"""What a verb that asks one question answers, for programs: its tables, and what else it has to say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

from gpuledger.json_types import Json
from gpuledger.present.json.types import (
    CellJson,
    HealthJson,
    TableJson,
    health_json,
    rows_json,
    tables_json,
)
from gpuledger.present.sheet import Sheet
from gpuledger.trace.model import Note, NotMeasured

ZeroNs: TypeAlias = Annotated[
    int,
    Meta(
        description="The profile's own clock at 0. start_ns, end_ns and every other instant in the tables counts from "
        "it, as --time takes it; added to it, it is the instant in the profile."
    ),
]


class TablesJson(Json):
    """Tables that answer one question. Keys ending in _ns are nanoseconds, in _bytes bytes, in _percent percent of what
    the table's title says.
    """

    schema: Annotated[str, Meta(title="gpuledger.tables/1", pattern=r"^gpuledger\.[a-z]+/1$")]
    profile: str
    zero_ns: ZeroNs
    tables: list[TableJson]
    health: list[HealthJson]


class MissingTableJson(Json):
    table: str
    reason: str


class NvidiaReportJson(Json):
    """One of NVIDIA's tables, or why the profile cannot give it."""


class NvidiaTableJson(NvidiaReportJson):
    report: str
    title: str
    rows: list[dict[str, CellJson]]


class NoNvidiaTableJson(NvidiaReportJson):
    """The profile cannot give this table; the reason says why."""

    report: str
    not_measured: str
    rows: None


class StatsJson(Json):
    """NVIDIA's summary tables of one profile. Keys ending in _ns are nanoseconds, in _bytes bytes, in _percent percent
    of the table's own total.
    """

    schema: Literal["gpuledger.stats/1"]
    profile: str
    reports: list[NvidiaReportJson]
    health: list[HealthJson]


def answer_json(verb: str, profile: str, zero_ns: int, sheets: Iterable[Sheet], notes: Iterable[Note]) -> TablesJson:
    """The tables of one of many verbs."""
    return TablesJson(
        schema=f"gpuledger.{verb}/1",
        profile=profile,
        zero_ns=zero_ns,
        tables=tables_json(sheets),
        health=health_json(notes),
    )


def stats_json(profile: str, named: Iterable[tuple[str, Sheet | NotMeasured]], notes: Iterable[Note]) -> StatsJson:
    """NVIDIA's tables by their names."""
    return StatsJson(
        schema="gpuledger.stats/1",
        profile=profile,
        reports=[
            NoNvidiaTableJson(report=name, not_measured=sheet.reason, rows=None)
            if isinstance(sheet, NotMeasured)
            else NvidiaTableJson(report=name, title=sheet.title, rows=rows_json(sheet))
            for name, sheet in named
        ],
        health=health_json(notes),
    )
