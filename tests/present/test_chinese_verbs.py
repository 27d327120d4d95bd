"""What every verb prints in Chinese is Chinese: no English sentence, no English heading, and it fits 80 columns."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuledger.cli.main import verb_named
from gpuledger.present.safe_text import display_width
from gpuledger.present.views.bench import bench_document
from gpuledger.present.writers import write
from gpuledger.verbs import VERBS
from gpuledger.verbs.questions import QUESTIONS
from support.command import ROOT, gpuledger

pytestmark = pytest.mark.usefixtures("profiles_read_once")

CASES = {
    **dict.fromkeys(QUESTIONS, ("attn.sqlite",)),
    "align": ("attn.sqlite", "decode.sqlite", "--range=attention"),
    "critical": ("zoo_node.sqlite",),
    "diff": ("experts_batched.sqlite", "experts_grouped.sqlite"),
    "fleet": ("two_gloo.sqlite",),
    "gaps": ("attn.sqlite",),
    "info": ("attn.sqlite",),
    "kernels": ("attn.sqlite",),
    "ops": ("attn.json.gz",),
    "ranges": ("experts_batched.sqlite",),
    "report": ("attn.sqlite",),
    "query": ("attn.sqlite", "SELECT start_ns FROM kernels"),
    "whatif": ("attn.sqlite", "--speedup=compute=2", "--fix=LAUNCH-BOUND", "--host=2"),
}
ELSEWHERE = {
    "bench": "needs torch",
    "time": "needs torch",
    "explain": "tests/project/test_registered.py",
}
PAGES = ("align", "critical", "diff", "fleet", "ranges", "report", "whatif")

_OTHERS = re.compile(r"nsys: .*|`[^`]*`|<code>.*?</code>|work, all of it")
"""What others say, and commands; the last is a range of a capture."""
_WORDS = re.compile(r"(?<![\w.:/-])[A-Za-z]?[a-z]+(?: [a-z]+){2,}(?![\w:(])")
"""Three English words in a row: names of kernels, ranges and functions have none."""


def english(text: str) -> list[str]:
    """The sentences of a text that are English."""
    return _WORDS.findall(_OTHERS.sub("", text))


def given(files: tuple[str, ...], unpacked: Callable[[str], Path]) -> list[str]:
    def path(name: str) -> str:
        if name.startswith(("--", "SELECT ")):
            return name
        return str(ROOT / "captures" / "torch" / name if name.endswith(".gz") else unpacked(name))

    return [path(name) for name in files]


def test_every_verb_that_has_a_language_is_looked_at() -> None:
    speaks = {name for name in VERBS if any(option.name in ("language", "lang") for option in verb_named(name).params)}
    assert speaks == CASES.keys() | ELSEWHERE.keys()


@pytest.mark.parametrize("verb", CASES)
def test_a_verb_speaks_chinese_and_fits(verb: str, unpacked: Callable[[str], Path]) -> None:
    arguments = given(CASES[verb], unpacked)
    shown = gpuledger(verb, *arguments, "--lang=zh", "--no-cache", COLUMNS="80").stdout
    assert re.search("[\u4e00-\u9fff]", shown)
    assert english(shown) == []
    headings = [
        above for above, rule in zip(shown.splitlines(), shown.splitlines()[1:], strict=False) if "--  -" in rule
    ]
    assert [line for line in headings if re.search("[A-Z][a-z]{2,} ", line)] == []
    assert max(map(display_width, shown.splitlines())) <= 80


@pytest.mark.parametrize("verb", PAGES)
def test_a_page_speaks_chinese(verb: str, unpacked: Callable[[str], Path], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    ran = gpuledger(verb, *given(CASES[verb], unpacked), "--lang=zh", "--no-cache", "-o", page)
    assert ran.exit_code == 0
    body = re.sub(r"(?s)<(script|style|code)\b.*?</\1>", "", page.read_text().partition("<body")[2])
    assert english(re.sub(r"<[^>]+>", "\n", body)) == []


def test_a_bench_speaks_chinese() -> None:
    result = {
        "workload": "ep",
        "settings": {},
        "median_ms": 1.2,
        "comm_share": 0.4,
        "launches": None,
        "verdict": "FAIL",
    }
    shown = write(bench_document(result), "text", width=80, language="zh")
    assert re.findall("中位数|通信占比|launch 次数|未测量|结论：不通过", shown) == [
        *("中位数", "通信占比", "launch 次数", "未测量", "结论：不通过")
    ]


def test_the_check_sees_english() -> None:
    assert english("kernel 名称 cudaLaunchKernel, 3 us") == []
    assert english("GPU 空等 while the host runs its own code") == ["while the host runs its own code"]
    assert english(inspect.getdoc(english) or "")
