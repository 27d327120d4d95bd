"""What verbs print in Chinese, and pages that they write, have no English sentence and no English heading."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuledger.catalog.range_names import PHASES
from gpuledger.present.views.runs.bench import bench_document
from gpuledger.present.writers import write
from support.command import gpuledger
from support.pages.chinese_text import CHINESE_CASES, CJK, chinese_arguments, english
from support.pages.html_pages import parsed
from support.profiles.memory_snapshots import unpacked_snapshots

pytestmark = pytest.mark.usefixtures("profiles_read_once")


@pytest.mark.parametrize("verb", CHINESE_CASES)
def test_a_verb_speaks_chinese(verb: str, unpacked: Callable[[str], Path]) -> None:
    arguments = chinese_arguments(CHINESE_CASES[verb], unpacked)
    shown = gpuledger(verb, *arguments, "--lang=zh", "--no-cache", COLUMNS="80").stdout
    assert english(shown) == []
    headings = [
        above for above, rule in zip(shown.splitlines(), shown.splitlines()[1:], strict=False) if "--  -" in rule
    ]
    assert [line for line in headings if re.search("[A-Z][a-z]{2,} ", line)] == []


@pytest.mark.parametrize("name", ["leak", "oom_fragmented", "churn", "late"])
def test_a_snapshot_speaks_chinese(name: str, tmp_path: Path) -> None:
    [path] = unpacked_snapshots(tmp_path, [f"{name}.pickle"])
    shown = gpuledger("memory", path, "--lang=zh", COLUMNS="80").stdout
    assert english(shown.replace("gpuledger explain", "")) == []


PAGES = ("align", "diff", "fleet", "ranges", "report", "whatif")


@pytest.mark.parametrize("verb", PAGES)
def test_a_page_speaks_chinese(verb: str, unpacked: Callable[[str], Path], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    ran = gpuledger(verb, *chinese_arguments(CHINESE_CASES[verb], unpacked), "--lang=zh", "--no-cache", "-o", page)
    assert ran.exit_code == 0
    body = re.sub(r"(?s)<(script|style|code)\b.*?</\1>", "", page.read_text().partition("<body")[2])
    assert english(re.sub(r"<[^>]+>", "\n", body)) == []


def test_headings_of_a_page_are_chinese(unpacked: Callable[[str], Path], tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    gpuledger("report", unpacked("moe_loop.sqlite"), "--lang=zh", "-o", target)
    page = parsed(target.read_text())
    for heading in page.all("h2", "caption", "dt", "button"):
        assert CJK.search(heading.attrs.get("aria-label", heading.text)), heading.text
    names = {"P10", "P90", "GPU", "", *PHASES}
    assert all(CJK.search(head.text) or head.text in names for table in page.all("thead") for head in table.all("th"))


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
