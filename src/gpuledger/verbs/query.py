"""Answers to questions in SQL."""

from __future__ import annotations

from gpuledger.limits import DEFAULT_LIMITS, Limits
from gpuledger.selection import Selection
from gpuledger.sql.answer import QueryAnswer, answer_statement, to_read
from gpuledger.sql.booked import QuerySubject
from gpuledger.sql.statement import statement
from gpuledger.stages import NOBODY, Listener
from gpuledger.verbs.profiles import Profile, ProfileReading, profile_name


def query(
    profile: Profile,
    sql: str,
    *,
    wanted: Selection | None = None,
    limits: Limits = DEFAULT_LIMITS,
    progress: Listener = NOBODY,
) -> QueryAnswer:
    """The answer to a question in SQL: what `gpuledger query` shows; `gpuledger query --schema` lists the tables."""
    asked = statement(sql, limits)
    read, where_sampled = to_read(asked)
    trace = ProfileReading(limits, progress).trace(profile, read, where_sampled)
    progress.stage("asking")
    return answer_statement(asked, QuerySubject(trace, None, profile_name(profile), wanted), limits)
