"""Answers to questions in SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from gpuledger.limits import DEFAULT_LIMITS, Limits
from gpuledger.stages import NOBODY, Listener
from gpuledger.verbs.definition import Profile, VerbArgument, WithoutRank

if TYPE_CHECKING:
    from gpuledger.sql.answer import QueryAnswer


def query(
    profile: Profile,
    sql: Annotated[str, VerbArgument()],
    *,
    wanted: WithoutRank | None = None,
    limits: Limits = DEFAULT_LIMITS,
    progress: Listener = NOBODY,
) -> QueryAnswer:
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
    from gpuledger.sql.answer import answer_statement, to_read
    from gpuledger.sql.booked import QuerySubject
    from gpuledger.sql.statement import statement
    from gpuledger.verbs.profiles import profile_name, read_profile

    asked = statement(sql, limits)
    trace = read_profile(profile, *to_read(asked), limits=limits, progress=progress)
    progress.stage("asking")
    return answer_statement(asked, QuerySubject(trace, None, profile_name(profile), wanted), limits)
