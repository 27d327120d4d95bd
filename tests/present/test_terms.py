"""The list of terms holds: what it calls by a name is called so in both languages."""

from __future__ import annotations

import re

from gpuledger.messages import catalogue
from support.command import ROOT

PAGE = ROOT / "docs" / "concepts" / "terms.md"


def rows() -> list[list[str]]:
    """The cells of the page's table."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def test_every_term_is_said_in_both_languages_as_the_list_has_it() -> None:
    assert {english: catalogue("zh").get(english) for english, *_ in rows()} == {row[0]: row[1] for row in rows()}


def test_no_message_says_what_a_term_has_replaced() -> None:
    replaced = {word.strip() for row in rows() for word in row[3].split(",") if word.strip()}
    assert "lines of the books" in replaced
    apart = re.compile("|".join(rf"\b{re.escape(word)}\b" for word in sorted(replaced - {"dispatch", "iteration"})))
    assert [message for message in catalogue("zh") if apart.search(re.sub(r"\{\w+\}", "", message))] == []
