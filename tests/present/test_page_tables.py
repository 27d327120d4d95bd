"""Sheets on a page: terms show their words, sums stay at the bottom, and programs see codes."""

from __future__ import annotations

from gpuledger.analyse.recorded.nvidia_tables import NVIDIA_REPORTS
from gpuledger.messages import say, translated
from gpuledger.present.document import SheetBlock
from gpuledger.present.sheet import Column, Sheet, Term, Unit
from gpuledger.present.views.nvidia import NVIDIA_TABLES
from gpuledger.present.writers.csv import sheet_csv
from gpuledger.present.writers.html.tables import Room, TableWriter
from support.pages.html_pages import Element, parsed

ROOM = Room(rows=30, letters=200)
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


def table(block: SheetBlock, language: str = "en") -> Element:
    return parsed(TableWriter(language, Room(rows=30, letters=200)).table(block))


def test_people_see_words_with_colour_verdict_and_depth() -> None:
    shown = table(SheetBlock(SHEET), "zh")
    assert [head.text.strip() for head in shown.all("thead")[0].all("th")] == ["成因", "大小", "占比"]
    first, second = (row.all("th")[0] for row in shown.all("tbody")[0].all("tr"))
    assert first.text == translated(say("sync"), "zh")
    assert first.all("rect")[0].attrs["class"] == "f-idle-sync"
    depth, badge = second.all("span")
    assert (depth.attrs["class"], badge.attrs["class"], badge.text) == ("d1", "badge bad", "late")
    foot = shown.all("tfoot")[0].all("th", "td")
    assert [cell.text for cell in foot] == [translated(say("total"), "zh"), "2.00 MB", "100.0 %"]


def test_rows_that_only_look_like_a_sum_stay_rows() -> None:
    shown = table(SheetBlock(Sheet("a", "A", SHEET.columns, (("total", 1, 1.0),))))
    assert (len(shown.all("tbody")[0].all("tr")), shown.all("tfoot")) == (1, [])


def test_columns_left_out_are_left_out_of_the_foot_too() -> None:
    rows = table(SheetBlock(SHEET, without=("size",))).all("tr")
    assert [len(row.all("th", "td")) for row in rows] == [2] * 4


def test_how_much_a_table_has_decides_what_can_be_done_with_it() -> None:
    """Sorted from 3 rows on, copied from 3, searched above 8, scrolled above 28; zero rows fold, but not one alone."""

    def of(shares: list[float]) -> Element:
        rows = tuple((f"k{number}", 1, share) for number, share in enumerate(shares))
        return table(SheetBlock(Sheet("a", "A", SHEET.columns, rows)))

    def able(rows: int) -> tuple[bool, bool, bool, bool]:
        shown = of([1.0] * rows)
        classes = {each.attrs.get("class", "") for each in shown.walk()}
        return "sorts" in classes, "csv" in classes, bool(shown.all("input")), "scroll tall" in classes

    assert {count: able(count) for count in (2, 3, 8, 9, 28, 29)} == {
        2: (False, False, False, False),
        3: (True, True, False, False),
        8: (True, True, False, False),
        9: (True, True, True, False),
        28: (True, True, True, False),
        29: (True, True, True, True),
    }

    def zero(shares: list[float]) -> list[bool]:
        return [row.attrs.get("class") == "zero" for row in of(shares).all("tbody")[0].all("tr")]

    assert zero([50.0, 0.049, 0.0]) == [False, True, True]
    assert zero([50.0, 0.05, 0.0]) == [False, False, False]
    assert zero([0.0, 0.0]) == [False, False]


def test_every_report_of_nvidias_has_its_columns() -> None:
    assert list(NVIDIA_TABLES) == list(NVIDIA_REPORTS)
    for name, columns in NVIDIA_TABLES.items():
        assert len({column.key for column in columns}) == len(columns), name
