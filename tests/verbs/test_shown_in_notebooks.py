"""What shows itself in a notebook is short and escaped; tables are attributes of a trace."""

from __future__ import annotations

import pytest

import gpuledger
from gpuledger.trace.tables import Table
from support.command import CAPTURES
from support.profiles.opened import plain, report_of, trace_of
from support.traces.trace_notation import trace

DECODE = CAPTURES / "decode.sqlite.xz"


@pytest.mark.parametrize("table", Table, ids=lambda table: str(table.value))
def test_every_table_is_an_attribute(table: Table) -> None:
    whole = trace("s0: 0-10 gemm")
    assert getattr(whole, table.value) == whole[table] == whole[table.value]


def test_a_name_that_is_nearly_one_is_told() -> None:
    with pytest.raises(KeyError, match="no table 'kernel'; did you mean 'kernels'"):
        trace("s0: 0-10")["kernel"]
    with pytest.raises(AttributeError, match=r"metrics was not read: open_trace\(path, only=\(Table.METRICS"):
        _ = trace_of(DECODE).metrics


def test_what_a_notebook_shows_is_short_and_escaped() -> None:
    hostile = trace("s0: 0-10 <script>\x1b[31m", *("s0: 20-30 k" for _ in range(20)))
    rows = hostile.kernels
    assert repr(hostile) == "<Trace of test: 21 kernels>"
    assert repr(rows).startswith("<21 rows, each one kernel execution: start_ns, end_ns, ")
    shown = rows._repr_html_()
    assert "&lt;script&gt;\\x1b[31m" in shown
    assert "<script>" not in shown
    assert shown.count("<tr>") == 11
    assert "not recorded: no copies" in hostile._repr_html_()


def test_reports_comparisons_and_alignments_show_themselves() -> None:
    report = report_of(DECODE)
    assert repr(report).startswith("<Report: decode.sqlite.xz: GPU busy 1.1 %")
    loop, batched = (plain(CAPTURES / f"moe_{name}.sqlite.xz") for name in ("loop", "batched_gemm"))
    compared = gpuledger.compare(loop, batched)
    assert repr(compared).startswith("<DiffAnswer: 13.9x faster")
    assert "<td" in compared._repr_html_()
    assert compared.to_dict()["schema"] == "gpuledger.diff/1"
    aligned = gpuledger.align(plain(CAPTURES / "attn.sqlite.xz"), plain(DECODE), range_pattern="attention")
    assert repr(aligned).startswith("<AlignAnswer: ")
    assert aligned.sentences[0] in aligned.to_text()
    assert aligned.verdict in aligned._repr_html_()


def test_a_report_of_a_path_is_that_of_the_command() -> None:
    made = gpuledger.report(plain(DECODE))
    assert made.name == "decode.sqlite"
    assert [found.code for found in made.findings] == [found.code for found in report_of(DECODE).findings]
