"""What there is, for programs: gpuledger.info/1, gpuledger.query/1 and gpuledger.queryschema/1."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import UNSET, Meta, UnsetType

from gpuledger.analyse.inventory import Contents
from gpuledger.json_types import Count, Json, Share
from gpuledger.present.json.types import HealthJson, MissingJson, fill, health_json
from gpuledger.present.sheet import plain
from gpuledger.sql.answer import QueryAnswer
from gpuledger.sql.tables import QueryTable
from gpuledger.system.kept_files import KeptOfProfile
from gpuledger.trace.model import Note, Trace, os_pid

_Two: TypeAlias = Annotated[list[int], Meta(min_length=2, max_length=2)]


class DecodingJson(Json):
    """How a SQLite file was read: by our own decoder, or by SQLite, for a reason."""

    by: Literal["native", "sqlite"]
    reason: Literal["not-compiled", "switched-off", "write-ahead-log", "journal", "unusual-header"] | None
    by_sqlite: Annotated[list[str], Meta(description="The tables that the decoder left to SQLite.")]


class ProfileOriginJson(Json):
    tool: str
    tool_version: str | None
    schema_version: str | None
    container: Literal["sqlite", "parquetdir", "arrowdir", "json", "json.gz"]
    started_utc: str | None
    driver_version: str | None
    cuda_version: str | None
    asked_for: list[str] | None
    decoding: DecodingJson | None


class ProfiledGpuJson(Json):
    gpu: Count
    name: str
    bus: str | None
    compute_capability: _Two | None
    sm_count: int | None
    memory_bytes: int | None
    bandwidth_bytes_per_s: int | None
    clock_hz: int | None
    l2_bytes: int | None
    processes: int
    streams: int
    kernels: int
    copies: int
    graphs: int


class ProfiledProcessJson(Json):
    pid: int
    name: str | None
    threads: int
    calls: int
    ranges: int
    gpu_work: int


class PrivateJson(Json):
    """Only with --verbose."""

    command: list[str]
    host: str | None
    environment: list[Annotated[list[str], Meta(min_length=2, max_length=2)]]


class KeptJson(Json):
    """What the cache has of the profile, but for answers of `info` itself."""

    folder: str
    readings: Count
    reading_bytes: Count
    answers: Count
    answer_bytes: Count
    verbs: Annotated[list[str], Meta(description="That were answered, each once.")]
    since_utc: Annotated[str | None, Meta(description="When the oldest of it was kept; null: nothing is.")]


class InfoJson(Json):
    """The inventory of one profile. null: the profile does not say."""

    schema: Literal["gpuledger.info/1"]
    profile: str
    origin: ProfileOriginJson
    span_ns: _Two | None
    plain_window_ns: Annotated[int, Meta(gt=0)] | None
    """How long what was recorded took without the profiler, by the manifest beside the profile; null where it says
    nothing."""
    gpus: list[ProfiledGpuJson]
    processes: list[ProfiledProcessJson]
    tables: dict[str, Count]
    source_rows: dict[str, Count]
    launched_share: Share | None
    missing: list[MissingJson]
    health: list[HealthJson]
    private: PrivateJson | UnsetType = UNSET
    kept: Annotated[KeptJson | UnsetType, Meta(description="Absent where the cache is switched off.")] = UNSET


def info_json(
    name: str, trace: Trace, inventory: Contents, kept: KeptOfProfile | None = None, *, verbose: bool
) -> InfoJson:
    """The inventory of a profile; what may name people or places only where it is asked for."""
    origin = trace.origin
    return InfoJson(
        schema="gpuledger.info/1",
        profile=name,
        origin=fill(
            ProfileOriginJson, origin, decoding=None if origin.decoding is None else fill(DecodingJson, origin.decoding)
        ),
        span_ns=plain(inventory.span),
        plain_window_ns=plain(trace.plain_window_ns),
        gpus=[
            fill(
                ProfiledGpuJson,
                use.gpu,
                gpu=use.index,
                processes=use.processes,
                streams=use.streams,
                kernels=use.kernels,
                copies=use.copies,
                graphs=use.graphs,
            )
            for use in inventory.gpus
        ],
        processes=[
            fill(ProfiledProcessJson, use, pid=os_pid(use.process.pid), name=use.process.name)
            for use in inventory.processes
        ],
        tables=dict(inventory.rows),
        source_rows=dict(origin.source_rows),
        launched_share=plain(inventory.launched),
        missing=[fill(MissingJson, lack) for lack in inventory.missing],
        health=health_json(trace.health),
        private=fill(PrivateJson, origin.private) if verbose else UNSET,
        kept=UNSET if kept is None else _kept_json(kept),
    )


def _kept_json(kept: KeptOfProfile) -> KeptJson:
    since = None if kept.since_s is None else datetime.fromtimestamp(kept.since_s, UTC).isoformat()
    return fill(KeptJson, kept, verbs=list(kept.verbs), since_utc=since)


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
