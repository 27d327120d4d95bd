"""The report has no English word in Chinese but names, units and terms of the field."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from gpuledger.catalog.kernel_families import FAMILIES
from gpuledger.catalog.range_names import PHASES
from gpuledger.messages import translated
from gpuledger.read import open_trace
from gpuledger.selection import Selection
from gpuledger.verbs.report import build_report
from support.command import NAMES, ROOT, gpuledger
from support.pages.chinese_text import CJK
from support.thorough import some

chinese = partial(translated, language="zh")

TORCH = ROOT / "captures" / "torch"


TERMS = {
    *(
        "GPU",
        "MFU",
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
    *PHASES,
}
"""What Chinese engineers leave in English, units, and the families and phases, which are names."""


_QUOTED = re.compile(
    r"`[^`]*`|--[\w-]+|下一步：.*|位于 .*|介于 .*|(?<= )在 \S.*? (?:之前|之后|中)$|(?<=[ ，])在 \S.*$|主要在 .*"
    r"|[\w/]+\.py:\d+.*|[A-Z]+(?:-[A-Z]+)+|\b(?:CAST|PRECISION|LAYOUT)\b|\bcu(?:da)?[A-Z]\w+|其中有 .*|按区间\s*'[^']*'"
)
"""Commands, options, codes, and what stands where a sentence gives a name: ranges, kernels, calls, functions, lines."""


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


@pytest.mark.parametrize("name", some(REPORTED, 3, first=2))
def test_a_report_is_chinese_throughout(name: str, unpacked: Callable[[str], Path]) -> None:
    for path in profiles(unpacked, name):
        trace = open_trace(path)
        made = build_report(trace, path.name, Selection())
        assert foreign(made.to_text(language="zh")) == set(), path.name
        assert foreign(made.to_markdown(language="zh")) == set(), path.name
        assert len(foreign(made.to_text())) > 10  # the check sees English where it is
        for found in made.findings:
            assert all(map(CJK.search, map(chinese, (found.claim, found.confidence, found.assumption or "。"))))


def test_what_was_lost_is_told_in_chinese(tmp_path: Path) -> None:
    whole = (TORCH / "decode.json.gz").read_bytes()
    cut = tmp_path / "cut.json.gz"
    cut.write_bytes(whole[: len(whole) * 3 // 4])
    shown = gpuledger("report", cut, "--lang=zh").stdout
    assert "注意：最后一个事件中途断开：trace 不完整，缺少结尾。\n" in shown
