"""The list of terms holds: what it calls by a name is called so in both languages, on every surface."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import click
import pytest

from gpuledger.cli.main import verb_named
from gpuledger.ledger.causes import TRIGGERS
from gpuledger.messages import catalogue
from gpuledger.present.views.schema import answer_schema, answer_types
from gpuledger.sql.tables import TABLES
from gpuledger.verbs import VERBS
from support.command import ROOT
from support.pages.terms import PAGE, term_rows

NOT_ENGLISH = re.compile(
    r"\b(booked|stranded|POP/s|at work|mended)\b|\btold\b(?! (apart|otherwise))|\d x (faster|slower|as fast)",
    re.IGNORECASE,
)


def test_every_term_is_said_in_both_languages_as_the_list_has_it() -> None:
    listed = {english: chinese for english, chinese, *_ in term_rows() if english in catalogue("zh")}
    assert listed == {english: catalogue("zh")[english] for english in listed}


def test_no_message_says_what_a_term_has_replaced() -> None:
    replaced = {word.strip() for row in term_rows() for word in row[3].split(",") if word.strip()}
    assert "lines of the books" in replaced
    apart = re.compile("|".join(rf"\b{re.escape(word)}\b" for word in sorted(replaced - {"dispatch", "iteration"})))
    assert [message for message in catalogue("zh") if apart.search(re.sub(r"\{\w+\}", "", message))] == []


def test_every_code_has_its_word() -> None:
    assert {code: words for code, words, *_ in term_rows("## Codes")} == {f"`{code}`": code.label for code in TRIGGERS}


def descriptions(schema: Any) -> Iterator[str]:
    """Keys and descriptions of a JSON schema; an old key that is promised is not ours to rename."""
    if isinstance(schema, dict):
        yield from (schema[key] for key in ("title", "description") if isinstance(schema.get(key), str))
        for part in schema.values():
            yield from descriptions(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from descriptions(part)


def surface(name: str) -> Iterator[str]:
    """The sentences of one surface; code in backticks is not English."""
    if name == "messages":
        yield from (re.sub(r"\{\w+\}", "", message) for message in catalogue("zh"))
    elif name == "pages":
        pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *ROOT.glob("src/gpuledger/findings/explain/*.md")]
        for page in pages:
            text = re.sub(r"`[^`\n]*`", "", page.read_text())
            yield from (f"{page.name}: {line}" for line in text.splitlines() if page != PAGE)
    elif name == "schemas":
        for kind in answer_types().values():
            yield from descriptions(answer_schema(kind))
    elif name == "tables of query":
        yield from (f"{table.name}.{column.name} {column.meaning}" for table in TABLES for column in table.columns)
    else:
        yield from (f"{verb}: {verb_named(verb).get_help(click.Context(verb_named(verb)))}" for verb in VERBS)


@pytest.mark.parametrize("name", ["messages", "pages", "schemas", "tables of query", "helps"])
def test_every_surface_is_in_engineers_english(name: str) -> None:
    sentences = list(surface(name))
    assert len(sentences) > 20
    assert [sentence for sentence in sentences if NOT_ENGLISH.search(sentence)] == []


def test_chinese_has_one_word_for_a_factor_and_for_a_run_without_the_profiler() -> None:
    chinese = "\n".join(catalogue("zh").values())
    assert not re.search(r"(不用|不带|没有|无) ?profiler|[快慢] ?\{\w+\} ?x", chinese)


@pytest.mark.parametrize("sentence", ["Its time is booked to causes", "13.9 x faster", "the loss is told", "2 POP/s"])
def test_what_is_not_english_is_found(sentence: str) -> None:
    assert NOT_ENGLISH.search(sentence)


def test_to_tell_apart_is_english() -> None:
    assert not NOT_ENGLISH.search("kernels are told apart by launch shape, unless told otherwise")
