"""Light where it is asked for: `whatif`, `ops`, `kernels`, SQL, `diff`, the page; of programs recorded with shapes."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from gpuledger import open_trace
from gpuledger.agents.profiles import AgentProfiles, AllowedFolders
from gpuledger.agents.report_tools import report
from gpuledger.analyse.diff.compare import COMPUTE_PARTS
from gpuledger.analyse.light.operator_roofline import operator_roofline
from gpuledger.analyse.light.steady_kernels import SteadyKernels, all_steady
from gpuledger.ledger.device import analyse_devices
from gpuledger.limits import DEFAULT_LIMITS
from gpuledger.selection import Selection
from gpuledger.sql.answer import ask
from support.command import ROOT, gpuledger

PROGRAMS = ("odd_head.bad", "tuned_attention.tuned", "tuned_fp8.tuned")
"""A product of odd sizes that is far from its roof, and two that are near theirs."""


@pytest.fixture(scope="module")
def light(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("light")
    with tarfile.open(ROOT / "captures" / "torch" / "light.tar.xz") as archive:
        for program in PROGRAMS:
            archive.extract(f"light/{program}.json", folder, filter="data")
    return folder / "light"


@pytest.fixture(scope="module")
def odd_head(light: Path) -> Path:
    return light / "odd_head.bad.json"


@pytest.fixture(scope="module")
def without_shapes(odd_head: Path) -> Path:
    path = odd_head.with_name("without_shapes.json")
    recorded = json.loads(odd_head.read_text())
    for event in recorded["traceEvents"]:
        for key in [key for key in event.get("args", ()) if key.startswith(("Input", "Concrete"))]:
            del event["args"][key]
    path.write_text(json.dumps(recorded))
    return path


def altered(path: Path, name: str, *, pace: float = 1.0, rows: int = 8192) -> Path:
    """The same program with products that take another time, or another number of rows."""
    recorded = json.loads(path.read_text())
    for event in recorded["traceEvents"]:
        if event.get("cat") == "kernel" and "gemm" in event["name"]:
            event["dur"] *= pace
        if "Input Dims" in event.get("args", {}):
            dims = json.dumps(event["args"]["Input Dims"]).replace("8192", str(rows))
            event["args"]["Input Dims"] = json.loads(dims)
    changed = path.with_name(name)
    changed.write_text(json.dumps(recorded))
    return changed


def steady(path: Path) -> SteadyKernels:
    trace = open_trace(path, cache=False)
    [device] = analyse_devices(trace, path.name, Selection())
    return all_steady(trace, device)


def tables(verb: str, *arguments: str | Path) -> dict[str, Any]:
    ran = gpuledger(verb, *arguments, "--format=json")
    assert ran.exit_code == 0, ran.stderr
    told: dict[str, Any] = json.loads(ran.stdout)
    return {table["table"]: table["rows"] for table in told["tables"]} if "tables" in told else told


# what if kernels were at their roofs


def test_at_its_light_a_family_saves_what_it_lost_and_at_a_reachable_rate_less(odd_head: Path) -> None:
    at_light, reached = tables("whatif", odd_head, "--light=gemm", "--reachable=gemm")["changes"]
    assert at_light["change"] == "gemm at its light"
    assert (at_light["is_bound"], reached["is_bound"]) == (True, False)
    assert 0 < reached["saving_ns"] < at_light["saving_ns"] < at_light["now_ns"]
    assert reached["limit"] == pytest.approx(at_light["speed_up"])
    assert reached["saving_ns"] == pytest.approx(
        12.86e6, rel=0.25
    )  # what padding the head saved, see test_light_recorded


def test_an_operator_a_family_and_a_kernel_can_be_meant(odd_head: Path) -> None:
    kernel = tables("kernels", odd_head)["kernels"][0]["name"]
    names = ("operator:aten::mm", "aten::mm", f"kernel:{kernel}", "compute")
    operator, same, longest, all_of_them = tables("whatif", odd_head, *(f"--light={name}" for name in names))["changes"]
    assert operator["saving_ns"] == same["saving_ns"] > 0
    assert 0 < longest["saving_ns"] <= all_of_them["saving_ns"]
    assert same["saving_ns"] <= all_of_them["saving_ns"]


def test_a_tuned_program_has_little_to_reach(light: Path) -> None:
    [reached] = tables("whatif", light / "tuned_fp8.tuned.json", "--reachable=compute")["changes"]
    assert 0 <= reached["saving_share"] < 0.1


def test_of_a_name_that_is_not_there_the_answer_lists_what_could_be_asked(odd_head: Path) -> None:
    ran = gpuledger("whatif", odd_head, "--light=gem", "--light=idle")
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert "has no kernel, family, operator or range 'gem'" in ran.stderr
    assert "families with a known light: " in ran.stderr
    assert "operators: aten::mm" in ran.stderr
    assert "names that come near: gemm" in ran.stderr
    assert "'idle' is idle time, which has no light" in ran.stderr


def test_without_shapes_a_product_has_no_light_to_be_put_at(without_shapes: Path) -> None:
    ran = gpuledger("whatif", without_shapes, "--light=gemm")
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert "what 'gemm' would take at the GPU's roofs is not known" in ran.stderr
    assert "record_shapes=True" in ran.stderr


# columns of operators and of kernels


def operator(profile: Path, name: str) -> dict[str, Any]:
    rows = json.loads(gpuledger("ops", profile, "--format=json").stdout)["operators"]
    return next(row for row in rows if row["name"] == name)


def test_operators_and_kernels_have_their_light_and_what_they_took_beyond(odd_head: Path) -> None:
    multiply = operator(odd_head, "aten::mm")
    kernel, *_ = tables("kernels", odd_head)["kernels"]
    assert multiply["light_source"] == kernel["light_source"] == "shapes"
    assert multiply["light_share"] == pytest.approx(0.14, abs=0.001)  # 2 x 8,192 x 4,096 x 32,001 at 989 TFLOP/s
    assert kernel["light_share"] == pytest.approx(multiply["light_share"], abs=0.001)
    lost = kernel["time_ns"] * (1 - kernel["light_share"])
    assert kernel["beyond_light_ns"] == pytest.approx(lost, rel=1e-3)
    assert multiply["beyond_light_ns"] == pytest.approx(lost, rel=1e-3)


def test_what_is_not_known_has_no_figure(without_shapes: Path) -> None:
    multiply, *_ = tables("kernels", without_shapes)["kernels"]
    assert (multiply["light_share"], multiply["beyond_light_ns"], multiply["light_source"]) == (None, None, None)
    added = operator(without_shapes, "aten::add")
    assert added["light_source"] == "launch sizes"


# in SQL, and for agents


def test_light_in_sql_sums_to_what_kernels_took(odd_head: Path) -> None:
    trace = open_trace(odd_head, cache=False)
    query = "SELECT operator, ns, light_ns, low_ns, high_ns, source, roof FROM light ORDER BY ns DESC"
    rows: Any = ask(trace, None, query).rows
    took = ask(trace, None, "SELECT sum(duration_ns) FROM kernels WHERE is_steady").rows[0][0]
    assert sum(row[1] for row in rows) == took
    assert all(low <= light <= high <= ns for _, ns, light, low, high, _, _ in rows)
    operator, ns, light_ns, *_, source, roof = rows[0]
    assert (operator, source, roof) == ("aten::mm", "shapes", "compute")
    assert light_ns / ns == pytest.approx(0.14, abs=0.001)


def test_what_has_no_light_is_null_in_sql(without_shapes: Path) -> None:
    trace = open_trace(without_shapes, cache=False)
    unknown = ask(trace, None, "SELECT operator, light_ns, low_ns, high_ns, roof FROM light WHERE source = 'unknown'")
    assert set(unknown.rows) == {(None, None, None, None, "unknown")}


def test_light_is_made_only_where_a_query_names_it(odd_head: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []

    def rows(*given: object) -> tuple[()]:
        made.append(given)
        return ()

    monkeypatch.setattr("gpuledger.sql.booked.light_rows", rows)
    trace = open_trace(odd_head, cache=False)
    ask(trace, None, "SELECT * FROM kernels, gpus")
    assert made == []
    ask(trace, None, "SELECT * FROM light")
    assert len(made) == 1


def test_agents_are_told_the_busy_books_and_a_few_kernels(odd_head: Path) -> None:
    profiles = AgentProfiles(AllowedFolders([odd_head.parent]), DEFAULT_LIMITS)
    opened = profiles.opened(str(odd_head), Selection())
    [device] = report(profiles, opened.handle).content["devices"]
    compute_ns = sum(line["ns"] for line in device["steady"]["ledger"] if line["line"].startswith("compute"))
    assert sum(device["steady"]["busy"].values()) == compute_ns
    assert [row["operator"] for row in device["steady"]["light"]] == ["aten::mm", "aten::argmax", "aten::add"]
    assert device["steady"]["more_light"] == 0


# what changed: work or pace


def compared(*arguments: str | Path) -> dict[str, Any]:
    ran = gpuledger("diff", *arguments, "--format=json")
    assert ran.exit_code == 0, ran.stderr
    told: dict[str, Any] = json.loads(ran.stdout)
    return told


@pytest.mark.parametrize(("rows", "of_light"), [(8192, 0.0), (4096, 0.5)])
def test_a_change_in_pace_is_told_apart_from_one_in_work(odd_head: Path, rows: int, of_light: float) -> None:
    after = altered(odd_head, f"quick{rows}.json", pace=0.5, rows=rows)
    told = compared(odd_head, after)
    light, lost, avoidable, unknown = told["busy"]
    of_compute = [part["ns"] for part in told["parts"] if part["part"] in COMPUTE_PARTS]
    assert sum(part["delta_ns"] for part in told["busy"]) == sum(of_compute)
    assert light["delta_ns"] == pytest.approx(-of_light * light["before_ns"], rel=1e-3)
    assert lost["delta_ns"] < 0
    assert (avoidable["delta_ns"], unknown["delta_ns"]) == (0, 0)
    assert "Work or pace" in gpuledger("diff", odd_head, after).stdout


def test_a_baseline_keeps_the_busy_books(odd_head: Path, tmp_path: Path) -> None:
    saved, after = tmp_path / "base.json", altered(odd_head, "quick.json", pace=0.5)
    assert gpuledger("diff", f"--save-baseline={saved}", odd_head).exit_code == 0
    assert compared(saved, after)["busy"] == compared(odd_head, after)["busy"]
    wrong = json.loads(saved.read_text())
    wrong["busy_ns"][0] += 1
    saved.write_text(json.dumps(wrong))
    refused = gpuledger("diff", saved, after)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "its busy time is not its compute" in refused.stderr


def test_where_little_is_known_nothing_is_said_of_work_and_pace(odd_head: Path, without_shapes: Path) -> None:
    told = compared(odd_head, without_shapes)
    assert (told["busy"], told["not_measured"]["busy"]) == ([], "little is known of the compute of one run")
    assert "busy" not in compared(odd_head, odd_head)["not_measured"]
    assert "Work or pace" not in gpuledger("diff", odd_head, without_shapes).stdout


# the whole step


def test_a_step_at_light_is_its_light_and_what_is_no_compute_of_it(odd_head: Path) -> None:
    told = json.loads(gpuledger("report", odd_head, "--format=json").stdout)
    [device] = told["devices"]
    at_light, busy, steps = (device["steady"][key] for key in ("at_light", "busy", "steps"))
    exposed = sum(line["ns"] for line in device["steady"]["ledger"] if line["line"] in ("comm", "copy"))
    assert at_light["step_ns"] == (busy["light_ns"] + busy["unknown_ns"] + exposed) // steps
    shares = at_light["mfu_share"] + at_light["bandwidth_share"]
    assert shares == pytest.approx(busy["light_ns"] / device["steady"]["steady_ns"])
    assert at_light["mfu_share"] == pytest.approx(
        2 * 8192 * 4096 * 32001 / 989.4e12 / at_light["now_ns"] * 1e9, rel=1e-3
    )
    text = gpuledger("report", odd_head).stdout
    assert "At light and never idle this step could take 2.28 ms on this GPU, not 15.9 ms." in " ".join(text.split())


def test_where_too_much_is_unknown_a_step_at_light_is_not_told(odd_head: Path) -> None:
    recorded = json.loads(odd_head.read_text())
    for name in ("aten::mm", "aten::matmul"):
        *_, last = sorted((event for event in recorded["traceEvents"] if event["name"] == name), key=lambda e: e["ts"])
        del last["args"]["Input Dims"]
    path = odd_head.with_name("third_unknown.json")
    path.write_text(json.dumps(recorded))
    [device] = json.loads(gpuledger("report", path, "--format=json").stdout)["devices"]
    assert device["steady"]["at_light"] is None
    assert "could take at light is not known: 32.7 %" in " ".join(gpuledger("report", path).stdout.split())


# the page


def test_operators_under_the_roofs_are_what_their_shapes_say(light: Path) -> None:
    kernels = steady(light / "tuned_attention.tuned.json")
    found = operator_roofline(kernels)
    assert found is not None
    assert found.compute_per_s == {"bf16": pytest.approx(989.4e12, rel=0.01)}
    [point] = found.points
    assert point.name == "aten::_flash_attention_forward"
    assert point.operations_per_s * point.took_ns / 1e9 == pytest.approx(point.flops)
    assert point.operations_per_s <= 989.4e12
    assert 0.2 < point.share < 0.5  # FlashAttention 2 on an H200


def test_without_shapes_there_is_no_roofline_of_operators(without_shapes: Path) -> None:
    assert operator_roofline(steady(without_shapes)) is None


def test_the_page_has_the_roofline_and_gauges_of_light(odd_head: Path, without_shapes: Path, tmp_path: Path) -> None:
    page, other = tmp_path / "odd.html", tmp_path / "other.html"
    for profile, path in ((odd_head, page), (without_shapes, other)):
        assert gpuledger("report", profile, f"--output={path}").exit_code == 0
    text = page.read_text()
    assert 'id="operator-roofline-chart"' in text
    assert "aten::mm (8192x4096, 4096x32001): 138 TFLOP/s, 14.0 %" in text
    assert "At light and never idle this step could take" in text
    assert 'id="operator-roofline-chart"' not in other.read_text()
