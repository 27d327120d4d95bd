"""`gpuledger query`: the tables that can be asked, and a question from standard input."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated, Any

import click

from gpuledger.cli.output import Output
from gpuledger.verbs.definition import Option, Profile, VerbArgument

if TYPE_CHECKING:
    from gpuledger.sql.answer import QueryAnswer


def _tables() -> Iterable[str]:
    from gpuledger.sql.tables import BY_NAME

    return BY_NAME


def query(
    verb: Callable[..., QueryAnswer],
    output: Output,
    *,
    profile: Profile | None = None,
    sql: Annotated[str | None, VerbArgument()] = None,
    schema: Annotated[
        str | None,
        Option(
            "List the tables, or the columns of TABLE, and what they mean. Needs no PROFILE.",
            metavar="[TABLE]",
            completes=_tables,
            bare="",
        ),
    ] = None,
    **asked: Any,
) -> None:
    """Show the answer to a question, or the tables that can be asked."""
    from gpuledger.present.views.query import query_document, schema_document
    from gpuledger.sql.statement import no_table
    from gpuledger.sql.tables import BY_NAME, TABLES, QuerySchema

    if schema is not None:
        if schema and schema.lower() not in BY_NAME:
            raise no_table(schema)
        output.show(schema_document(QuerySchema((BY_NAME[schema.lower()],) if schema else TABLES)))
        return
    if profile is None or sql is None:
        raise click.UsageError("name a profile and a question, e.g. `gpuledger query run.sqlite 'SELECT ...'`.")
    output.show(query_document(verb(profile, sys.stdin.read() if sql == "-" else sql, **asked)))
