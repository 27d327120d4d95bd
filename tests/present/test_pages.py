"""Blocks as a page: what becomes the verdict, the first screen, and sections with their titles."""

from __future__ import annotations

import numpy as np
import pytest

from gpuledger.present import document as doc
from gpuledger.present.charts.over_time import shade_map
from gpuledger.present.charts.svg import Boxes
from gpuledger.present.sheet import Column, Sheet, Unit

TABLE = doc.SheetBlock(Sheet("t", "Table", (Column("a", "A", Unit.TEXT),), (("x",),)))
NAMED = doc.SheetBlock(TABLE.sheet, doc.SheetTitle.NAMED)
SAID = doc.Paragraph("said")


@pytest.mark.parametrize(
    ("blocks", "sections"),
    [
        ((SAID, SAID), {"": 2}),
        ((TABLE, SAID, NAMED), {"Table": 2, "Table 2": 1}),
        ((doc.Heading("Over it"), TABLE, SAID), {"Over it": 2}),
        ((doc.Heading("Over it"), NAMED), {"Table": 1}),
        ((doc.Heading("Over it"), SAID, TABLE), {"Over it": 1, "Table": 1}),
        ((doc.Heading("The document", 1), doc.Heading("Empty"), doc.Heading("Full"), SAID), {"Full": 1}),
        ((doc.Points("Notes", ("a", "b"), is_section=True), SAID), {"Notes": 2}),
        ((SAID, doc.Points("No section", ("a",))), {"": 2}),
        ((doc.Definitions("Terms", (("a", "b"),)), doc.Definitions("None", ())), {"Terms": 1}),
        ((doc.Section("own", "Own", (SAID,)), SAID), {"Own": 1, "": 1}),
        (
            (doc.Group((NAMED, doc.Only(doc.Medium.PAGE, (SAID,)), doc.Only(doc.Medium.WRITTEN, (SAID,)))),),
            {"Table": 2},
        ),
        ((TABLE, doc.Remarks(("closing", "twice"))), {"Table": 3}),
        ((doc.Findings(()),), {"What to do": 1}),
    ],
)
def test_a_title_begins_a_section_and_what_follows_is_in_it(
    blocks: tuple[doc.Block, ...], sections: dict[str, int]
) -> None:
    page = doc.page_of("name", blocks)
    *found, again = page.sections
    assert (again.title, again.blocks) == ("Reproduce", (doc.Reproduce(),))
    titles = [title.removesuffix(" 2") for title in sections]
    assert [(section.title, len(section.blocks)) for section in found] == list(
        zip(titles, sections.values(), strict=True)
    )
    assert len({section.name for section in page.sections}) == len(page.sections)


def test_the_first_screen_has_the_answer_what_to_do_and_the_books() -> None:
    top = doc.Findings((), doc.FindingsForm.TOP)
    tile = doc.Tile("GPU busy", "1 %")
    blocks = (
        *(doc.Opening("run", "about it"), doc.Conclusion("The answer."), doc.Remarks(("What to do.",))),
        *(doc.Tiles((tile,)), top, doc.Section("own", "Own", (doc.Reproduce(),)), doc.Conclusion("Another.")),
    )
    page = doc.page_of("name", blocks)
    assert (page.verdict, page.headline, page.tiles) == ("The answer.", "about it", (tile,))
    assert page.opening == (doc.Paragraph("What to do.", "lead"), top)
    assert [section.name for section in page.sections] == ["own", "part-1"], "it says how to make it again"


@pytest.mark.parametrize(("ranks", "steps", "rows", "columns"), [(64, 240, 64, 240), (65, 241, 64, 240), (2, 1, 2, 1)])
def test_of_very_many_ranks_neighbours_share_a_row_where_the_latest_shows(
    ranks: int, steps: int, rows: int, columns: int
) -> None:
    late = np.zeros((ranks, steps), np.int64)
    late[-1, -1] = 1_000
    names = [f"rank {rank}" for rank in range(ranks)]
    _, chart = shade_map(doc.Shades("Who is late", "how late", names, range(steps), late))
    picture = chart.picture(str)
    boxes = [(mark.tone, box) for mark in picture.marks if isinstance(mark, Boxes) for box in mark.boxes]
    assert len({top for _, (_, top, _, _) in boxes}) == rows
    [(left, _, width, _)] = [box for tone, box in boxes if tone == "heat-6"]
    first_left = min(left for _, (left, *_) in boxes)
    assert width == pytest.approx((1 - first_left) / columns)
    assert left + width == pytest.approx(1)
    assert ": up to 1.00 us" in picture.description
