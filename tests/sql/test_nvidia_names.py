"""NVIDIA's tables in `query`: SQL that was written for sqlite3 and an export gives sqlite3's answer."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.errors import QueryRefused
from gpuledger.sql.answer import ask
from gpuledger.sql.nvidia_names import from_sqlite
from gpuledger.trace.model import Trace
from support.traces.trace_notation import trace

_ORDERED = """WITH ordered AS (
  SELECT start, end, demangledName, ROW_NUMBER() OVER (ORDER BY start) as rn FROM CUPTI_ACTIVITY_KIND_KERNEL
)"""
_GAPS = "gaps AS (SELECT (b.start - a.end) as gap_ns FROM ordered a JOIN ordered b ON b.rn = a.rn + 1)"
QUERIES = {
    "gaps": f"""{_ORDERED}, {_GAPS}
SELECT ROUND(SUM(gap_ns)/1e6, 2) as total_gap_ms,
  ROUND((SELECT SUM(end-start) FROM CUPTI_ACTIVITY_KIND_KERNEL)/1e6, 2) as total_kernel_ms,
  ROUND((SELECT MAX(end)-MIN(start) FROM CUPTI_ACTIVITY_KIND_KERNEL)/1e6, 2) as wall_ms
FROM gaps;""",
    "buckets": f"""{_ORDERED}, {_GAPS},
buckets AS (SELECT CASE WHEN gap_ns < 1000 THEN '  <1us' WHEN gap_ns < 1000000 THEN '0.1-1ms' ELSE '>1ms' END as bucket,
  gap_ns FROM gaps)
SELECT bucket, COUNT(*) as count, ROUND(SUM(gap_ns)/1e6, 2) as total_ms,
  ROUND(100.0*COUNT(*)/(SELECT COUNT(*) FROM gaps), 1) as pct
FROM buckets GROUP BY bucket ORDER BY bucket;""",
    "context": f"""{_ORDERED}
SELECT ROUND((b.start - a.end)/1e6, 2) as gap_ms, SUBSTR(sa.value, 1, 40) as after, SUBSTR(sb.value, 1, 40) as before
FROM ordered a JOIN ordered b ON b.rn = a.rn + 1
JOIN StringIds sa ON a.demangledName = sa.id JOIN StringIds sb ON b.demangledName = sb.id
WHERE (b.start - a.end) > 1000000 ORDER BY b.start - a.end DESC;""",
    "calls": "SELECT s.value, COUNT(*), SUM(r.end - r.start) FROM CUPTI_ACTIVITY_KIND_RUNTIME r "
    "JOIN StringIds s ON r.nameId = s.id GROUP BY s.value ORDER BY 3 DESC LIMIT 5",
    "launches": "SELECT k.start, r.end FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON "
    "k.correlationId = r.correlationId AND k.globalPid / 0x1000000 % 0x1000000 = r.globalTid / 0x1000000 % 0x1000000 "
    "ORDER BY k.start LIMIT 9",
    "ranges": "SELECT coalesce(n.text, s.value) t, COUNT(*) FROM NVTX_EVENTS n "
    "LEFT JOIN StringIds s ON n.textId = s.id WHERE n.end IS NOT NULL GROUP BY 1 ORDER BY 2 DESC, 1",
    "case": "SELECT CASE WHEN end > start THEN end ELSE 0 END - start, copyKind FROM CUPTI_ACTIVITY_KIND_MEMCPY "
    "ORDER BY start LIMIT 9",
}


@pytest.fixture(scope="module")
def decode(unpacked: Callable[[str], Path]) -> tuple[Path, Trace]:
    from gpuledger import open_trace

    path = unpacked("decode.sqlite")
    return path, open_trace(path)


@pytest.mark.parametrize("name", QUERIES)
def test_sql_for_an_export_gives_sqlites_answer(name: str, decode: tuple[Path, Trace]) -> None:
    path, recorded = decode
    with sqlite3.connect(path) as export:
        assert [tuple(row) for row in ask(recorded, None, QUERIES[name]).rows] == export.execute(
            QUERIES[name]
        ).fetchall()


def test_any_format_has_them_and_others_are_refused() -> None:
    made = trace("s0: 0-10 gemm", "s0: 20-30 argmax")
    sql = "SELECT SUM(end - start) FROM CUPTI_ACTIVITY_KIND_KERNEL"
    assert ask(made, None, sql).rows == ((20,),)
    names = (
        "SELECT s.value FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON k.demangledName = s.id ORDER BY k.start"
    )
    assert ask(made, None, names).rows == (("gemm",), ("argmax",))
    with pytest.raises(QueryRefused, match="no table"):
        ask(made, None, "SELECT * FROM CUPTI_ACTIVITY_KIND_OVERHEAD")


@given(st.text(st.sampled_from("end case when 0x1f .,()'\"-/*\n1+"), max_size=60))
def test_any_text_is_taken_apart_and_quoted_names_stay(text: str) -> None:
    from_sqlite(text)
    assert from_sqlite("SELECT k.\"end\", 'end 0x10' FROM k -- end") == "SELECT k.\"end\", 'end 0x10' FROM k -- end"
