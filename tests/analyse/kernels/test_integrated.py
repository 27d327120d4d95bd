"""Nsight Compute and the timeline in one report: a plan that was run on an H200, and a layer that is in no step."""

from __future__ import annotations

import csv
import io
import json
import lzma
import os
import shlex
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from gpuledger.present.safe_text import display_width
from support.command import ROOT, gpuledger
from support.pages.schemas import schema_of

pytestmark = pytest.mark.usefixtures("ncu_asked_once", "profiles_read_once")

GOLDEN = Path(__file__).parents[2] / "golden"


BOTH = ("--ncu=planned-1.ncu-rep", "--ncu=planned-2.ncu-rep")


@pytest.fixture(scope="session")
def told(planned: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        gpuledger("report", "planned.sqlite", *BOTH, "--format=json", cwd=planned).stdout
    )
    return found


def test_what_was_planned_covers_nearly_all_of_the_gpus_time(told: dict[str, Any]) -> None:
    schema_of("report").validate(told)
    (kernels,) = told["kernels"]
    assert kernels["coverage_share"] > 0.95
    assert kernels["layers"] == 8
    assert sum(kernels["levels"].values()) == pytest.approx(1)


def test_a_kernel_near_the_memorys_roof_is_near_light(planned: Path) -> None:
    """ncu's own sets count reads and writes of DRAM in one; the sum of roofs by hand is 0.54 of compute."""
    said = gpuledger("report", "planned.sqlite", *BOTH, cwd=planned, COLUMNS="200").stdout
    assert "Of compute, 53.8 % is light" in said


def test_the_times_are_the_timelines(told: dict[str, Any]) -> None:
    (kernels,) = told["kernels"]
    (device,) = told["devices"]
    steps = told["steps"]["count"] - told["steps"]["warm_up"]
    compute = sum(line["ns"] for line in device["ledger"] if line["line"].startswith("compute"))
    listed = sum(each["time_ns"] for each in kernels["kernels"])
    assert 0 < listed < compute  # the rest is prefill and warm-up
    each = told["kernels"][0]["kernels"][0]
    assert each["per_step_ns"] == each["time_ns"] // steps


def test_gemms_of_one_name_and_shape_are_told_apart_by_their_place(told: dict[str, Any]) -> None:
    norms = [each for each in told["kernels"][0]["kernels"] if "layer_norm" in each["name"]]
    assert [each["range"][-1] for each in norms[:2]] == ["attention", "mlp"]
    assert {each["match"] for each in norms[:2]} == {"range"}


def test_large_gemms_of_decode_are_at_the_memory_roof(told: dict[str, Any]) -> None:
    longest = max(told["kernels"][0]["kernels"], key=lambda each: each["time_ns"])
    assert (longest["bound"], longest["limiter"], longest["severity"]) == ("memory", "DRAM", "none")
    assert longest["roof_share"] > 0.85


def test_slow_kernels_are_findings_and_a_host_that_is_behind_hides_them(told: dict[str, Any]) -> None:
    assert told["findings"][0]["code"] == "LAUNCH-BOUND"
    slow = [each for each in told["findings"] if each["code"] == "KERNEL-HEADROOM"]
    assert len(slow) >= 1
    by_name = {each["saving_ns"] for each in told["kernels"][0]["kernels"]}
    for each in slow:
        assert each["saving_ns"] in by_name
        assert each["saving_low_ns_per_step"] == 0  # the step takes as long as the host does
        assert each["saving_ns"] < told["findings"][0]["saving_ns"]


def test_the_plan_of_that_timeline_is_what_was_run(planned: Path) -> None:
    plan = json.loads(gpuledger("kernels", "planned.sqlite", "--set=verdict", "--format=json", cwd=planned).stdout)
    assert len(plan["commands"]) == 2
    assert plan["coverage_share"] > 0.95
    assert all(shlex.join(command).startswith("ncu --section=SpeedOfLight") for command in plan["commands"])


@pytest.mark.parametrize("style", ["txt", "md"])
def test_the_integrated_report_of_decode_and_layer_reads_as_it_did(
    style: str, unpacked: Callable[[str], Path], layer_report: Path
) -> None:
    formatted = "--format=text" if style == "txt" else "--format=md"
    decode = unpacked("decode.sqlite")
    shown = gpuledger("report", decode, f"--ncu={layer_report}", formatted, COLUMNS="80").stdout
    check(shown, GOLDEN / f"decode_layer.en.{style}")


def test_the_integrated_report_of_a_plan_reads_as_it_did(planned: Path) -> None:
    shown = gpuledger("report", "planned.sqlite", *BOTH, cwd=planned, COLUMNS="80").stdout
    check(shown, GOLDEN / "planned.en.txt")


def test_the_kernels_of_the_layer_read_as_they_did(layer_report: Path) -> None:
    shown = gpuledger("kernels", layer_report.name, cwd=layer_report.parent, COLUMNS="80").stdout
    check(shown, GOLDEN / "layer.en.txt")


def check(shown: str, expected: Path) -> None:
    if os.environ.get("UPDATE_GOLDEN"):
        expected.write_text(shown)
    assert shown == expected.read_text()
    if expected.suffix == ".txt":
        names = [line for line in shown.splitlines() if display_width(line) > 80]
        assert all(" " not in line.strip() for line in names)  # a name that cannot be broken
    else:
        html = MarkdownIt("commonmark").enable("table").render(shown)
        assert html.count("<table>") >= 3
        assert "**" not in html


@pytest.mark.parametrize("form", ["text", "md", "csv", "json"])
def test_every_format_of_kernels(form: str, layer_report: Path) -> None:
    ran = gpuledger("kernels", layer_report, f"--format={form}")
    assert (ran.exit_code, ran.stderr) == (0, "")
    if form == "json":
        document = json.loads(ran.stdout)
        schema_of("ncukernels").validate(document)
        assert len(document["launches"]) == 13
        gemm = document["launches"][8]
        assert gemm["dram_bytes_per_s"] == pytest.approx(1.66e12, rel=0.01)
        assert document["roofs"][0]["memory"]["DRAM"]["per_s"] == pytest.approx(4.8e12, rel=0.01)
    if form == "csv":
        rows = list(csv.DictReader(io.StringIO(ran.stdout)))
        assert len(rows) == 10
        (norm,) = [row for row in rows if "layer_norm" in row["name"]]
        assert (norm["launches"], norm["severity"], norm["limiter"]) == ("2", "medium", "too few blocks")
        assert float(norm["time_ns"]) == pytest.approx(17_400, rel=0.01)
        least, mean, most = (float(norm[f"l2_hit_share.{part}"]) for part in ("least", "mean", "most"))
        assert 0.54 < least <= mean <= most < 0.56
        words = ("name", "grid", "block", "bound", "limiter", "severity")
        assert all(value == "" or float(value) >= 0 for row in rows for key, value in row.items() if key not in words)


def test_the_pages_of_a_report_give_the_same_verdicts(layer_report: Path, tmp_path: Path) -> None:
    """What ncu prints has fewer digits and, on the details page, fewer figures; the verdicts are the same."""
    bounds = []
    for name in ("layer_raw.csv", "layer_details.csv"):
        path = tmp_path / name
        path.write_bytes(lzma.decompress((ROOT / "captures" / "ncu" / f"{name}.xz").read_bytes()))
        found = json.loads(gpuledger("kernels", path, "--format=json").stdout)
        bounds.append([each["bound"] for each in found["launches"]])
    whole = json.loads(gpuledger("kernels", layer_report, "--format=json").stdout)
    assert bounds == [[each["bound"] for each in whole["launches"]]] * 2


def test_a_report_that_is_none_is_refused_before_anything_is_printed(decode: Path, tmp_path: Path) -> None:
    path = tmp_path / "no.ncu-rep"
    path.write_bytes(b"NVR\0 and nothing else")
    for arguments in (("kernels", path), ("report", decode, f"--ncu={path}")):
        ran = gpuledger(*arguments)
        assert (ran.exit_code, ran.stdout) == (1, "")
        assert ran.stderr.startswith("error: no.ncu-rep: ")


def test_half_a_report_is_told_in_the_text(layer_report: Path, tmp_path: Path) -> None:
    half = tmp_path / "half.ncu-rep"
    whole = layer_report.read_bytes()
    half.write_bytes(whole[: len(whole) // 2])
    ran = gpuledger("kernels", half)
    assert ran.exit_code == 0
    assert "Note: half.ncu-rep: the report is truncated: 6 of its launches can be read, the rest is lost" in ran.stdout


def test_one_layer_is_a_matter_of_its_range(planned: Path, told: dict[str, Any]) -> None:
    ran = gpuledger("report", "planned.sqlite", *BOTH, "--range=^layer3$", "--format=json", cwd=planned)
    (layer,) = json.loads(ran.stdout)["kernels"]
    (whole,) = told["kernels"]
    inside = {(each["name"], tuple(each["grid"])): 0 for each in whole["kernels"] if each["in_layer"]}
    assert {(each["name"], tuple(each["grid"])) for each in layer["kernels"]} == set(inside)
    assert {tuple(each["range"][:-1]) for each in layer["kernels"]} == {("bench:measure", "bench:decode", "layer#")}
    time = sum(each["time_ns"] for each in layer["kernels"])
    all_layers = sum(each["time_ns"] for each in whole["kernels"] if each["in_layer"])
    assert time == pytest.approx(all_layers / 8, rel=0.02)
    assert layer["coverage_share"] > 0.95


def test_a_timeline_alone_lists_the_kernels_of_a_layer(planned: Path) -> None:
    ran = gpuledger("kernels", "planned.sqlite", "--range=^layer3$", "--format=json", cwd=planned)
    document = json.loads(ran.stdout)
    schema_of("kernels").validate(document)
    rows = document["kernels"]
    assert any("layer_norm" in row["name"] for row in rows)
    assert all(row["launches"] % 20 == 0 for row in rows)
    assert sum(row["share"] for row in rows) == pytest.approx(1, abs=1e-4)


def test_what_is_listed_without_nsight_compute_is_what_is_listed_with_it(planned: Path, told: dict[str, Any]) -> None:
    alone = json.loads(gpuledger("kernels", "planned.sqlite", "--format=json", cwd=planned).stdout)["kernels"]
    joined = Counter[str]()
    for kernel in told["kernels"][0]["kernels"]:
        joined[kernel["name"]] += kernel["time_ns"]
    assert {row["name"]: row["time_ns"] for row in alone} == joined


def test_a_profile_among_reports_is_refused(planned: Path) -> None:
    ran = gpuledger("kernels", "planned-1.ncu-rep", "planned.sqlite", cwd=planned)
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert ran.stderr.startswith("error: planned.sqlite: not a report of Nsight Compute")
