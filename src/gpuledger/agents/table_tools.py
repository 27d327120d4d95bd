"""Tools that answer with tables: the questions of the command line by name, questions in SQL, and what changed from one
profile to another.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from gpuledger.agents.answers import AgentAnswer, Gpu, Handle, Limit, Offset, paged, picked, tool_of
from gpuledger.agents.profiles import AgentProfiles, OpenedProfile
from gpuledger.analyse.diff.compare import compare
from gpuledger.analyse.diff.from_trace import busiest, side_of
from gpuledger.analyse.diff.run_side import RunSide, like_sides
from gpuledger.json_types import builtins
from gpuledger.ledger.device import analyse_devices
from gpuledger.present.views.compare.diff import diff_answer
from gpuledger.selection import Selection
from gpuledger.sql.answer import answer_statement
from gpuledger.sql.booked import QuerySubject
from gpuledger.sql.statement import no_table, statement
from gpuledger.sql.tables import BY_NAME
from gpuledger.sql.tables import TABLES as SQL_TABLES
from gpuledger.verbs.definition import Option, options_of

FEW: Final = 5  # rows of each table where no table is named

USUAL: Final = 20  # rows of a table that is named


class AskedPart(Struct, frozen=True):
    """Which part of an answer is wanted: all tables in short, or one of them, from a row on."""

    device: Gpu = None
    table: Annotated[str | None, Option("Only this table, by the name in an answer. Default: all, in short.")] = None
    offset: Offset = 0
    limit: Limit | None = None


PART: Final = options_of(AskedPart)
TABLES: Final = [parameter for name, parameter in PART.items() if name != "device"]


def query(
    profiles: AgentProfiles,
    handle: Handle,
    sql: Annotated[str, Option("One SELECT.", most=10_000)],
    offset: Offset = 0,
    limit: Limit = 20,
) -> AgentAnswer:
    """Ask a question in SQL, one SELECT of DuckDB's, of the tables (kernels, calls, ranges) and books (gaps, steps).

    query_tables lists all tables and their columns. Times are nanoseconds on the profile's own clock: subtract zero_ns
    for the instants of the other tools. A query reads nothing else, writes nothing, and ends at its limits. `rows` are
    lists in the order of `columns`; aggregate and LIMIT in SQL rather than going through pages.
    """
    opened = profiles.of(handle)
    run = opened.run
    answer = answer_statement(
        statement(sql, profiles.limits), QuerySubject(run.trace, run.devices, run.name, opened.wanted), profiles.limits
    )
    whole = builtins(answer)
    kept = {key: whole[key] for key in ("profile", "columns", "is_cut", "not_measured")}
    return AgentAnswer({"handle": handle, **kept, **paged(whole["rows"], offset, limit)})


def query_tables(
    profiles: AgentProfiles,  # noqa: ARG001  all tools take them
    table: Annotated[str | None, Option("Only this one, with its columns.")] = None,
) -> AgentAnswer:
    """List the tables that query can ask, or the columns of one with type, unit and meaning."""
    if table is None:
        return AgentAnswer({"tables": {known.name: str(known.row) for known in SQL_TABLES}})
    if table.lower() not in BY_NAME:
        raise no_table(table)
    return AgentAnswer(builtins(BY_NAME[table.lower()]))


_IN_SHORT: Final = 6
_SIDE: Final = ("name", "gpu", "gpu_name", "source", "steps", "median_ns", "losses")


def diff(
    profiles: AgentProfiles,
    before: Handle,
    after: Handle,
    what: Annotated[Literal["lines", "kernels", "calls", "ranges"], Option("Default: lines.")] = "lines",
    offset: Offset = 0,
    limit: Limit = _IN_SHORT,
    *,
    anyway: Annotated[bool, Option("Compare even if the two are unlike: other GPU, no steps.")] = False,
) -> AgentAnswer:
    """Tell whether `after` is faster than `before`, by how much, how sure that is, and why.

    `parts` sum to step_delta_ns. `interval_ns` is the 95 % interval of the difference; a verdict of no change means
    that it is inside the noise. `what` chooses the list that comes with it: lines of time, kernels, calls or ranges,
    the largest change first, per step. Keys are those of `gpuledger diff`.
    """
    one, other = profiles.of(before), profiles.of(after)
    whole = builtins(diff_answer(compare(*_sides(one, other), anyway=anyway)))
    content = {
        "answer": whole["sentences"],
        **picked(whole, "verdict", "step_delta_ns", "interval_ns", "no_interval", "whole"),
        "before": {"handle": before, **picked(whole["before"], *_SIDE)},
        "after": {"handle": after, **picked(whole["after"], *_SIDE)},
        "parts": whole["parts"],
        "notes": whole["notes"],
        what: paged(whole[what], offset, limit),
    }
    return AgentAnswer(content)


def _sides(one: OpenedProfile, other: OpenedProfile) -> tuple[RunSide, RunSide]:
    """The books that are open already, where they have steps; else both by what repeats in them."""

    def read(wanted: Selection) -> tuple[RunSide, RunSide]:
        first = _side(one, None, any_level=wanted.any_level)
        return first, _side(other, first.gpu, any_level=wanted.any_level)

    return like_sides(read, Selection())


def _side(opened: OpenedProfile, gpu: int | None, *, any_level: bool) -> RunSide:
    run, wanted = opened.run, opened.wanted
    devices = analyse_devices(run.trace, run.name, replace(wanted, any_level=True)) if any_level else run.devices
    return side_of(run.trace, devices, busiest(devices, gpu), run.name, wanted.families)


TOOLS: Final = (
    tool_of(query, "Question in SQL"),
    tool_of(query_tables, "Tables for SQL"),
    tool_of(diff, "Compare two profiles"),
)
