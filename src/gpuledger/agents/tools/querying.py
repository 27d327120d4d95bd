"""Questions in SQL, and the tables that they can be asked of."""

from __future__ import annotations

from typing import Final

from gpuledger.agents.answers import AgentAnswer, paged
from gpuledger.agents.profiles import AgentProfiles
from gpuledger.agents.tools.tool import HANDLE, LIMIT, OFFSET, AgentTool
from gpuledger.present.views.query import query_document, schema_document
from gpuledger.sql.answer import answered
from gpuledger.sql.statement import no_table, statement
from gpuledger.sql.subject import QuerySubject
from gpuledger.sql.tables import BY_NAME
from gpuledger.sql.tables import TABLES as SQL_TABLES


def query(profiles: AgentProfiles, handle: str, sql: str, offset: int = 0, limit: int = 20) -> AgentAnswer:
    """Ask a question in SQL, one SELECT of DuckDB's, of the tables (kernels, calls, ranges) and books (gaps, steps).

    query_tables lists all tables and their columns. Times are nanoseconds on the profile's own clock: subtract zero_ns
    for the instants of the other tools. A query reads nothing else, writes nothing, and ends at its limits. `rows` are
    lists in the order of `columns`; aggregate and LIMIT in SQL rather than going through pages.
    """
    opened = profiles.of(handle)
    run = opened.run
    answer = answered(statement(sql), QuerySubject(run.trace, run.devices, run.name, opened.wanted), profiles.limits)
    whole = query_document(run.name, answer, run.trace.health).data()
    kept = {key: whole[key] for key in ("profile", "columns", "is_cut", "not_measured")}
    return AgentAnswer({"handle": handle, **kept, **paged(whole["rows"], offset, limit)})


def query_tables(profiles: AgentProfiles, table: str | None = None) -> AgentAnswer:  # noqa: ARG001  all tools take them
    """List the tables that query can ask, or the columns of one with type, unit and meaning."""
    if table is None:
        return AgentAnswer({"tables": {known.name: str(known.row) for known in SQL_TABLES}})
    if table.lower() not in BY_NAME:
        raise no_table(table)
    [described] = schema_document((BY_NAME[table.lower()],)).data()["tables"]
    return AgentAnswer(described)


TOOLS: Final = (
    AgentTool(
        query,
        {
            "handle": HANDLE,
            "sql": {"type": "string", "maxLength": 10_000, "description": "One SELECT."},
            "offset": OFFSET,
            "limit": LIMIT,
        },
        ("handle", "sql"),
        title="Question in SQL",
    ),
    AgentTool(
        query_tables,
        {"table": {"type": "string", "description": "Only this one, with its columns."}},
        (),
        title="Tables for SQL",
    ),
)
