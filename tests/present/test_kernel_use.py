"""GPU utilization as people and programs see it: the keys that others build on, and an answer before the table."""

from __future__ import annotations

import csv
import io
import json
import lzma
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuledger import build_report
from gpuledger.analyse.utilization.against_counters import agreement, held_against
from gpuledger.analyse.utilization.kernel_use import use_of_kernels
from gpuledger.answers.report import ReportAnswer
from gpuledger.catalog.gpu_metrics import OF_KERNELS, GpuMetric
from gpuledger.present.views.page.report_page import report_pictures
from gpuledger.read import open_trace
from gpuledger.read.ncu.reader import open_kernels
from gpuledger.trace.model import NotMeasured
from gpuledger.trace.tables import Table
from support.command import ROOT, gpuledger
from support.pages.schemas import schema_of

pytestmark = pytest.mark.usefixtures("profiles_read_once")

SCHEMA = schema_of("kernels")


@pytest.fixture(scope="module")
def llama(unpacked: Callable[[str], Path]) -> Path:
    """Ten forward passes of a Llama of four layers on an H200, sampled every 50 us."""
    return unpacked("metrics_llama.sqlite")


def test_programs_get_every_kernel_with_its_intervals(llama: Path) -> None:
    content = json.loads(gpuledger("kernels", llama, "--format=json").stdout)
    SCHEMA.validate(content)
    first = content["use"][0]
    assert (first["name"], first["launches"]) == ("nvjet_sm90_tst_320x128_64x3_1x2_h_bz_coopB_TNT", 80)
    assert all(first[counter] for counter in ("sm_active", "sm_issue", "tensor", "warps", "dram_read", "dram_write"))
    assert first["limited_by"] == "registers"
    assert 0 < first["occupancy"] <= first["occupancy_limit"] == 0.1875
    tensor = first["tensor"]
    assert 0.85 < tensor["share"] < 0.90
    assert tensor["low"] < tensor["share"] < tensor["high"]
    window, _, kernels = content["gpu_use"]
    assert window["sm_active"] < kernels["sm_active"]
    assert content["sampling"][0]["highest_hz"] == 1_980_000_000
    by_name = content["kernels"]
    assert len({row["name"] for row in by_name}) == len(by_name) < len(content["use"])
    assert [row["time_ns"] for row in by_name] == sorted((row["time_ns"] for row in by_name), reverse=True)
    printed = gpuledger("kernels", llama, "--format=csv").stdout.split("\n\n")
    [rows] = [list(csv.DictReader(io.StringIO(table))) for table in printed if "tensor.low" in table]
    assert [int(row["time_ns"]) for row in rows] == [kernel["time_ns"] for kernel in content["use"]]
    assert float(rows[0]["tensor.low"]) == tensor["low"]


def test_people_get_the_answer_first(llama: Path) -> None:
    lines = gpuledger("kernels", llama, COLUMNS="80").stdout.splitlines()
    assert lines[0].startswith("GPU 0, percent of peak while kernels ran: SMs active 9")
    assert any(line.startswith("The clock stayed below its maximum: 1,7") for line in lines)
    assert any("nvjet" in line and " 87 %" in line for line in lines)
    assert max(map(len, lines)) <= 80


def test_a_report_says_how_compute_uses_the_gpu(llama: Path) -> None:
    text = gpuledger("report", llama, COLUMNS="80").stdout
    lines = text.splitlines()
    at = lines.index("GPU utilization during compute, per step")
    assert re.match(r"\d\d\.\d % of compute time is at a roof \(compute \d\d\.\d %, memory ", lines[at + 2])
    assert max(map(len, lines)) <= 80
    assert re.search(r"nvjet\S+ +[\d.]+ .s +[\d.]+ % +compute +9\d % +87 %", text)


def test_a_page_draws_kernels_from_samples_under_their_roofs(llama: Path) -> None:
    report = build_report(open_trace(llama, only=tuple(Table)))
    assert "-sampled-roofline.png" in [named.ending for named in report_pictures(ReportAnswer(report), "en")]
    page = report.to_html()
    assert "Kernels in depth (samples)" in page
    assert "sampled-roofline-chart" in page
    assert "GPU utilization during compute" in page


def test_programs_get_the_split_of_each_line(llama: Path) -> None:
    content = json.loads(gpuledger("report", llama, "--format=json").stdout)
    schema_of("report").validate(content)
    [device] = content["devices"]
    for ledger in (device["ledger"], device["steady"]["ledger"]):
        for line in ledger:
            assert (line["use_ns"] is not None) == line["line"].startswith("compute.")
            assert sum((line["use_ns"] or {"": line["ns"]}).values()) == line["ns"]
    [gemm] = [line for line in device["steady"]["ledger"] if line["line"] == "compute.gemm"]
    assert gemm["use_ns"]["compute_roof"] > 0.9 * gemm["ns"]
    assert device["use"]["kernels"][0]["bound"] == "compute_roof"
    assert 1_500 < device["use"]["steps"][3]["clock_mhz"] < 2_000


def test_steps_have_their_means(llama: Path) -> None:
    content = json.loads(gpuledger("steps", llama, "--format=json").stdout)
    assert [row["end_ns"] for row in content["use"]] == [row["end_ns"] for row in content["steps"]]
    assert all(1_500 < row["clock_mhz"] < 1_981 and 0 <= row["pcie_in"] < 0.05 for row in content["use"])


def test_without_samples_there_is_no_number(unpacked: Callable[[str], Path]) -> None:
    content = json.loads(gpuledger("kernels", unpacked("attn.sqlite"), "--format=json").stdout)
    SCHEMA.validate(content)
    assert content["use"] == []
    assert content["not_sampled"] == [{"gpu": 0, "reason": "no metrics were recorded (looked for GPU_METRICS)"}]


def test_samples_agree_with_nsight_compute(llama: Path, tmp_path: Path) -> None:
    answer = tmp_path / "counted.csv"
    answer.write_bytes(lzma.decompress((ROOT / "captures" / "ncu" / "metrics_llama.csv.xz").read_bytes()))
    check_agreement(llama, answer, kernels=37)  # of the two that print alike without namespaces neither


def test_people_see_samples_beside_nsight_compute(llama: Path, tmp_path: Path) -> None:
    answer = tmp_path / "counted.csv"
    answer.write_bytes(lzma.decompress((ROOT / "captures" / "ncu" / "metrics_llama.csv.xz").read_bytes()))
    text = gpuledger("kernels", llama, f"--ncu={answer}", COLUMNS="80").stdout
    assert "For the 37 kernels in both (by name, grid and block)" in text
    assert re.search(r"\nTensor +37 +0\.\d % +\d+\.\d %", text)
    assert re.search(r"\nnvjet\S+ +Tensor +87 % +87\.\d % +yes", text)
    content = json.loads(gpuledger("kernels", llama, f"--ncu={answer}", "--format=json").stdout)
    SCHEMA.validate(content)
    agreed = {row["counter"]: row for row in content["agreement"]}
    assert agreed["tensor"]["kernels"] == 37
    assert all(
        row["is_held"] == (row["sampled"]["low"] - 1e-4 <= row["counted"] <= row["sampled"]["high"] + 1e-4)
        for row in content["compared"]
    )
    report = json.loads(gpuledger("report", llama, f"--ncu={answer}", "--format=json").stdout)
    assert {row["counter"] for row in report["devices"][0]["use"]["agreement"]} == agreed.keys()


def test_counters_are_held_against_a_timeline_only(tmp_path: Path) -> None:
    counted = tmp_path / "counted.csv"
    counted.write_text("\n")
    refused = gpuledger("kernels", counted, f"--ncu={counted}")
    assert refused.exit_code == 2
    assert "go with one timeline" in refused.stderr


@pytest.mark.parametrize(("program", "kernels"), [("elementwise", 37), ("resnet_nchw", 72), ("training", 78)])
def test_samples_of_a_tenth_of_a_second_agree_with_nsight_compute(
    program: str, kernels: int, unpacked: Callable[[str], Path]
) -> None:
    """A GPU that is never idle, convolutions with layout changes, and a training step of hundreds of short kernels."""
    folder = unpacked("use.tar")
    check_agreement(folder / f"{program}.sqlite", folder / f"{program}.csv", kernels)


def check_agreement(profile: Path, answer: Path, kernels: int) -> None:
    """As docs/concepts/use.md says of all programs; issue slots and warps are not promised."""
    use = use_of_kernels(open_trace(profile, only=tuple(Table)), 0)
    assert not isinstance(use, NotMeasured)
    assert use.lag_ns == pytest.approx(50_000, abs=100)
    held = held_against(use, open_kernels([answer]))
    for metric in OF_KERNELS:
        found = agreement(held, metric)
        assert found is not None
        assert found.kernels == kernels
        assert found.mean_error < (4 if metric is GpuMetric.SM_ACTIVE else 3)
        assert found.held_share >= 0.9
        assert found.short_held_share is not None
        assert found.short_held_share >= 0.88
        assert found.near_share is not None
        assert found.near_share >= (0.75 if metric in (GpuMetric.SM_ISSUE, GpuMetric.WARPS) else 0.89)
