"""Every sentence of the report has its Chinese, and what is printed in Chinese is Chinese, and fits."""

from __future__ import annotations

import ast
import copy
import pickle
import re
import string
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.api import build_report
from gpuledger.catalog.kernel_families import FAMILIES
from gpuledger.ledger.causes import CAUSES
from gpuledger.ledger.lines import Line
from gpuledger.ledger.steps import Wanted
from gpuledger.messages import Message, capitalised, joined, say, translated
from gpuledger.messages.zh import TEMPLATES
from gpuledger.present.safe_text import display_width, padded, visible, wrapped
from gpuledger.read import open_trace
from support.command import NAMES, ROOT, gpuledger
from support.package_source import MODULES, imported, nodes, relative

TORCH = ROOT / "captures" / "torch"
CJK = re.compile("[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef]")

chinese = partial(translated, language="zh")


@cache
def said() -> list[tuple[str, ast.Call]]:
    """Every call of `say` in the package, and where it is."""
    # `say` is told by where it comes from: others may have that name
    sayers = [path for path in MODULES if "gpuledger.messages.say" in imported(path)]
    return [
        (f"{relative(path)}:{node.lineno}", node)
        for path in sayers
        for node in nodes(path)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "say"
    ]


def test_say_goes_by_its_own_name() -> None:
    """So that `said` finds it."""
    for path in MODULES:
        assert not re.search(r"messages import .*\bsay as|messages\.say\b|import messages\b", path.read_text()), path


def template(call: ast.Call) -> str | None:
    """What a call of `say` says, if it is written out."""
    first = call.args[0] if call.args else None
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None


def placeholders(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


def test_every_template_is_written_out_where_it_is_said() -> None:
    assert [where for where, call in said() if template(call) is None] == []


def test_every_template_gets_the_parts_that_it_names() -> None:
    for where, call in said():
        given = {each.arg for each in call.keywords}
        if None not in given:  # a mapping that is given whole cannot be looked into
            assert given == placeholders(template(call) or ""), where


def test_every_template_has_its_chinese() -> None:
    missing = {template(call): where for where, call in said() if template(call) not in TEMPLATES}
    assert missing == {}


def test_a_template_means_one_thing() -> None:
    """The catalogues are put together: of two translations of one text, one would be lost without a word."""
    meant: dict[str, set[str]] = {}
    for path in (ROOT / "src" / "gpuledger" / "messages").glob("zh*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            for text, translation in zip(node.keys, node.values, strict=True) if isinstance(node, ast.Dict) else ():
                if isinstance(text, ast.Constant) and isinstance(translation, ast.Constant):
                    meant.setdefault(str(text.value), set()).add(str(translation.value))
    assert len(meant) > 1_000
    assert [text for text, translations in meant.items() if len(translations) > 1] == []


def test_no_chinese_is_left_over() -> None:
    assert TEMPLATES.keys() - {template(call) for _, call in said()} == set()


def test_a_translation_has_the_same_parts() -> None:
    assert [text for text, translation in TEMPLATES.items() if placeholders(translation) != placeholders(text)] == []


def test_a_translation_is_chinese() -> None:
    """Or it is only punctuation around its parts, as the English is."""
    has_words = {english: re.search("[A-Za-z]", re.sub(r"\{\w+\}", "", english)) for english in TEMPLATES}
    english_left = [
        english
        for english, translation in TEMPLATES.items()
        if not CJK.search(translation) and (has_words[english] or not translation)
    ]
    assert english_left == []


def test_every_cause_and_line_has_words() -> None:
    labels = [cause.label for cause in CAUSES]
    assert len(set(labels)) == len(labels)
    for line in map(Line, ("comm", "copy", "compute.gemm", *(f"idle.{cause}" for cause in CAUSES))):
        assert CJK.search(translated(line.label, "zh")), line


def test_a_message_is_english_and_says_the_same_in_chinese() -> None:
    told = say(
        "the GPU waits {time} while {doing}", time=say("{time} per step", time="3 us"), doing=say("inside a graph")
    )
    assert told == "the GPU waits 3 us per step while inside a graph"
    assert chinese(told) == "graph 内部期间，GPU 空等：每步 3 us"
    assert translated(told, "en") is told
    assert chinese("a name") == "a name"


def test_lists_and_capitals_are_translated_too() -> None:
    causes = joined(say(", "), (joined(" ", (say("sync"), "9 %")), "{x}"))
    assert (causes, chinese(causes)) == ("sync 9 %, {x}", "同步等待 9 %、{x}")
    assert (joined(", ", ()), chinese(joined(", ", ()))) == ("", "")
    assert (capitalised(say("total")), chinese(capitalised(say("total")))) == ("Total", "合计")
    assert capitalised("") == ""
    assert isinstance(visible(say("total")), Message)


def test_names_are_never_taken_for_templates() -> None:
    told = say("in {ranges}", ranges="{0} {time} {} }{")
    assert (told, chinese(told)) == ("in {0} {time} {} }{", "位于 {0} {time} {} }{")


def sent(message: str) -> str:
    """As `fleet` sends findings from process to process."""
    arrived: str = pickle.loads(pickle.dumps(message))  # noqa: S301
    return arrived


@pytest.mark.parametrize("again", [sent, copy.copy, copy.deepcopy])
def test_a_message_stays_one_between_processes(again: Callable[[str], str]) -> None:
    told = say("{first} {then}", first=say("total"), then=capitalised(say("{time} per step", time="a while")))
    assert (again(told), chinese(again(told))) == ("total A while per step", "合计每步 a while")


TERMS = {
    *(
        "GPU",
        "Tensor",
        "Core",
        "CUDA",
        "NVTX",
        "NVIDIA",
        "nsys",
        "torch",
        "ProfilerStep",
        "kernel",
        "graph",
        "profiler",
        "profile",
    ),
    *("token", "trace", "launch", "stream", "pageable", "pinned", "prefill", "decode", "rank", "other"),
    *("us", "ms", "ns", "s", "MB", "GB", "TB", "kB", "B"),
    *(word for family, _ in FAMILIES for word in family.split("-")),
}
"""What Chinese engineers leave in English, units, and the families, which are names."""

_QUOTED = re.compile(
    r"`[^`]*`|--[\w-]+|下一步：.*|位于 .*|介于 .*|(?<= )在 \S.*? (?:之前|之后|中)$|(?<=[ ，])在 \S.*$"
    r"|[A-Z]+(?:-[A-Z]+)+|\b(?:CAST|PRECISION|LAYOUT)\b|\bcu(?:da)?[A-Z]\w+|其中有 .*|按区间\s*'[^']*'"
)
"""Commands, options, codes, and what stands where a sentence gives a name: ranges, kernels, calls, functions."""


def foreign(text: str) -> set[str]:
    """English words in a Chinese report, unwrapped, that are no names."""
    body = text.split("\n", 1)[1]  # the first line names the file and the GPU
    body = "\n".join(_QUOTED.sub("", re.sub(r"\\(.)", r"\1", line)) for line in body.splitlines())
    only_names = re.compile("(?=.*[_…])[^\u4e00-\u9fff]*")
    told = [line for line in body.splitlines() if not only_names.fullmatch(line)]
    words = re.findall(r"(?<![\w.])[A-Za-z_]+(?!\w)", "\n".join(told), re.ASCII)
    return set(words) - TERMS


def profiles(unpacked: Callable[[str], Path], name: str) -> list[Path]:
    if name.endswith(".tar"):
        return sorted(unpacked(name).rglob("*.bad.sqlite"))
    return [TORCH / name] if name.endswith(".gz") else [unpacked(f"{name}.sqlite")]


REPORTED = (*NAMES, "host_read_stacks", "numpy_samples", "planted.tar", "decode.json.gz", "work.json.gz")


@pytest.mark.parametrize("name", REPORTED)
def test_a_chinese_report_is_chinese_throughout_and_fits(name: str, unpacked: Callable[[str], Path]) -> None:
    for path in profiles(unpacked, name):
        trace = open_trace(path)
        made = build_report(trace, path.name, Wanted())
        assert foreign(made.to_text(language="zh")) == set(), path.name
        assert foreign(made.to_markdown(language="zh")) == set(), path.name
        assert len(foreign(made.to_text())) > 10  # the check sees English where it is
        assert max(map(display_width, made.to_text(width=80, language="zh").splitlines())) <= 80
        for found in made.findings:
            assert all(map(CJK.search, map(chinese, (found.claim, found.confidence, found.assumption or "。"))))


def test_what_was_lost_is_told_in_chinese(tmp_path: Path) -> None:
    whole = (TORCH / "decode.json.gz").read_bytes()
    cut = tmp_path / "cut.json.gz"
    cut.write_bytes(whole[: len(whole) * 3 // 4])
    shown = gpuledger("report", cut, "--lang=zh").stdout
    assert "注意：最后一个事件中途断开：trace 不完整，缺少结尾。\n" in shown


@pytest.mark.parametrize("style", ["json", "csv"])
def test_what_programs_read_stays_english(style: str, decode: Path) -> None:
    plain, told = (gpuledger("report", decode, f"--format={style}", *more) for more in ((), ("--lang=zh",)))
    assert plain == told
    assert not CJK.search(told.stdout)


def test_a_language_that_is_not_there_is_refused(decode: Path) -> None:
    ran = gpuledger("report", decode, "--lang=fr")
    assert ran.exit_code == 2
    assert "'fr' is not one of 'en', 'zh'" in ran.stderr


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
