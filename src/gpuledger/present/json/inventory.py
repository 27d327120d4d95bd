"""What there is, for programs: gpuledger.query/1, gpuledger.queryschema/1 and gpuledger.doctor/1."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta

from gpuledger.json_types import Count, Json
from gpuledger.present.json.types import HealthJson, fill, health_json
from gpuledger.sql.answer import QueryAnswer
from gpuledger.sql.tables import QueryTable
from gpuledger.trace.model import Note

if TYPE_CHECKING:
    from gpuledger.doctor.checks import Diagnosis


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


class DoctorCheckJson(Json):
    name: str
    verdict: Literal["ok", "warning", "problem", "not checked"]
    found: Annotated[str, Meta(min_length=1, description="What was seen; for a check that was not made, why.")]
    means: Annotated[str | None, Meta(description="What that means for profiles.")]
    fix: Annotated[str | None, Meta(description="What to do, in words.")]
    commands: list[str]
    """Lines for a shell or a file, as the fix says; words in capitals are to be replaced."""


class DoctorToolJson(Json):
    name: Literal["nsys", "ncu", "torch"]
    path: Annotated[str | None, Meta(description="Null: not found, or a package of Python.")]
    version: str | None


class InstalledGpuJson(Json):
    index: Count
    name: str
    memory_bytes: Count
    sm_mhz: Annotated[int | None, Meta(description="The clock of the moment, which says little about a busy GPU.")]
    highest_sm_mhz: int | None
    power_limit_mw: int | None
    split: Annotated[bool | None, Meta(description="Whether it is cut into MIG instances.")]
    compute_mode: str | None
    throttled_by: list[str]


class MachineJson(Json):
    driver: str | None
    cuda: Annotated[str | None, Meta(description="The newest CUDA that the driver runs.")]
    gpus: list[InstalledGpuJson]
    no_gpu_because: str | None
    """Why there is no GPU in the list, or fewer than there should be."""


class DoctorJson(Json):
    """Whether profiles can be recorded on a machine, check by check, with what to do. null: not known, not measured."""

    schema: Literal["gpuledger.doctor/1"]
    ready: bool
    """Whether something records timelines here and nothing is a problem; the exit code is 0 then, else 1."""
    records_with: Annotated[list[Literal["nsys", "torch.profiler"]], Meta(extra_json_schema={"uniqueItems": True})]
    tracing_ns_per_call: Annotated[float, Meta(ge=0)] | None
    """What tracing with nsys adds to a CUDA call on the host, measured on empty kernels; null if it was not
    measured."""
    checks: Annotated[list[DoctorCheckJson], Meta(min_length=1)]
    tools: list[DoctorToolJson]
    machine: MachineJson


def doctor_json(diagnosis: Diagnosis) -> DoctorJson:
    """The checks of a machine, and what they are about."""
    cost, machine = diagnosis.tracing_ns_per_call, diagnosis.machine
    return fill(
        DoctorJson,
        diagnosis,
        schema="gpuledger.doctor/1",
        ready=diagnosis.is_ready,
        tracing_ns_per_call=None if cost is None else round(cost, 3),
        checks=[
            fill(
                DoctorCheckJson,
                check.outcome,
                name=check.name,
                means=check.outcome.means or None,
                fix=check.outcome.fix or None,
            )
            for check in diagnosis.checks
        ],
        tools=[
            fill(DoctorToolJson, tool, path=None if tool.path is None else str(tool.path)) for tool in diagnosis.tools
        ],
        machine=fill(
            MachineJson,
            machine,
            gpus=[fill(InstalledGpuJson, gpu, split=gpu.is_split) for gpu in machine.gpus],
            no_gpu_because=machine.reason or None,
        ),
    )
