"""`gpuledger query`: a question in SQL."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from gpuledger.cli.inputs import limit_option, optional_profile_argument, step_options, words
from gpuledger.cli.main import answering
from gpuledger.cli.output import Output, output_options
from gpuledger.limits import Limits
from gpuledger.selection import Selection


def _tables() -> list[str]:
    from gpuledger.sql.tables import BY_NAME

    return list(BY_NAME)


@click.command()
@optional_profile_argument
@click.argument("sql", required=False)
@click.option(
    "--schema",
    is_flag=False,
    flag_value="",
    metavar="[TABLE]",
    shell_complete=words(_tables),
    help="List the tables, or the columns of TABLE, and what they mean. Needs no PROFILE.",
)
@step_options
@limit_option
@output_options
def query(
    profile: Path | None, sql: str | None, schema: str | None, wanted: Selection, limits: Limits, output: Output
) -> None:
    """Ask PROFILE a question in SQL: kernels, calls, ranges, gaps, steps, findings.

    SQL is one SELECT of DuckDB's, or `-` to read it from standard input. The tables are the same for every format of
    profile: what was recorded (kernels, copies, calls, ranges, ...) and the books (gpus, lines, gaps, steps, findings,
    ...), with the numbers of the other verbs. Times are nanoseconds on the profile's clock. --step-range and the like
    say what a step is; --time, --range and --device narrow the books, not what was recorded. A query reads nothing but
    these tables, writes nothing, and ends at its limits of time, memory and rows. Needs `pip install
    'gpuledger[query]'`.

    \b
    Examples:
      gpuledger query --schema
      gpuledger query --schema gaps
      gpuledger query run.sqlite 'SELECT count(*), sum(duration_ns) FROM kernels'
      gpuledger query run.sqlite - --format=csv < question.sql
    """
    answer_query = answering("query")
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
    asked = sys.stdin.read() if sql == "-" else sql
    output.show(query_document(answer_query(profile, asked, wanted=wanted, limits=limits, progress=output.progress)))
