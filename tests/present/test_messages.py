"""What is translated is translated well: the catalogue is well formed, and a translation has the parts of its template.

What has no Chinese yet is said in English; that all of it has is asked in tests/chinese, before a release.
"""

from __future__ import annotations

import ast
import copy
import io
import pickle
import re
import runpy
import shutil
import string
import subprocess
import sys
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po, write_po
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.ledger.causes import CAUSES
from gpuledger.messages import Message, capitalised, catalogue, joined, parse_catalogue, say, translated
from gpuledger.present.safe_text import display_width, padded, visible, wrapped
from support.command import PATIENCE_S, ROOT, gpuledger
from support.package_source import MODULES
from support.pages.chinese_text import CJK

TOOL: dict[str, Any] = runpy.run_path(str(ROOT / "docs" / "messages.py"), run_name="messages")
"""What `make messages` runs: it collects what the package says."""
calls_of_say: Callable[[], list[tuple[str, ast.Call]]] = cache(TOOL["calls_of_say"])
CATALOGUE: Path = TOOL["CATALOGUE"]
template: Callable[[ast.Call], str | None] = TOOL["template"]

chinese = partial(translated, language="zh")


def test_say_goes_by_its_own_name() -> None:
    """So that `calls_of_say` finds it."""
    for path in MODULES:
        assert not re.search(r"messages import .*\bsay as|messages\.say\b|import messages\b", path.read_text()), path


def placeholders(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


def test_every_template_is_written_out_where_it_is_said() -> None:
    assert [where for where, call in calls_of_say() if template(call) is None] == []


def test_every_template_gets_the_parts_that_it_names() -> None:
    for where, call in calls_of_say():
        given = {keyword.arg for keyword in call.keywords}
        if None not in given:  # a mapping that is given whole cannot be looked into
            assert given == placeholders(template(call) or ""), where


def test_a_translation_has_the_same_parts() -> None:
    assert [text for text, chinese in catalogue("zh").items() if placeholders(chinese) != placeholders(text)] == []


def test_a_translation_is_chinese() -> None:
    """Or it is only punctuation around its parts, as the English is, or a name that stays as it is."""
    english_left = [
        english
        for english, translation in catalogue("zh").items()
        if translation != english
        and not CJK.search(translation)
        and re.search("[A-Za-z]", re.sub(r"\{\w+\}", "", english))
    ]
    assert english_left == []


def test_a_catalogue_is_parsed_as_translators_tools_do() -> None:
    text = r"""
# a note, and a text over several lines
msgid ""
"the GPU \"waits\" "
"{time}\\s"
msgstr "GPU 空等\n"
"\t{time}"


#, fuzzy, python-brace-format
msgid "guessed"
msgstr "猜的"

msgid "not yet translated"
msgstr ""

#~ msgid "said no more"
#~ msgstr "不再说"
"""
    assert parse_catalogue(text) == {'the GPU "waits" {time}\\s': "GPU 空等\n\t{time}"}


def by_babel(text: str) -> dict[str, str]:
    messages = read_po(io.BytesIO(text.encode()))
    return {str(message.id): str(message.string) for message in messages if message.id and message.string}


def test_babel_reads_our_catalogue_as_we_do() -> None:
    assert by_babel(CATALOGUE.read_text(encoding="utf-8")) == catalogue("zh")


TEXTS = st.text(st.characters(exclude_categories=["Cc", "Cs"]) | st.sampled_from('\n\t\\"{}'), min_size=1)


@given(st.dictionaries(TEXTS, TEXTS))
def test_any_text_comes_back_from_a_catalogue_ours_or_babels(translations: dict[str, str]) -> None:
    ours: str = TOOL["catalogue_text"](translations, translations)
    assert parse_catalogue(ours) == by_babel(ours) == translations
    theirs, wrapped_by_babel = Catalog(), io.BytesIO()
    for english, translation in translations.items():
        theirs.add(english, translation)
    write_po(wrapped_by_babel, theirs)
    assert parse_catalogue(wrapped_by_babel.getvalue().decode()) == translations


@pytest.mark.parametrize(
    "text",
    [
        'msgid "no translation"',
        'msgid "a"\nmsgstr "b',
        'msgid "a"\nmsgstr "an \\x escape"',
        'msgid "a"\nmsgstr "a "quote" inside"',
        'msgctxt "button"\nmsgid "a"\nmsgstr "b"',
        'msgid "a"\nmsgid_plural "as"\nmsgstr[0] "b"',
        'msgid "a"\nmsgstr "b"\nmsgid "no blank line before"\nmsgstr "c"',
        'msgid "a"\nmsgstr "b"\n\nmsgid "a"\nmsgstr "c"',
        "<<<<<<< HEAD",
    ],
)
def test_what_is_not_understood_of_a_catalogue_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="catalogue"):
        parse_catalogue(text)


@pytest.mark.skipif(shutil.which("msgfmt") is None, reason="gettext is not installed")
def test_gettext_finds_nothing_wrong_and_would() -> None:
    def accepted(text: str) -> bool:
        with_flags = re.sub(r'^msgid ".*\{', r"#, python-brace-format\n\g<0>", text, flags=re.MULTILINE)
        command = ["msgfmt", "--check", "--output-file=-", "-"]
        return not subprocess.run(command, input=with_flags.encode(), capture_output=True, check=False).returncode

    text = CATALOGUE.read_text(encoding="utf-8")
    assert accepted(text)
    assert not accepted(text.replace('msgstr "每步 {time}"', 'msgstr "每步 {tme}"'))


def test_english_reads_no_catalogue(decode: Path) -> None:
    """Nor does any verb when it is loaded."""
    code = """if True:
        import sys
        from gpuledger.cli.main import cli, verb_named
        from gpuledger.verbs import VERBS
        from gpuledger.messages import catalogue
        for verb in VERBS:
            verb_named(verb)
        cli.main(["report", "--no-cache", sys.argv[1]], standalone_mode=False)
        assert catalogue.cache_info().misses == 0
    """
    subprocess.run([sys.executable, "-c", code, decode], check=True, capture_output=True, timeout=PATIENCE_S)


def test_no_two_causes_have_the_same_words() -> None:
    labels = [cause.label for cause in CAUSES]
    assert len(set(labels)) == len(labels)


CHINESE = {
    "the GPU waits {time} while {doing}": "{doing}期间，GPU 空等：{time}",
    "{time} per step": "每步 {time}",
    "inside a graph": "graph 内部",
    "total": "合计",
    "sync": "同步等待",
    ", ": "、",
    "in {ranges}": "位于 {ranges}",
    "{first} {then}": "{first}{then}",
}


@pytest.fixture
def few_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    """A catalogue of its own, whatever the package says."""
    monkeypatch.setattr("gpuledger.messages.catalogue", lambda _: CHINESE)


@pytest.mark.usefixtures("few_sentences")
def test_what_has_no_chinese_is_said_in_english() -> None:
    assert chinese(say("new: {what}", what=say("total"))) == "new: 合计"


@pytest.mark.usefixtures("few_sentences")
def test_a_message_is_english_and_says_the_same_in_chinese() -> None:
    told = say(
        "the GPU waits {time} while {doing}", time=say("{time} per step", time="3 us"), doing=say("inside a graph")
    )
    assert told == "the GPU waits 3 us per step while inside a graph"
    assert chinese(told) == "graph 内部期间，GPU 空等：每步 3 us"
    assert translated(told, "en") is told
    assert chinese("a name") == "a name"


@pytest.mark.usefixtures("few_sentences")
def test_lists_and_capitals_are_translated_too() -> None:
    causes = joined(say(", "), (joined(" ", (say("sync"), "9 %")), "{x}"))
    assert (causes, chinese(causes)) == ("sync 9 %, {x}", "同步等待 9 %、{x}")
    assert (joined(", ", ()), chinese(joined(", ", ()))) == ("", "")
    assert (capitalised(say("total")), chinese(capitalised(say("total")))) == ("Total", "合计")
    assert capitalised("") == ""
    assert isinstance(visible(say("total")), Message)


@pytest.mark.usefixtures("few_sentences")
def test_names_are_never_taken_for_templates() -> None:
    told = say("in {ranges}", ranges="{0} {time} {} }{")
    assert (told, chinese(told)) == ("in {0} {time} {} }{", "位于 {0} {time} {} }{")


def sent(message: str) -> str:
    """As `fleet` sends findings from process to process."""
    arrived: str = pickle.loads(pickle.dumps(message))  # noqa: S301
    return arrived


@pytest.mark.usefixtures("few_sentences")
@pytest.mark.parametrize("again", [sent, copy.copy, copy.deepcopy])
def test_a_message_stays_one_between_processes(again: Callable[[str], str]) -> None:
    told = say("{first} {then}", first=say("total"), then=capitalised(say("{time} per step", time="a while")))
    assert (again(told), chinese(again(told))) == ("total A while per step", "合计每步 a while")


@pytest.mark.parametrize("style", ["json", "csv"])
def test_what_programs_read_stays_english(style: str, decode: Path) -> None:
    plain, told = (gpuledger("report", decode, f"--format={style}", *more) for more in ((), ("--lang=zh",)))
    assert plain == told
    assert not CJK.search(told.stdout)


def test_chinese_wraps_between_characters_but_not_before_a_comma() -> None:
    assert wrapped("主机等待，GPU 空闲。", 8) == "主机等\n待，GPU\n空闲。"
    assert wrapped("主机（host）等", 6, 1) == "主机\n （host）\n 等"
    assert wrapped("  损失 16.5 ms，每步 9.0 %", 11, 2) == "  损失\n  16.5 ms，\n  每步\n  9.0 %"
    assert wrapped("等a_very_long_name等", 4) == "等\na_very_long_name\n等"
    assert (display_width("空闲: x"), padded("空闲", 6), padded("空闲", 3)) == (7, "空闲  ", "空闲")


PHRASES = ("主机", "空闲，", "（每步）", "“同步”", "GPU ", " kernel ", " 5 us。", "time，", "a > b ", "每步、")


@given(st.lists(st.sampled_from(PHRASES), max_size=30), st.integers(14, 40), st.integers(0, 2))
def test_wrapped_chinese_keeps_its_letters_and_its_width(phrases: list[str], width: int, indent: int) -> None:
    text = f"等{''.join(phrases)}"
    first, *rest = wrapped(text, width, indent).splitlines()
    assert "".join((first, *rest)).replace(" ", "") == text.replace(" ", "")
    assert all(display_width(line) <= width and line == line.rstrip() for line in (first, *rest))
    assert all(re.match(rf" {{{indent}}}[^ ，。、；：）”]", line) for line in rest)
    assert all("us" not in line or "5 us" in line for line in (first, *rest))
