"""One question in SQL, before anything is read for it: is it one, and which tables and columns does it name?

DuckDB itself takes the text apart (`json_serialize_sql`), so what we see is what it will run. Only a single SELECT
passes, from tables of `tables` and its own, with functions that reach nothing outside.
"""

from __future__ import annotations

import atexit
import gc
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from gpuledger.errors import QueryRefused, needing
from gpuledger.limits import DEFAULT_LIMITS, Limits
from gpuledger.sql.nvidia_names import NAMES as NVIDIAS
from gpuledger.sql.nvidia_names import columns_of_ours, from_sqlite
from gpuledger.sql.tables import BY_NAME, TABLES
from gpuledger.system.killable import Died, Overdue, Result, in_child
from gpuledger.trace.deadline import check, left_s
from gpuledger.units import bytes_text

if TYPE_CHECKING:
    from types import ModuleType

    from duckdb import DuckDBPyConnection

_TABLE_FUNCTIONS: Final = ("unnest", "range", "generate_series", "json_each", "json_tree")
"""Functions that give rows, and read neither files nor settings."""

_GROWING: Final = {"repeat": 1, "lpad": 1, "rpad": 1, "list_resize": 1, "array_resize": 1, "bitstring": 1, "bar": 3}
"""Functions that make a value as long as one of their arguments says, in one go that no deadline interrupts."""
_LONGEST: Final = 10_000

_READING_SETTINGS: Final = ("current_setting", "getvariable", "getenv", "json_serialize_plan", "write_log")
"""Functions that say how this process was set up, or keep what they are given."""

_UNKNOWN_COLUMN: Final = re.compile(r'column(?: named)? "(?P<name>[^"]+)"', re.IGNORECASE)
_SCHEMAS: Final = ("", "main")
_LISTS_TABLES: Final = "`gpuledger query --schema` lists the tables and columns"


class Statement(Struct, frozen=True):
    """A SELECT that may be run."""

    sql: str
    asked: Mapping[str, tuple[str, ...]]
    """Of each of our tables that it names, the columns that it may need, in their order."""
    by_nvidia: frozenset[str] = frozenset()
    """Tables that it calls as NVIDIA's exports do, which are views over ours."""
    parse_seconds: float = 0.0
    """How much of its time is used up."""


@cache
def duckdb_package() -> ModuleType:
    """DuckDB, or a sentence that says how to get it."""
    with needing("duckdb", "a query", "'gpuledger[query]'"):
        import duckdb
    atexit.register(gc.unfreeze)  # its glue complains about whatever is not collected at the end
    return duckdb


def statement(sql: str, limits: Limits = DEFAULT_LIMITS) -> Statement:
    """The question, if it is one that may be asked. A long one takes seconds to parse, and nothing interrupts that."""
    _parser()
    began_s = time.monotonic()
    return replace(in_time_and_memory(lambda: _parsed(sql), limits), parse_seconds=time.monotonic() - began_s)


def in_time_and_memory(task: Callable[[], Result], limits: Limits) -> Result:
    """What a task for a query gives, in a copy of this process that is killed where it takes more than a query may."""
    try:
        more_bytes = limits.query_memory_bytes + (1 << 30)  # what threads and DuckDB take besides
        return in_child(task, seconds=min(limits.query_seconds, left_s()), more_bytes=more_bytes)
    except Overdue:
        check()  # it may be the time of all that the profile is asked
        raise too_slow(limits) from None
    except (Died, MemoryError):
        raise QueryRefused(
            f"the query needs more memory than its limit of {bytes_text(limits.query_memory_bytes)}",
            hint="narrow it with WHERE or LIMIT, or raise the limit: --limit=query-memory-bytes=16GB",
        ) from None


def too_slow(limits: Limits) -> QueryRefused:
    """That a query, or what it needs, took too long."""
    return QueryRefused(
        f"the query takes longer than its limit of {limits.query_seconds:g} s",
        hint=f"narrow it with WHERE, or raise the limit: --limit=query-seconds={10 * max(limits.query_seconds, 1):g}",
    )


def _parsed(sql: str) -> Statement:
    duckdb = duckdb_package()
    if any(name in sql.lower() for name in NVIDIAS):
        sql = from_sqlite(sql)
    try:
        with _parser().cursor() as connection:
            kinds = [parsed.type.name for parsed in connection.extract_statements(sql)]
            if kinds == ["SELECT"]:
                [tree] = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchone() or ("{}",)
                return Statement(sql, *_columns_asked(json.loads(tree)))
    except duckdb.Error as error:
        raise refusal(error, ()) from None
    except RecursionError:
        raise QueryRefused("the query is nested too deeply") from None
    if len(kinds) != 1:
        count = f"it holds {len(kinds)} statements" if kinds else "it is empty"
        raise QueryRefused(f"a query is one SELECT, and {count}", hint=_LISTS_TABLES)
    raise QueryRefused(f"a query may only read: SELECT, not {kinds[0]}", hint=_LISTS_TABLES)


@cache
def _parser() -> DuckDBPyConnection:
    """An empty database, for its parser: to open one takes longer than to parse with it."""
    connection: DuckDBPyConnection = duckdb_package().connect(":memory:", config={"threads": 1})
    return connection


def refusal(error: Exception, tables: Iterable[str]) -> QueryRefused:
    """What DuckDB says about a query of these tables, as our sentence: its message, where in the text, what is near."""
    message, _, place = str(error).partition("\n\nLINE ")
    message = message.partition("Traceback (most recent call last)")[0]
    claim = " ".join(message.split("\n\n")[0].split()).partition(" Candidate bindings:")[0]
    columns = sorted({column.name for table in tables for column in BY_NAME[table].columns})
    unknown = _UNKNOWN_COLUMN.search(claim)
    if unknown and (near := get_close_matches(unknown["name"].lower(), columns, n=3)):
        claim = f"{claim.rstrip('!')}; did you mean {' or '.join(near)}?"
    return QueryRefused(
        f"the query failed: {claim}", found=f"line {place.rstrip()}" if place else "", hint=_LISTS_TABLES
    )


class _Names:
    def __init__(self) -> None:
        self.tables: set[str] = set()
        self.columns: set[str] = set()
        self.whole: set[str] = set()  # tables of which all columns may be needed


def _columns_asked(tree: Mapping[str, Any]) -> tuple[dict[str, tuple[str, ...]], frozenset[str]]:
    if tree.get("error"):
        raise QueryRefused(f"a query may only read: {tree.get('error_message', 'it cannot be taken apart')}")
    names = _Names()
    for node, scope, with_names in _nodes(tree):
        _look_at(node, scope, with_names, names)
    unknown = sorted(names.tables - BY_NAME.keys() - NVIDIAS)
    if unknown:
        raise no_table(unknown[0])
    by_nvidia = names.tables & NVIDIAS
    behind = columns_of_ours(by_nvidia, names.columns, names.whole)
    asked = {
        name: tuple(
            column.name
            for column in BY_NAME[name].columns
            if name in names.whole
            or (name in names.tables and column.name in names.columns)
            or column.name in behind.get(name, ())
        )
        for name in sorted((names.tables | behind.keys()) & BY_NAME.keys())
    }
    return asked, frozenset(by_nvidia)


def _nodes(tree: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], Mapping[str, str], frozenset[str]]]:
    """Every node, with the tables of its SELECT by alias, and the names of WITH that hold in it."""
    left: list[tuple[Any, Mapping[str, str], frozenset[str]]] = [(tree, {}, frozenset())]
    while left:
        node, scope, with_names = left.pop()
        if isinstance(node, list):
            left += ((child, scope, with_names) for child in node)
        elif isinstance(node, dict):
            if "from_table" in node:
                scope = dict(_from(node["from_table"]))
            for entry in node.pop("cte_map", {}).get("map", ()):  # each sees those before it
                left.append((entry["value"], scope, with_names))
                with_names |= {str(entry["key"]).lower()}
            yield node, scope, with_names
            recurring = with_names | {str(node.get("cte_name", "")).lower()}  # in the part that is repeated alone
            left += (
                (child, scope, recurring if key in ("right", "child") else with_names) for key, child in node.items()
            )


def _from(source: Any) -> Iterator[tuple[str, str]]:
    """The tables that a SELECT is from, subqueries left out: what it calls each, and its name."""
    left = [source]
    while left:
        node = left.pop()
        if isinstance(node, dict):
            if node.get("type") == "BASE_TABLE":
                name = str(node["table_name"]).lower()
                yield str(node.get("alias") or name).lower(), name
            elif node.get("type") in ("JOIN", "PIVOT"):
                left += (node.get("left"), node.get("right"), node.get("source"))


def _look_at(node: Mapping[str, Any], scope: Mapping[str, str], with_names: frozenset[str], names: _Names) -> None:
    match node.get("type"):
        case "BASE_TABLE":
            schema, name = str(node.get("schema_name", "")).lower(), str(node["table_name"]).lower()
            if schema not in _SCHEMAS:  # DuckDB's own, which list its settings
                raise no_table(f"{schema}.{node['table_name']}")
            if schema or name not in with_names:
                names.tables.add(name)
        case "TABLE_FUNCTION":
            _allow_rows_of(str(node["function"].get("function_name", "")).lower())
        case "SHOW_REF" if node.get("query") is None:
            raise QueryRefused("SHOW has nothing to show here", hint=_LISTS_TABLES)
        case "FUNCTION" | "FUNCTION_EXPRESSION":
            _allow_call_of(node)
        case "COLUMN_REF":
            mentioned = [str(name).lower() for name in node["column_names"]]
            names.columns.update(mentioned)
            names.whole.update(scope[name] for name in mentioned[-1:] if name in scope)
        case "STAR" | "PIVOT":
            names.whole.update(scope.values())
    if node.get("ref_type") == "NATURAL":
        names.whole.update(scope.values())
    names.columns.update(str(name).lower() for name in node.get("using_columns") or ())


def _allow_rows_of(function: str) -> None:
    if function not in _TABLE_FUNCTIONS:
        raise QueryRefused(
            f"a query may not read from {function}()",
            found=f"tables: {', '.join(table.name for table in TABLES)}",
            hint=f"functions that give rows here: {', '.join(_TABLE_FUNCTIONS)}",
        )


def _allow_call_of(node: Mapping[str, Any]) -> None:
    function = str(node.get("function_name", "")).lower()
    if function in _READING_SETTINGS:
        raise QueryRefused(f"a query may not call {function}(), which reads settings", hint=_LISTS_TABLES)
    if function not in _GROWING:
        return
    children = node.get("arguments") or node.get("children") or ()
    arguments = [child.get("expression", child) for child in children]
    if len(arguments) <= _GROWING[function]:
        return
    length = arguments[_GROWING[function]]
    literal = length.get("literal") or length.get("value") or {}  # versions of DuckDB write a constant in either way
    text = str(literal.get("text", literal.get("value", ""))) if length.get("class") == "CONSTANT" else ""
    if not text.isdecimal() or int(text) > _LONGEST:
        raise QueryRefused(
            f"{function}() takes a length here that is written as a number, of at most {_LONGEST:,}",
            hint="a value as long as a column says could take all memory",
        )


def no_table(name: str) -> QueryRefused:
    """That there is no such table, and which is meant."""
    near = get_close_matches(name, BY_NAME, n=1)
    return QueryRefused(
        f"there is no table {name!r}" + (f"; did you mean {near[0]}?" if near else ""),
        found=f"tables: {', '.join(table.name for table in TABLES)}",
        hint=_LISTS_TABLES,
    )
