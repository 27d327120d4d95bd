"""Sheets on a page: terms show their words, sums stay at the bottom, and programs see codes."""

from __future__ import annotations

from functools import partial

from gpuledger.analyse.recorded.nvidia_tables import NVIDIA_REPORTS
from gpuledger.messages import say, translated
from gpuledger.present.document import SheetBlock
from gpuledger.present.sheet import Column, Sheet, Term, Unit
from gpuledger.present.views.nvidia import NVIDIA_TABLES
from gpuledger.present.writers.csv import sheet_csv
from gpuledger.present.writers.html.tables import Room, table

ROOM = Room(rows=10, letters=200)
SHEET = Sheet(
    "gaps",
    "Gaps",
    (
        Column("cause", say("Cause"), Unit.TEXT),
        Column("size", "MB", Unit.MB, page_name=say("Size")),
        Column("share_percent", say("Share"), Unit.SHARE_PERCENT),
    ),
    (
        (Term("sync", say("sync"), tone="idle-sync"), 1_500_000, 75.0),
        (Term("  late", "late", badge="bad", depth=1), 500_000, 25.0),
    ),
    foot=((say("total"), 2_000_000, 100.0),),
)


def test_programs_see_codes_and_exact_values() -> None:
    assert sheet_csv(SHEET).splitlines() == [
        "Cause,MB,Share (%)",
        "sync,1.500,75.0",
        "  late,0.500,25.0",
        "total,2.000,100.0",
    ]


def test_people_see_words_with_colour_verdict_and_depth() -> None:
    shown = table(SheetBlock(SHEET), partial(translated, language="zh"), ROOM)
    assert [head.text for head in shown.heads] == ["成因", "大小", "占比"]
    first, second = (row[0] for row in shown.rows)
    assert (first.text, first.tone) == (translated(say("sync"), "zh"), "idle-sync")
    assert (second.text, second.badge, second.depth) == ("late", "bad", 1)
    [foot] = shown.foot
    assert [cell.text for cell in foot] == [translated(say("total"), "zh"), "2.00 MB", "100.0 %"]


def test_rows_that_only_look_like_a_sum_stay_rows() -> None:
    shown = table(SheetBlock(Sheet("a", "A", SHEET.columns, (("total", 1, 1.0),))), str, ROOM)
    assert (len(shown.rows), shown.foot) == (1, ())


def test_columns_left_out_are_left_out_of_the_foot_too() -> None:
    shown = table(SheetBlock(SHEET, without=("size",)), str, ROOM)
    assert {len(row) for row in (*shown.rows, *shown.foot)} == {2}


def test_every_report_of_nvidias_has_its_columns() -> None:
    assert list(NVIDIA_TABLES) == list(NVIDIA_REPORTS)
    for name, columns in NVIDIA_TABLES.items():
        assert len({column.key for column in columns}) == len(columns), name
