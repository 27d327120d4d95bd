"""Sentences, questions, words for causes and pages about findings have their Chinese. `make check-chinese` asks."""

from __future__ import annotations

import re
import runpy
from typing import Any

import pytest

from gpuledger.findings.pages import codes, page
from gpuledger.ledger.causes import TRIGGERS
from gpuledger.messages import LANGUAGES, catalogue
from support.command import ROOT
from support.package_source import PACKAGE
from support.pages.terms import term_rows

TOOL: dict[str, Any] = runpy.run_path(str(ROOT / "docs" / "messages.py"), run_name="messages")


def test_every_sentence_and_question_has_its_chinese() -> None:
    missing = sorted(TOOL["templates"]() - catalogue("zh").keys())
    assert missing == [], "run `make messages`, then write their Chinese in src/gpuledger/messages/zh.po"


def test_the_catalogue_has_what_is_said_and_no_more_in_order() -> None:
    text: str = TOOL["catalogue_text"](TOOL["templates"](), catalogue("zh"))
    is_fresh = TOOL["CATALOGUE"].read_text(encoding="utf-8") == text
    assert is_fresh, "run `make messages`"


@pytest.mark.parametrize("language", [language for language in LANGUAGES if language != "en"])
def test_every_finding_has_its_page(language: str) -> None:
    folder = PACKAGE / "findings" / "explain" / language
    assert {path.stem for path in folder.glob("*.md")} == set(codes())


@pytest.mark.parametrize("code", codes())
def test_a_page_has_the_commands_and_pictures_of_the_english_one_and_no_english_sentence(code: str) -> None:
    fenced = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
    translation = page(code, "zh")
    assert sorted(fenced.findall(translation)) == sorted(fenced.findall(page(code)))
    assert not re.search(r"[a-z]+(?: [a-z]+){5}", re.sub(r"```.*?```|`[^`]*`", "", translation, flags=re.DOTALL))


def test_every_term_is_in_the_catalogue_and_every_cause_in_the_list_of_terms() -> None:
    assert [english for english, *_ in term_rows() if english not in catalogue("zh")] == []
    listed = {code: chinese for code, _, chinese, *_ in term_rows("## Codes")}
    assert listed == {f"`{code}`": catalogue("zh")[str(code.label)] for code in TRIGGERS}
