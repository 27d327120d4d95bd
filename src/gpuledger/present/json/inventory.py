"""What there is, for programs: gpuledger.query/1 and gpuledger.queryschema/1."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta

from gpuledger.json_types import Json
from gpuledger.present.json.types import HealthJson, fill, health_json
from gpuledger.sql.answer import QueryAnswer
from gpuledger.sql.tables import QueryTable
from gpuledger.trace.model import Note


class AnswerColumnJson(Json):
    name: str
    type: Annotated[str, Meta(description="DuckDB's type.")]


class QueryJson(Json):
    """The answer to a question in SQL. Values are those of the query, in the order of its columns."""

    schema: Literal["gpuledger.query/1"]
    profile: str
    sql: str
    columns: list[AnswerColumnJson]
    rows: list[list[Any]]
    """A list of values each. Dates and blobs are text; NaN and infinity are null."""
    is_cut: Annotated[bool, Meta(description="Whether there are more rows than the limit query-rows lets through.")]
    not_measured: list[str]
    """Which of the tables that the query names were not recorded, and why: their rows are not measured, not none."""
    health: list[HealthJson]


def query_json(profile: str, answer: QueryAnswer, notes: Iterable[Note]) -> QueryJson:
    """What a query answers; `notes` are those of the profile."""
    return QueryJson(
        schema="gpuledger.query/1",
        profile=profile,
        sql=answer.sql,
        columns=[fill(AnswerColumnJson, column) for column in answer.columns],
        rows=[list(row) for row in answer.rows],
        is_cut=answer.is_cut,
        not_measured=list(answer.notes),
        health=health_json(notes),
    )


class QueryColumnJson(Json):
    name: str
    type: str
    unit: str
    meaning: str


class QueryTableJson(Json):
    table: str
    row: Annotated[str, Meta(description="What a row stands for.")]
    columns: list[QueryColumnJson]


class QuerySchemaJson(Json):
    """The tables that can be asked in SQL."""

    schema: Literal["gpuledger.queryschema/1"]
    tables: list[QueryTableJson]


def query_schema_json(tables: Sequence[QueryTable]) -> QuerySchemaJson:
    """Tables, column by column."""
    return QuerySchemaJson(
        schema="gpuledger.queryschema/1",
        tables=[
            QueryTableJson(table.name, table.row, [fill(QueryColumnJson, column) for column in table.columns])
            for table in tables
        ],
    )
