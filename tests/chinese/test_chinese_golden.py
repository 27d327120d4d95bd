"""Whole reports in Chinese, as a user sees them at 80 columns.

`UPDATE_GOLDEN=1 pytest tests/chinese/test_chinese_golden.py` writes them anew.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from support.command import ROOT, gpuledger

pytestmark = pytest.mark.usefixtures("ncu_asked_once", "profiles_read_once")

GOLDEN = ROOT / "tests" / "golden"
FORMATS = {"txt": "--format=text", "md": "--format=md"}


def check(expected: str, folder: Path, *arguments: str | Path) -> None:
    shown = gpuledger(*arguments, "--lang=zh", cwd=folder, COLUMNS="80").stdout
    if os.environ.get("UPDATE_GOLDEN"):
        (GOLDEN / expected).write_text(shown)
    assert shown == (GOLDEN / expected).read_text()


@pytest.mark.parametrize("style", FORMATS)
@pytest.mark.parametrize("name", ["decode", "two_gloo", "zoo_graph"])
def test_the_report_reads_as_it_did(name: str, style: str, unpacked: Callable[[str], Path]) -> None:
    profile = unpacked(f"{name}.sqlite")
    check(f"{name}.zh.{style}", profile.parent, "report", profile, FORMATS[style])


@pytest.mark.parametrize("style", FORMATS)
def test_the_integrated_report_of_decode_and_layer_reads_as_it_did(
    style: str, unpacked: Callable[[str], Path], layer_report: Path
) -> None:
    profile = unpacked("decode.sqlite")
    check(f"decode_layer.zh.{style}", profile.parent, "report", profile, f"--ncu={layer_report}", FORMATS[style])


def test_the_integrated_report_of_a_plan_reads_as_it_did(planned: Path) -> None:
    both = ("--ncu=planned-1.ncu-rep", "--ncu=planned-2.ncu-rep")
    check("planned.zh.txt", planned, "report", "planned.sqlite", *both)


def test_the_kernels_of_the_layer_read_as_they_did(layer_report: Path) -> None:
    check("layer.zh.txt", layer_report.parent, "kernels", layer_report.name)
