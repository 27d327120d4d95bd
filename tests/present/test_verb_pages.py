"""Pages of the verbs that ask one question: the answer in a sentence, then pictures and tables of the same numbers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.command import ROOT, gpuledger
from support.pages.html_pages import parsed
from support.profiles.opened import plain

LAYER = ROOT / "captures" / "ncu" / "layer_raw.csv.xz"
SAMPLED = ROOT / "captures" / "nsys" / "metrics_llama.sqlite.xz"


@pytest.mark.parametrize("verb", ["gaps", "steps", "memory", "ranges", "ops", "kernels"])
def test_a_page_begins_with_the_answer_and_has_the_tables_of_the_text(verb: str, decode: Path, tmp_path: Path) -> None:
    ran = gpuledger(verb, decode, "-o", tmp_path / "page.html")
    assert ran.exit_code == 0, ran.stderr
    page = parsed((tmp_path / "page.html").read_text())
    text = gpuledger(verb, decode, COLUMNS="2000").stdout
    answer = " ".join(text.partition("\n\n")[0].split())
    [verdict] = [element for element in page.walk() if "verdict" in element.attrs.get("class", "").split()]
    assert verdict.text.strip() == answer
    titles = re.findall(r"^(.+) \([a-z_]+\)$", text, re.MULTILINE)
    headings = [heading.text.strip() for heading in page.all("h2")]
    assert titles
    assert [title for title in titles if title not in headings] == []


def test_launches_of_nsight_compute_stand_under_their_roofs(tmp_path: Path) -> None:
    ran = gpuledger("kernels", plain(LAYER), "-o", tmp_path / "page.html")
    assert ran.exit_code == 0, ran.stderr
    page = parsed((tmp_path / "page.html").read_text())
    roofline = page.one("roofline-chart")
    assert len(roofline.all("circle")) > 5
    assert "vectorized_layer_norm_kernel" in roofline.text
    said = " ".join(gpuledger("kernels", plain(LAYER)).stdout.split())
    [verdict] = [element for element in page.walk() if "verdict" in element.attrs.get("class", "").split()]
    assert verdict.text.strip() in said


def test_sampled_kernels_stand_under_their_roofs(tmp_path: Path) -> None:
    ran = gpuledger("kernels", plain(SAMPLED), "-o", tmp_path / "page.html", "--lang=zh")
    assert ran.exit_code == 0, ran.stderr
    page = parsed((tmp_path / "page.html").read_text())
    assert len(page.one("sampled-roofline-chart").all("circle")) > 10


def test_a_table_without_rows_says_why_in_every_format(decode: Path, tmp_path: Path) -> None:
    for name in ("ops.txt", "ops.md", "ops.html"):
        assert gpuledger("ops", decode, "-o", tmp_path / name).exit_code == 0
        text = (tmp_path / name).read_text()
        assert text.count("no operators were recorded") >= 3, name
        assert "No data" not in text
