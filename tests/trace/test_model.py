"""Tables and traces: what they hold, what they refuse, and how they leave for other libraries."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger import MissingPackage, NotMeasured, Table, open_trace
from gpuledger.trace.spans import Span
from gpuledger.trace.strings import NO_TEXT, Strings
from gpuledger.trace.tables import Rows, empty
from support.traces.trace_notation import of_tables, table, trace


def test_codes_stand_for_texts() -> None:
    strings = Strings(["a", "b"])
    assert strings.code("b") == 1
    assert strings.code("c") == NO_TEXT
    assert strings.decode(np.array([1, -1, 0], np.int32)) == ["b", None, "a"]


def test_a_text_is_held_once() -> None:
    with pytest.raises(ValueError, match="twice"):
        Strings(["a", "a"])


def test_the_notation_makes_kernels() -> None:
    kernels = trace("s0: 0-10 gemm", "s1: 5-15")[Table.KERNELS]
    assert kernels.texts("name") == ["gemm", "k"]
    assert kernels.duration_ns.tolist() == [10, 10]


def test_a_trace_spans_what_the_program_did() -> None:
    strings = Strings([])
    early = table(Table.ALLOCS, strings, 1, start_ns=[-50], end_ns=[-50])
    calls = table(Table.CALLS, strings, 1, start_ns=[3], end_ns=[90])
    assert of_tables(strings, {Table.ALLOCS: early, Table.CALLS: calls}).span == Span(3, 90)
    assert isinstance(of_tables(strings, {}).span, NotMeasured)


def test_rows_refuse_columns_of_another_shape() -> None:
    good = empty(Table.OVERHEADS, Strings([]))
    columns = {column.name: good[column.name] for column in good.schema.columns}
    with pytest.raises(ValueError, match="expected start_ns, end_ns"):
        Rows(good.schema, {}, good.strings)
    with pytest.raises(ValueError, match="different lengths"):
        Rows(good.schema, columns | {"pid": np.zeros(3, np.int64)}, good.strings)
    with pytest.raises(ValueError, match="column pid: expected int64"):
        Rows(good.schema, columns | {"pid": np.zeros(0, np.int32)}, good.strings)


def test_a_column_that_few_ask_for_may_be_kept_small() -> None:
    kernels = trace("s0: 0-1 a", "s0: 2-3 b")[Table.KERNELS]
    kept = Rows(kernels.schema, {name: kernels[name] for name in ("start_ns", "end_ns")}, kernels.strings)
    kept = kept.replaced("grid", np.array([[1, 2, 3], [4, 5, 6]], np.int16)).at(np.array([1])).only("grid")
    assert kept["grid"].tolist() == [[4, 5, 6]]
    assert kept["grid"].dtype == np.int32
    with pytest.raises(ValueError, match="column registers: expected int32"):
        kept.replaced("registers", np.zeros(1, np.int64))


def test_rows_are_picked_and_replaced() -> None:
    kernels = trace("s0: 0-1 a", "s0: 2-3 b", "s0: 4-5 c")[Table.KERNELS]
    assert kernels.where(kernels["start_ns"] > 1).texts("name") == ["b", "c"]
    assert kernels.at(np.array([2, 0, 2])).texts("name") == ["c", "a", "c"]
    assert kernels.replaced("start_ns", np.zeros(3, np.int64)).duration_ns.tolist() == [1, 3, 5]


def test_tables_leave_for_arrow_pandas_and_polars(decode: Path) -> None:
    kernels = open_trace(decode, only=[Table.KERNELS])[Table.KERNELS]
    arrow, pandas, polars = kernels.to_arrow(), kernels.to_pandas(), kernels.to_polars()
    assert arrow.num_rows == len(pandas) == len(polars) == 2446
    assert arrow.column("name").to_pylist() == kernels.texts("name")
    assert pandas["name"].tolist() == kernels.texts("name")
    assert polars["name"].cast(str).to_list() == kernels.texts("name")
    assert arrow.column("grid").to_pylist() == kernels["grid"].tolist()
    assert int(polars["end_ns"].sum()) == int(kernels["end_ns"].sum())


def test_texts_that_were_not_recorded_are_null_in_arrow() -> None:
    calls = table(Table.CALLS, Strings(["a"]), 2, name=["a", "missing"])
    assert calls.to_arrow().column("name").to_pylist() == ["a", None]


def test_numbers_that_were_not_recorded_are_null_and_times_below_0_are_times() -> None:
    kernels = table(Table.KERNELS, Strings(["a"]), 2, start_ns=[-1, 5], end_ns=[7, 9], registers=[-1, 32])
    assert kernels.to_arrow().column("start_ns").to_pylist() == [-1, 5]
    assert kernels.to_arrow().column("registers").to_pylist() == [None, 32]
    assert kernels.to_polars()["registers"].mean() == 32
    pandas = kernels.to_pandas()
    assert (pandas["registers"].sum(), str(pandas["registers"].dtype)) == (32, "Int32")
    assert pandas["start_ns"].tolist() == [-1, 5]


def test_a_shape_that_was_not_recorded_is_null() -> None:
    shapes = np.array([[-1, -1, -1], [8, 1, 1]], np.int32)
    kernels = table(Table.KERNELS, Strings(["a"]), 2).replaced("grid", shapes)
    assert kernels.to_arrow().column("grid").to_pylist() == [[None] * 3, [8, 1, 1]]
    assert "-1" not in kernels.only("grid")._repr_html_()


@pytest.mark.parametrize(("package", "install"), [("pyarrow", "'gpuledger[arrow]'"), ("polars", "polars")])
def test_a_package_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch, package: str, install: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingPackage, match=f"needs the package {package}, which is not installed") as caught:
        table(Table.KERNELS, Strings(["a"]), 2).to_polars()
    assert caught.value.hint == f"`pip install {install}` installs it"


@given(st.lists(st.text("ab1", max_size=3), unique=True), st.data())
def test_texts_are_rewritten_once_whoever_asks(texts: list[str], data: st.DataObject) -> None:
    strings, asked = Strings(texts), list[str]()

    def rewrite(text: str) -> str:
        asked.append(text)
        return text.replace("1", "")

    for _ in range(2):
        codes = np.array(data.draw(st.lists(st.integers(NO_TEXT, len(texts) - 1))), np.int32)
        made, before = strings.rewritten(codes, rewrite), strings.decode(codes)
        after = [None if text is None else text.replace("1", "") for text in before]
        assert made.strings.decode(made.codes) == after
        assert made.changed.tolist() == [new != old for new, old in zip(after, before, strict=True)]
    assert sorted(asked) == sorted(texts)


def test_a_text_is_asked_about_once_however_often_its_code_occurs() -> None:
    strings, asked = Strings(["aa", "b", "cc"]), list[str]()

    def says(text: str) -> int:
        asked.append(text)
        return len(text)

    assert strings.each(np.array([2, 0, 0, NO_TEXT, 2]), says).tolist() == [2, 2, 2, 0, 2]
    assert sorted(asked) == ["", "aa", "cc"]
    kinds, numbers = strings.kinds(np.array([1, 0, 2]), lambda text: str(len(text)))
    assert [kinds[at] for at in numbers.tolist()] == ["1", "2", "2"]


def test_a_table_is_found_by_its_name_too(decode: Path) -> None:
    opened = open_trace(decode)
    assert len(opened["kernels"]) == len(opened[Table.KERNELS]) > 0
    with pytest.raises(KeyError, match=r"no table 'kernel'; did you mean 'kernels'\? There are kernels, copies"):
        opened["kernel"]
