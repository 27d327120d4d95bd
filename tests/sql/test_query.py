"""Queries: what they name is made and nothing else, answers are typed, and what they may not do is refused."""

from __future__ import annotations

import json
import resource
import runpy
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpuledger as public
from gpuledger.errors import QueryRefused
from gpuledger.limits import Limits
from gpuledger.sql.answer import AnswerColumn, QueryAnswer, ask, run, to_read
from gpuledger.sql.statement import statement
from gpuledger.sql.tables import TABLES, QueryTable, TableValues, instants, words
from gpuledger.trace.tables import EVENTS, Table
from support.command import CAPTURES, ROOT, called, gpuledger
from support.pages.schemas import schema_of
from support.profiles.opened import plain, report_of, trace_of
from support.traces.trace_notation import trace

DECODE = CAPTURES / "decode.sqlite.xz"
SMALL = trace("s0: 0-10 gemm", "s1: 5-15 softmax", "s0: 20-30 gemm")


def test_overlapping_kernels_in_sql() -> None:
    answer = ask(
        SMALL, None, "SELECT name, count(*) AS n, sum(duration_ns) AS ns FROM kernels GROUP BY name ORDER BY 1"
    )
    assert answer.columns == (
        AnswerColumn("name", "VARCHAR"),
        AnswerColumn("n", "BIGINT"),
        AnswerColumn("ns", "HUGEINT"),
    )
    assert answer.rows == (("gemm", 2, 20), ("softmax", 1, 10))
    assert ask(SMALL, None, "SELECT busy_ns, idle_ns FROM gpus").rows == ((25, 5),)
    assert answer.to_dicts()[1] == {"name": "softmax", "n": 1, "ns": 10}


@pytest.mark.parametrize("table", TABLES, ids=lambda table: str(table.name))
def test_a_table_has_the_columns_that_the_schema_lists(table: QueryTable) -> None:
    report = report_of(DECODE)
    whole = (
        trace_of(DECODE) if table.recorded is not Table.METRICS else public.open_trace(plain(DECODE), only=tuple(Table))
    )
    answer = ask(whole, report.devices, f'SELECT * FROM "{table.name}" LIMIT 3')
    assert [(each.name, each.type) for each in answer.columns] == [(each.name, each.type) for each in table.columns]
    assert answer.rows or answer.not_measured or table.name in ("samples", "graphs", "collectives", "metrics")


def test_only_what_is_named_is_read_and_made(monkeypatch: pytest.MonkeyPatch) -> None:
    assert to_read(statement("SELECT count(*) FROM kernels")) == ({Table.KERNELS: {"start_ns", "end_ns"}}, {})
    assert to_read(statement("SELECT max(grid_y) FROM main.kernels k WHERE k.name LIKE 'a%'"))[0] == {
        Table.KERNELS: {"start_ns", "end_ns", "grid", "name"}
    }
    assert set(to_read(statement("SELECT code FROM findings"))[0]) == set(EVENTS)
    monkeypatch.setattr("gpuledger.sql.booked.analyse_devices", None)  # no books
    monkeypatch.setattr("gpuledger.sql.booked.findings", None)
    assert ask(SMALL, None, "SELECT count(*) FROM kernels, calls").rows == ((0,),)
    with pytest.raises(TypeError):
        ask(SMALL, None, "SELECT family FROM kernels")


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ("FROM steps", None),
        ("WITH s AS (SELECT step FROM steps) SELECT * FROM s", {"step"}),
        ("SELECT s FROM steps AS s", None),
        ("SELECT count(*) FROM steps NATURAL JOIN gpus", None),
        ("SELECT gpu FROM steps JOIN gpus USING (gpu)", {"gpu"}),
        ("SELECT (SELECT max(BUSY_ns) FROM steps)", {"busy_ns"}),
        ("DESCRIBE steps", None),
        ("PIVOT_WIDER", "refused"),
    ],
)
def test_columns_that_a_query_needs(sql: str, columns: set[str] | str | None) -> None:
    if columns == "refused":
        with pytest.raises(QueryRefused):
            statement(sql)
        return
    every = {column.name for table in TABLES if table.name == "steps" for column in table.columns}
    assert set(statement(sql).asked["steps"]) == (every if columns is None else columns)


@given(
    st.lists(st.tuples(st.integers(-(2**62), 2**62), st.one_of(st.none(), st.text(max_size=8))), max_size=30),
)
def test_values_come_back_as_they_are(rows: list[tuple[int, str | None]]) -> None:
    """Whatever numbers and names; lone surrogates are spelled out where a trace's strings are handed over."""
    kept = [(number, None if not text else text.encode(errors="replace").decode()) for number, text in rows]
    values: TableValues = {
        "start_ns": instants(np.array([number for number, _ in kept], np.int64)),
        "name": words([text for _, text in kept]),
    }
    _, answer, is_cut = run("SELECT start_ns, name FROM kernels", {"kernels": values}, Limits())
    assert sorted(map(repr, answer)) == sorted(map(repr, kept))
    assert not is_cut


def test_columns_are_read_in_place() -> None:
    """Broadcast, strided and read-only arrays too."""
    shape = np.arange(12, dtype=np.int32).reshape(4, 3)
    whole: TableValues = {
        "start_ns": instants(np.broadcast_to(np.int64(7), 4)),
        "end_ns": instants(shape[:, 2]),
        "duration_ns": "end_ns - start_ns",
    }
    shape.flags.writeable = False
    _, rows, _ = run("SELECT start_ns, end_ns, duration_ns FROM kernels ORDER BY 2", {"kernels": whole}, Limits())
    assert rows == [(7, 2, -5), (7, 5, -2), (7, 8, 1), (7, 11, 4)]


REFUSED = {
    "COPY (SELECT 1) TO '{file}'": "may only read: SELECT, not COPY",
    "COPY kernels FROM '{file}'": "may only read: SELECT, not COPY",
    "INSTALL httpfs": "may only read",
    "LOAD httpfs": "may only read",
    "ATTACH '{file}'": "may only read: SELECT, not ATTACH",
    "PRAGMA database_list": "may only read: ",
    "SET memory_limit = '1TB'": "may only read: SELECT, not SET",
    "CREATE TABLE t AS SELECT 1": "may only read: SELECT, not CREATE",
    "EXPORT DATABASE '{file}'": "may only read: SELECT, not EXPORT",
    "CALL pragma_version()": "may only read",
    "SELECT 1; DROP VIEW kernels": "one SELECT, and it holds 2 statements",
    "": "one SELECT, and it is empty",
    "SELECT * FROM read_csv('/etc/passwd')": "may not read from read_csv()",
    "SELECT * FROM read_text('/etc/passwd')": "may not read from read_text()",
    "SELECT * FROM '/etc/passwd'": "there is no table '/etc/passwd'",
    "SELECT * FROM glob('/*')": "may not read from glob()",
    "SELECT * FROM query('SELECT 1')": "may not read from query()",
    "SELECT * FROM duckdb_settings()": "may not read from duckdb_settings()",
    "SELECT * FROM pg_catalog.pg_settings": "there is no table 'pg_catalog.pg_settings'",
    "SELECT * FROM memory.information_schema.tables": "there is no table 'information_schema.tables'",
    "SELECT list_transform(['threads'], lambda x: current_setting(x))": "may not call current_setting()",
    "SELECT json_serialize_plan('SELECT current_setting(''threads'')')": "may not call json_serialize_plan()",
    "SELECT * FROM json_execute_serialized_sql('')": "may not read from json_execute_serialized_sql()",
    "SELECT (SELECT count(*) FROM read_blob('/etc/passwd'))": "may not read from read_blob()",
    "SHOW TABLES": "SHOW has nothing to show",
    "SELECT repeat('x', 1000000000)": "repeat() takes a length here that is written as a number",
    "SELECT lpad('x', (SELECT 1000000000)::INTEGER, 'y')": "lpad() takes a length",
    "SELECT * FROM kernel": "there is no table 'kernel'; did you mean kernels?",
    "SELECT nam FROM kernels": "did you mean name?",
    "SELECT * FROM (WITH sqlite_schema AS (SELECT 1) FROM sqlite_schema), sqlite_schema": "no table 'sqlite_schema'",
    "WITH duckdb_settings AS (SELECT 1) SELECT * FROM main.duckdb_settings": "no table 'duckdb_settings'",
    "WITH a AS (SELECT * FROM b), b AS (SELECT 1) SELECT * FROM a": "no table 'b'",
    "WITH duckdb_settings AS (SELECT * FROM duckdb_settings) FROM duckdb_settings": "no table 'duckdb_settings'",
    "WITH RECURSIVE pragma_database_list AS (FROM pragma_database_list UNION ALL FROM pragma_database_list) "
    "FROM pragma_database_list": "no table 'pragma_database_list'",
    "SELECT (WITH sqlite_master AS (SELECT 1) SELECT 1) FROM sqlite_master": "no table 'sqlite_master'",
    "SELECT FROM WHERE": "syntax error",
    "SELECT 1" + " + 1" * 5000: "depth",
}


@pytest.mark.parametrize("sql", REFUSED, ids=lambda sql: str(sql)[:30])
def test_what_a_query_may_not_do_is_refused(sql: str, tmp_path: Path) -> None:
    file = tmp_path / "made"
    with pytest.raises(QueryRefused) as refused:
        ask(SMALL, None, sql.replace("{file}", str(file)))
    assert REFUSED[sql] in refused.value.claim
    assert not file.exists()


ENDLESS = (
    "WITH RECURSIVE t AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM t) SELECT count(*) FROM t",
    "SELECT count(*) FROM range(10000000) a, range(10000000) b",
    "SELECT list(a.range) FROM range(100000000000) a",
    "SELECT a.range FROM range(100000000000) a ORDER BY hash(a.range)",
    "SELECT range(1000000000)",
    "WITH RECURSIVE t AS (SELECT 'xxxx' AS s UNION ALL SELECT s || s FROM t) SELECT max(length(s)) FROM t",
)


@pytest.mark.parametrize("sql", ENDLESS, ids=lambda sql: str(sql)[:40])
def test_what_would_never_end_is_ended(sql: str) -> None:
    with pytest.raises(QueryRefused, match="limit of"):
        ask(SMALL, None, sql, limits=Limits(query_seconds=0.3, query_memory_bytes=64 << 20))
    assert ask(SMALL, None, "SELECT 1").rows == ((1,),)


WITH_NAMES = {
    "WITH a AS (SELECT 1 AS x), b AS (SELECT x + 1 AS x FROM a) SELECT b.x FROM a, b": (2,),
    "WITH RECURSIVE n AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM n WHERE x < 5) SELECT max(x) FROM n": (5,),
    "WITH A AS (SELECT 1 AS x) SELECT (SELECT x FROM a) + (WITH b AS (FROM a) SELECT x FROM b)": (2,),
    "WITH kernels AS (SELECT count(*) AS x FROM kernels) SELECT x FROM kernels": (3,),
    "WITH a AS MATERIALIZED (SELECT 1 AS x) (FROM a UNION ALL FROM a) ORDER BY (SELECT x FROM a) LIMIT 1": (1,),
}


@pytest.mark.parametrize("sql", WITH_NAMES, ids=lambda sql: str(sql)[:30])
def test_a_name_of_with_holds_where_duckdb_finds_it(sql: str) -> None:
    assert ask(SMALL, None, sql).rows == (WITH_NAMES[sql],)


EXHAUSTING = {
    "recursion": ENDLESS[0],
    "a cross join": ENDLESS[1],
    "a list": ENDLESS[2],
    "a sort": ENDLESS[3],
    "doubled texts": ENDLESS[5],
    "a joined text": "SELECT length(string_agg(range::VARCHAR, ',')) FROM range(1000000000)",
    "GLOB": "SELECT count(*) FROM range(1000000) WHERE repeat('a', 10000) || range GLOB '*a*a*a*a*a*a*a*b'",
    "LIKE": "SELECT count(*) FROM range(10000000) WHERE repeat('a', 10000) || range LIKE '%a%a%a%a%a%a%a%b'",
    "a pattern": "SELECT count(regexp_replace(repeat('a', 9999) || range, '(a*)*b', 'x', 'g')) FROM range(1000000)",
    "one call": "SELECT levenshtein(a, a || 'b') FROM (SELECT repeat(repeat('ab', 10000), 50) AS a)",
    "printf": "SELECT length(printf('%1000000000d', 1))",
    "replace": "SELECT length(replace(b, 'a', a)) FROM "
    "(SELECT repeat('a', 10000) AS a, replace(repeat('a', 10000), 'a', repeat('a', 2000)) AS b)",
    "hex": "WITH RECURSIVE t AS (SELECT 'x' AS s UNION ALL SELECT hex(s) FROM t) SELECT max(length(s)) FROM t",
    "JSON": "WITH RECURSIVE t AS (SELECT '[1]'::JSON AS s UNION ALL SELECT json_array(s, s) FROM t) SELECT 1 FROM t",
    "many joins": "SELECT count(*) FROM " + ", ".join(f"kernels k{at}" for at in range(60)),
    "a long list": f"SELECT count(*) FROM range(9) WHERE range IN ({','.join(map(str, range(60_000)))})",
    "many conditions": "SELECT 1 FROM range(9) WHERE "
    + " OR ".join(f"range={at}+range%{at + 1}" for at in range(3000)),
    "a large answer": "SELECT repeat('a', 10000) AS a, repeat('b', 10000) AS b FROM range(100000)",
    "a large answer of lists": "SELECT range(1000) FROM range(100000)",
}


@pytest.mark.parametrize("kind", EXHAUSTING)
def test_the_limit_holds_for_every_kind_of_exhausting_query(kind: str) -> None:
    """Until the refusal, and until the process that was killed has given its memory back."""
    began_s = time.monotonic()
    with pytest.raises(QueryRefused, match="limit of"):
        ask(SMALL, None, EXHAUSTING[kind], limits=Limits(query_seconds=0.5))
    assert time.monotonic() - began_s < 0.5 + 2


def test_an_answer_without_end_is_cut() -> None:
    answer = ask(SMALL, None, "SELECT * FROM range(1000000000000)", limits=Limits(query_rows=1000))
    assert (len(answer), answer.is_cut, answer.rows[-1]) == (1000, True, (999,))


def test_ctrl_c_ends_a_query() -> None:
    """Whoever waits is interrupted, and what is waited for is killed."""
    children = Path(f"/proc/self/task/{threading.get_native_id()}/children")
    before = children.read_text()
    is_over = threading.Event()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it

    def interrupt() -> None:
        """Python loses what is raised in a hook of a fork, were it Ctrl-C: then it is pressed again."""
        while not is_over.wait(1.0):
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    threading.Thread(target=interrupt).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            ask(SMALL, None, ENDLESS[1])
    finally:
        is_over.set()
    assert children.read_text() == before


def test_no_variable_of_ours_can_be_asked() -> None:
    """DuckDB would find arrays by the names of Python's variables."""
    secret = {"a": np.arange(3)}
    assert secret
    with pytest.raises(QueryRefused, match="there is no table 'secret'"):
        ask(SMALL, None, "SELECT * FROM secret")
    assert ask(SMALL, None, "WITH secret AS (SELECT 1 AS a) SELECT a FROM secret").rows == ((1,),)


def test_a_query_leaves_our_own_memory_unbounded() -> None:
    before = resource.getrlimit(resource.RLIMIT_AS)
    with pytest.raises(QueryRefused, match="needs more memory"):
        ask(SMALL, None, "SELECT range(1000000000)", limits=Limits(query_memory_bytes=64 << 20))
    assert resource.getrlimit(resource.RLIMIT_AS) == before


def test_what_was_not_recorded_is_said() -> None:
    answer = ask(trace_of(DECODE), None, "SELECT count(*) FROM collectives")
    assert answer.rows == ((0,),)
    reason = trace_of(DECODE).absent[Table.COLLECTIVES].reason
    assert answer.not_measured == (f"collectives is empty because it was not recorded: {reason}",)


def test_hostile_names_are_spelled_out_in_every_format() -> None:
    hostile = trace("s0: 0-10 a\x1b[31m<b>", "s0: 20-30 =1+1")
    answer = ask(hostile, None, "SELECT name, 1.5 AS half, [1, 2] AS pair, true AS yes, NULL AS none FROM kernels")
    shown = answer._repr_html_()
    assert "\\x1b[31m&lt;b&gt;" in shown
    assert "\x1b" not in shown + repr(answer)
    assert answer.rows[0][1:] == (1.5, [1, 2], True, None)


def test_the_verb_in_every_format(tmp_path: Path) -> None:
    profile = plain(DECODE)
    sql = "SELECT step, duration_ns, busy_ns / duration_ns AS share, note FROM steps ORDER BY step LIMIT 2"
    text = gpuledger("query", profile, sql).stdout.splitlines()
    assert text[0].split() == ["step", "duration_ns", "share", "note"]
    assert text[2].split()[:2] == ["0", "46462137"]
    rows = gpuledger("query", profile, sql, "--format=csv").stdout.splitlines()
    assert rows[0] == "step,duration_ns,share,note"
    assert rows[1].startswith("0,46462137,0.0")
    assert rows[1].endswith(",")
    made = json.loads(gpuledger("query", profile, sql, "--format=json").stdout)
    schema_of("query").validate(made)
    assert made["columns"][2] == {"name": "share", "type": "DOUBLE"}
    assert made["rows"][0][:2] == [0, 46462137]
    assert gpuledger("query", profile, sql, "--format=md").stdout.startswith("| step")
    question = tmp_path / "question.sql"
    question.write_text(sql)
    from_stdin = called(["query", str(profile), "-"], {}, stdin=question)
    assert from_stdin.stdout.splitlines() == text


def test_long_answers_are_cut_for_people_and_told() -> None:
    profile = plain(DECODE)
    text = gpuledger("query", profile, "SELECT start_ns FROM kernels").stdout
    assert "50 of 2,446 rows are shown; --format=csv or json has them all" in text
    assert len(text.splitlines()) == 54
    cut = gpuledger("query", profile, "SELECT start_ns FROM kernels", "--format=csv", "--limit=query-rows=10")
    assert len(cut.stdout.splitlines()) == 11
    assert "There are more rows than these 10" in cut.stderr
    assert gpuledger("query", profile, "SELECT 1 WHERE false").stdout.rstrip().endswith("No rows.")


def test_what_a_table_means_is_shown_whole_however_narrow_the_terminal_is() -> None:
    shown = gpuledger("query", "--schema", "ranges", COLUMNS="60").stdout
    assert max(map(len, shown.splitlines())) <= 60
    assert "an operator's or annotation's inputs, as recorded: shapes, then types, as JSON" in " ".join(shown.split())


def test_the_schema_needs_no_profile_and_nothing_else_goes_without() -> None:
    listed = json.loads(gpuledger("query", "--schema", "--format=json").stdout)
    assert [table["name"] for table in listed["tables"]] == [table.name for table in TABLES]
    schema_of("queryschema").validate(listed)
    assert "what set it off: what to fix" in gpuledger("query", "--schema", "gaps").stdout
    wrong = gpuledger("query", "--schema", "gap")
    assert (wrong.exit_code, wrong.stdout) == (1, "")
    assert wrong.stderr.startswith("error: there is no table 'gap'; did you mean gaps?")
    assert gpuledger("query", plain(DECODE)).exit_code == 2


def test_a_bad_query_is_one_sentence_with_its_place() -> None:
    ran = gpuledger("query", plain(DECODE), "SELECT nam FROM kernels")
    assert (ran.exit_code, ran.stdout) == (1, "")
    lines = ran.stderr.splitlines()
    assert lines[0].startswith("error: the query failed: ")
    assert lines[0].endswith("did you mean name?")
    assert lines[1].index("nam") == lines[2].index("^")


def test_steps_are_those_that_are_asked_for() -> None:
    profile = plain(DECODE)
    asked = gpuledger("query", profile, "SELECT count(*) FROM steps", "--step-kernel=layer_norm", "--format=csv")
    steps = json.loads(gpuledger("steps", profile, "--step-kernel=layer_norm", "--format=json").stdout)
    assert asked.stdout.split() == ["count_star()", str(len(steps["steps"]))]


def test_python_takes_a_path_or_a_trace() -> None:
    sql = "SELECT count(*) AS kernels FROM kernels"
    answer = public.query(plain(DECODE), sql)
    assert isinstance(answer, QueryAnswer)
    assert answer.rows == public.query(trace_of(DECODE), sql).rows
    assert answer.rows == ((2446,),)
    assert answer.to_polars()["kernels"].to_list() == answer.to_pandas()["kernels"].tolist() == [2446]
    assert repr(answer) == "<QueryAnswer: 1 row of kernels>"
    part = public.open_trace(plain(DECODE), only=(Table.KERNELS,))
    with pytest.raises(QueryRefused, match="calls was not read with this trace"):
        public.query(part, "SELECT count(*) FROM calls")


def test_kernels_know_their_launch_and_ranges() -> None:
    answer = ask(
        trace_of(DECODE),
        report_of(DECODE).devices,
        "SELECT launch_call, launch_start_ns, range, range_path, family, step FROM kernels WHERE correlation = 6711",
    )
    path = "bench:decode > layer0 > attention"
    assert answer.rows == (("cuLaunchKernelEx", 217291910, "attention", path, "attention", 2),)


def test_use_is_what_samples_say() -> None:
    report = report_of(CAPTURES / "metrics_llama.sqlite.xz")
    if not report.use:
        report = public.report(plain(CAPTURES / "metrics_llama.sqlite.xz"))
    [(used, _)] = report.use.values()
    answer = ask(report.trace, report.devices, "SELECT name, launches, total_ns, tensor_percent FROM use")
    assert sorted(answer.rows, key=repr) == sorted(
        (
            (each.name, each.launches, each.time_ns, figure and figure.percent)
            for each in used.kernels
            for figure in [next((value for metric, value in each.figures.items() if metric == "tensor"), None)]
        ),
        key=repr,
    )


def test_the_guide_names_every_table() -> None:
    made = runpy.run_path(str(ROOT / "docs" / "generate.py"), run_name="generate")["pages"]()
    pages = (ROOT / "docs" / "guides" / "query.md").read_text() + made["query-tables.md"]
    assert [table.name for table in TABLES if f"`{table.name}`" not in pages] == []


def test_decimals_keep_their_digits() -> None:
    sql = "SELECT 12345678901234567890.12::DECIMAL(38,2), 0.1::DECIMAL(3,1), 2.00::DECIMAL(9,2), -7::DECIMAL(18,0)"
    assert ask(SMALL, None, sql).rows == (("12345678901234567890.12", 0.1, 2, -7),)


@pytest.mark.parametrize("sql", ["SELECT now()", "SELECT [now()]", "SELECT {'at': current_timestamp}"])
def test_times_with_a_time_zone_are_refused_in_one_sentence(sql: str) -> None:
    with pytest.raises(QueryRefused, match="holds times with a time zone"):
        ask(SMALL, None, sql)
    assert ask(SMALL, None, "SELECT now()::TIMESTAMP > '2020-01-01'").rows == ((True,),)


@pytest.mark.parametrize("call", ["current_setting('memory_limit')", "Current_Setting('threads')", "getvariable('x')"])
def test_no_setting_is_read(call: str) -> None:
    with pytest.raises(QueryRefused, match="which reads settings"):
        ask(SMALL, None, f"SELECT {call}")
    with pytest.raises(QueryRefused, match="which reads settings"):
        ask(SMALL, None, f"SELECT count(*) FROM kernels WHERE name = {call}")
