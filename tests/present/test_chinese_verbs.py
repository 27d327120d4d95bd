"""What every verb prints in Chinese fits 80 columns. Whether all of it is Chinese is asked in tests/chinese."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gpuledger.cli.main import verb_named
from gpuledger.present.safe_text import display_width
from gpuledger.verbs import VERBS
from support.command import gpuledger
from support.pages.chinese_text import CHINESE_CASES, CJK, chinese_arguments

pytestmark = pytest.mark.usefixtures("profiles_read_once")

ELSEWHERE = {
    "bench": "needs torch",
    "time": "needs torch",
    "explain": "tests/project/test_registered.py",
}


def test_every_verb_that_has_a_language_is_looked_at() -> None:
    speaks = {name for name in VERBS if any(option.name in ("language", "lang") for option in verb_named(name).params)}
    assert speaks == CHINESE_CASES.keys() | ELSEWHERE.keys()


@pytest.mark.parametrize("verb", CHINESE_CASES)
def test_what_a_verb_says_in_chinese_fits(verb: str, unpacked: Callable[[str], Path]) -> None:
    arguments = chinese_arguments(CHINESE_CASES[verb], unpacked)
    shown = gpuledger(verb, *arguments, "--lang=zh", "--no-cache", COLUMNS="80").stdout
    assert CJK.search(shown)
    assert max(map(display_width, shown.splitlines())) <= 80
