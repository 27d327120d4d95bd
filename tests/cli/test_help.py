"""`gpuledger help WORDS` finds the command that answers a question, asked in English or Chinese."""

from __future__ import annotations

import pytest

from gpuledger.cli.help import matching


@pytest.mark.parametrize(
    ("words", "command"),
    [
        ("why is my gpu idle?", "gpuledger gaps run.sqlite"),
        ("which rank is late", "gpuledger fleet traces/"),
        ("who leaks memory", "gpuledger memory run.memory.pickle"),
        ("roofline", "gpuledger kernels layer.ncu-rep"),
        ("为什么GPU空闲？", "gpuledger gaps run.sqlite"),
        ("哪个 rank 最慢", "gpuledger fleet traces/"),
        ("显存泄漏", "gpuledger memory run.memory.pickle"),
        ("kernel 启动开销", "gpuledger gaps run.sqlite"),
    ],
)
def test_a_question_finds_its_command(words: str, command: str) -> None:
    assert matching(words)[0][1] == command


def test_words_that_ask_nothing_find_nothing() -> None:
    assert [words for words in ("xyzzy", "", "why is the", "的", "天气") if matching(words)] == []


def test_a_verb_is_no_second_answer_beside_its_question() -> None:
    assert "gpuledger gaps" not in [command for _, command in matching("why is my gpu idle?")]
    assert "gpuledger gaps run.sqlite" in [command for _, command in matching("gap")]
