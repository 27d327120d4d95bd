"""Whole reports, as a user sees them at 80 columns.

`UPDATE_GOLDEN=1 pytest tests/present/test_golden.py` writes them anew.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from gpuledger.present.safe_text import display_width
from support.command import NAMES, gpuledger
from support.pages.chinese_text import CJK

pytestmark = pytest.mark.usefixtures("profiles_read_once")

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.mark.parametrize("name", NAMES)
def test_the_report_reads_as_it_did(name: str, unpacked: Callable[[str], Path]) -> None:
    shown = gpuledger("report", unpacked(f"{name}.sqlite"), COLUMNS="80").stdout
    expected = GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        expected.write_text(shown)
    assert shown == expected.read_text()
    assert max(map(len, shown.splitlines())) <= 80


def figures(text: str) -> Counter[str]:
    """Every number in a text."""
    return Counter(re.findall(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?!\w)", text, re.ASCII))


@pytest.mark.parametrize("name", ["decode", "two_gloo", "zoo_graph"])
def test_the_chinese_report_has_the_numbers_of_the_english_one(name: str, unpacked: Callable[[str], Path]) -> None:
    shown = gpuledger("report", unpacked(f"{name}.sqlite"), "--lang=zh", COLUMNS="80").stdout
    assert CJK.search(shown)
    assert figures(shown) == figures((GOLDEN / f"{name}.txt").read_text())
    assert max(map(display_width, shown.splitlines())) <= 80


@pytest.mark.parametrize("name", ["decode", "two_gloo", "zoo_graph"])
def test_chinese_markdown_renders(name: str, unpacked: Callable[[str], Path]) -> None:
    shown = gpuledger("report", unpacked(f"{name}.sqlite"), "--lang=zh", "--format=md").stdout
    html = MarkdownIt("commonmark").enable("table").render(shown)
    assert html.count("<strong>") == 1 + html.count("<li><strong>") + html.count("<li>\n<p><strong>") > 1
    assert "**" not in html


@pytest.mark.parametrize("name", NAMES)
def test_the_verdict_comes_first_then_what_to_do_then_the_ledger(name: str) -> None:
    lines = (GOLDEN / f"{name}.txt").read_text().splitlines()
    assert lines[lines.index("") + 1].startswith("GPU ")
    ledger = next(at for at, line in enumerate(lines) if line.startswith("Where the time went"))
    assert lines.index("What to do") < 10 if "What to do" in lines else ledger < 10
    assert ledger > lines.index("What to do") if "What to do" in lines else True
    assert len(lines) <= 64


@pytest.mark.parametrize("name", NAMES)
def test_a_brief_report_fits_a_screen(name: str, unpacked: Callable[[str], Path]) -> None:
    whole = (GOLDEN / f"{name}.txt").read_text().splitlines()
    brief = gpuledger("report", unpacked(f"{name}.sqlite"), "--brief", COLUMNS="80").stdout.splitlines()
    assert len(brief) <= 28
    assert brief[: whole.index("What to do") if "What to do" in whole else 4][:4] == whole[:4]
    assert set(brief) <= set(whole)
    assert not any(line.startswith("Where the time went") for line in brief)


@pytest.mark.parametrize("name", NAMES)
def test_markdown_renders(name: str, unpacked: Callable[[str], Path]) -> None:
    written = gpuledger("report", unpacked(f"{name}.sqlite"), "--format=md").stdout
    html = MarkdownIt("commonmark").enable("table").render(written)
    assert html.count("<h1>") == html.count("<table>") == 1
    assert html.count("<tr>") == sum(line.startswith("|") for line in written.splitlines()) - 1
    assert {row.count("</td>") for row in html.split("</tr>")[1:-1]} == {3}
    assert html.count("<li>") >= 1 or "No fix stands out" in html
