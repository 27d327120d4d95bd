"""A mock against a model: the captures are told apart rightly, and one planted difference fails its own check alone."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as Xml

import numpy as np
import pytest
from msgspec.structs import replace
from numpy.typing import NDArray

from gpuledger.analyse.align.alignment import Alignment, alignment
from gpuledger.analyse.align.checks import CHECKS, KNOWN, NOT_MEASURED, TIERS, WARN, KnownDifferences, known
from gpuledger.analyse.align.operation_kernels import Isolation, mock_forwards, model_forwards
from gpuledger.analyse.align.operation_side import side
from gpuledger.catalog.kernel_names import parse
from gpuledger.read import open_trace
from gpuledger.selection import Selection
from gpuledger.trace.model import Trace
from gpuledger.trace.strings import Strings
from gpuledger.trace.tables import Rows, Table
from gpuledger.verdicts import FAIL, PASS
from support.command import CAPTURES, ROOT, gpuledger
from support.pages.schemas import schema_of

pytestmark = pytest.mark.usefixtures("profiles_read_once")

RANGE, AUTO = Isolation("range", "attention"), Isolation("auto")
PATTERN = Isolation("pattern", "layer_norm|nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT|direct_copy|sdpa|CUDAFunctor_add")
PATTERN_OF_BOTH = Isolation("pattern", f"{PATTERN.expression}|debug_check|nvjet_sm90_tst_192x8")
"""What only the mock runs has to match too, to be compared."""
OPERATION = [
    "vectorized_layer_norm_kernel",
    "nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT",
    "elementwise_kernel",
    "elementwise_kernel",
    "cudnn_generated_fort_native_sdpa_sm80_flash_fprop_wmma_f16_knob_3_64x64x128_4x1x1_cga1x1x1_kernel0_0",
    "nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT",
    "vectorized_elementwise_kernel",
]
Unpack = Callable[[str], Path]


@pytest.fixture(scope="module")
def attn(unpacked: Unpack) -> Trace:
    return open_trace(unpacked("attn.sqlite"))


@pytest.fixture(scope="module")
def model(unpacked: Unpack) -> Trace:
    return open_trace(unpacked("decode.sqlite"))


def aligned(
    mock: Trace,
    *models: Trace,
    isolation: Isolation = RANGE,
    mock_range: str | None = None,
    tier: str = "mock",
    accepted: KnownDifferences | None = None,
) -> Alignment:
    ours = side([mock_forwards(mock, "mock", Selection(), mock_range, isolation)])
    ranks = [
        forwards
        for number, model in enumerate(models)
        for forwards in model_forwards(model, f"rank{number}", Selection(), isolation, ours.kernels)
    ]
    return alignment(ours, side(ranks, ours.kernels), isolation, TIERS[tier], accepted or KnownDifferences())


def verdicts(checked: Alignment) -> dict[str, str]:
    """The checks that do not pass."""
    return {check.check: check.verdict for check in checked.checks if check.verdict != PASS}


# The captures.


@pytest.mark.parametrize("isolation", [RANGE, PATTERN, AUTO], ids=lambda each: str(each.by))
def test_all_ways_to_isolate_find_the_same_operation(attn: Trace, model: Trace, isolation: Isolation) -> None:
    checked = aligned(attn, model, isolation=isolation)
    assert [parse(kernel.name).short for kernel in checked.sides.e2e.kernels] == OPERATION
    assert [parse(kernel.name).short for kernel in checked.sides.mock.kernels] == OPERATION
    assert (checked.sides.mock.forwards, checked.sides.e2e.forwards, checked.sides.e2e.steps) == (20, 8 * 20, 20)
    assert checked.sides.e2e.gpu_ns == pytest.approx(25_900, rel=0.03)
    assert checked.sides.mock.gpu_ns == pytest.approx(22_700, rel=0.03)
    assert verdicts(checked) == {"latency": WARN}


@pytest.mark.parametrize(
    "pattern", ["flash|fmha", "sdpa", "direct_copy|sdpa", "nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT"]
)
def test_a_pattern_of_some_kernels_finds_the_forwards_that_a_range_finds(
    attn: Trace, model: Trace, pattern: str
) -> None:
    """The mock's other kernels are no more compared than the model's."""
    whole, checked = aligned(attn, model), aligned(attn, model, isolation=Isolation("pattern", pattern))
    for ours, theirs in ((checked.sides.mock, whole.sides.mock), (checked.sides.e2e, whole.sides.e2e)):
        matching = [kernel.name for kernel in theirs.kernels if re.search(pattern, kernel.name)]
        assert [kernel.name for kernel in ours.kernels] == matching
        assert (ours.forwards, ours.steps) == (theirs.forwards, theirs.steps)
    assert set(verdicts(checked)) <= {"latency"}
    assert "mock: left out because they do not match the pattern: " in "\n".join(checked.notes)


def test_what_differs_is_said(attn: Trace, model: Trace) -> None:
    """The mock makes a plan for a new length in each forward, the model in the first layer of each step."""
    checked = aligned(attn, model)
    latency = next(check for check in checked.checks if check.check == "latency")
    assert "1.14x faster" in latency.evidence[0]
    assert latency.evidence[1].startswith("nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT (2 calls)")
    assert "cache" in (latency.remedy or "")
    said = "\n".join(checked.notes)
    assert "8 in each of 20 steps, the first left out" in said
    assert re.search(r"the mock waits \d\d\.\d ms before cudnn_generated.* in 19 of 19 forwards", said)
    assert "in 19 of 159 forwards, each the first of its step" in said
    assert "each forward of the mock pays for a first call" in said
    assert checked.conclusion.startswith("ALIGNED WITH REMARKS: ")


def test_the_model_is_its_own_mock(model: Trace) -> None:
    checked = aligned(model, model, mock_range="attention", tier="same-module")
    assert (checked.verdict, verdicts(checked)) == (PASS, {})
    assert all(row.level == "exact" and row.same_shape and row.ratio == 1.0 for row in checked.sides.rows)
    assert checked.conclusion == "ALIGNED: the mock runs what the model runs, in 1.00x its time."


def test_the_same_module_has_to_be_closer(attn: Trace, model: Trace) -> None:
    assert verdicts(aligned(attn, model, tier="same-module")) == {"latency": FAIL}


@pytest.mark.parametrize(("mock", "e2e"), [("attn", "decode"), ("attn", "graph")])
def test_torch_traces_align_as_nsys_ones_do(mock: str, e2e: str, unpacked: Unpack) -> None:
    torch = [open_trace(ROOT / "captures" / "torch" / f"{name}.json.gz") for name in (mock, e2e)]
    nsys = [open_trace(unpacked(f"{name}.sqlite")) for name in (mock, e2e)]
    ours, theirs = (aligned(*pair, isolation=AUTO) for pair in (torch, nsys))
    assert verdicts(ours) == verdicts(theirs)
    assert verdicts(ours).get("graph") == (WARN if e2e == "graph" else None)
    for our_side, their_side in ((ours.sides.mock, theirs.sides.mock), (ours.sides.e2e, theirs.sides.e2e)):
        assert [parse(kernel.name).bare for kernel in our_side.kernels] == [
            parse(kernel.name).bare for kernel in their_side.kernels
        ]
        assert our_side.gpu_ns == pytest.approx(their_side.gpu_ns, rel=0.03)


# One planted difference.


def matching(trace: Trace, pattern: str) -> NDArray[np.bool_]:
    return np.array([bool(re.search(pattern, name or "")) for name in trace[Table.KERNELS].texts("name")])


def with_kernels(trace: Trace, rows: Rows, strings: Strings | None = None) -> Trace:
    return replace(trace, tables={**trace.tables, Table.KERNELS: rows}, strings=strings or trace.strings)


def renamed(trace: Trace, which: NDArray[np.bool_], name: str) -> Trace:
    strings = Strings((*trace.strings.texts, name))
    rows = trace[Table.KERNELS]
    codes = np.where(which, strings.code(name), rows.codes("name")).astype(np.int32)
    columns = {column.name: rows[column.name] for column in rows.schema.columns} | {"name": codes}
    return with_kernels(trace, Rows(rows.schema, columns, strings), strings)


def more(trace: Trace, which: NDArray[np.bool_], name: str | None, length_ns: int, times: int = 1) -> Trace:
    """After each of these kernels, others launched by the same call: under a new name, or the same."""
    for time in range(times):
        rows = trace[Table.KERNELS]
        count, copied = len(rows), np.flatnonzero(which[: len(rows)] if time == 0 else which)
        rows = rows.at(np.concatenate((np.arange(count), copied)))
        added = np.arange(len(rows)) >= count
        start = np.where(added, rows["end_ns"] + 100 + time * (length_ns + 100), rows["start_ns"])
        rows = rows.replaced("start_ns", start)
        rows = rows.replaced("end_ns", np.where(added, start + length_ns, rows["end_ns"]))
        trace = with_kernels(trace, rows)
        if name is not None:
            trace = renamed(trace, added, name)
        which = np.append(which, np.zeros(int(added.sum()), np.bool_))
    return trace


def removed(trace: Trace, which: NDArray[np.bool_]) -> Trace:
    return with_kernels(trace, trace[Table.KERNELS].where(~which))


def slowed(trace: Trace, which: NDArray[np.bool_], times: int) -> Trace:
    rows = trace[Table.KERNELS]
    end = np.where(which, rows["start_ns"] + times * rows.duration_ns, rows["end_ns"])
    return with_kernels(trace, rows.replaced("end_ns", end))


def regridded(trace: Trace, which: NDArray[np.bool_]) -> Trace:
    rows = trace[Table.KERNELS]
    grid = np.where(which[:, None], rows["grid"] * np.array([1, 1, 2], np.int32), rows["grid"]).astype(np.int32)
    return with_kernels(trace, rows.replaced("grid", grid))


def in_graph(trace: Trace) -> Trace:
    rows = trace[Table.KERNELS]
    return with_kernels(trace, rows.replaced("graph_node", np.arange(len(rows), dtype=np.int64)))


def second_gemm(trace: Trace) -> NDArray[np.bool_]:
    """The output projection: the same kernel as the input's, in another grid."""
    narrow: NDArray[np.bool_] = trace[Table.KERNELS]["grid"][:, 1] == 8
    return matching(trace, "nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT") & narrow


PLANTED: dict[str, tuple[Callable[[Trace], Trace], dict[str, str]]] = {
    "attention removed": (lambda t: removed(t, matching(t, "sdpa")), {"missing": FAIL}),
    "one of two GEMMs removed": (lambda t: removed(t, second_gemm(t)), {"missing": FAIL}),
    "a small kernel removed": (lambda t: removed(t, matching(t, "CUDAFunctor_add")), {"missing": WARN}),
    "a kernel added": (lambda t: more(t, matching(t, "sdpa"), "void debug_check(int)", 3_000), {"extra": FAIL}),
    "a small kernel added": (lambda t: more(t, matching(t, "sdpa"), "void debug_check(int)", 500), {"extra": WARN}),
    "one call more": (lambda t: more(t, matching(t, "direct_copy") & first_of_two(t), None, 1_000), {"counts": WARN}),
    "many calls more": (lambda t: more(t, matching(t, "sdpa"), None, 5_000, 3), {"counts": FAIL}),
    "a GEMM retiled": (
        lambda t: renamed(t, second_gemm(t), "nvjet_sm90_tst_192x8_64x10_2x1_v_bz_TNT"),
        {"names": WARN},
    ),
    "a GEMM retiled, with its grid": (
        lambda t: regridded(renamed(t, second_gemm(t), "nvjet_sm90_tst_192x8_64x10_2x1_v_bz_TNT"), second_gemm(t)),
        {"names": WARN},
    ),
    "another kernel for attention": (
        lambda t: renamed(t, matching(t, "sdpa"), "void reference_thing(float*)"),
        {"names": FAIL},
    ),
    "a GEMM slowed 3 x": (lambda t: slowed(t, second_gemm(t), 3), {"latency": WARN}),
    "a norm slowed 3 x": (lambda t: slowed(t, matching(t, "layer_norm"), 3), {"latency": WARN}),
    "everything slowed 3 x": (lambda t: slowed(t, matching(t, "."), 3), {"latency": FAIL}),
    "in a graph": (in_graph, {"graph": WARN}),
    "another grid": (lambda t: regridded(t, matching(t, "sdpa")), {"shape": WARN}),
}


def first_of_two(trace: Trace) -> NDArray[np.bool_]:
    """Every other one of the copies."""
    chosen = np.zeros(len(trace[Table.KERNELS]), np.bool_)
    chosen[np.flatnonzero(matching(trace, "direct_copy"))[::2]] = True
    return chosen


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_difference_fails_its_own_check_alone(name: str, model: Trace) -> None:
    """The mock is the model's own attention, which passes all checks, with one difference."""
    plant, expected = PLANTED[name]
    checked = aligned(plant(model), model, mock_range="attention")
    assert verdicts(checked) == expected
    for check in checked.checks:
        assert (check.remedy is not None) == (check.verdict in (WARN, FAIL))
        assert bool(check.evidence) == (check.verdict != PASS)


@pytest.mark.parametrize("name", ["attention removed", "a kernel added", "a GEMM retiled", "another grid"])
@pytest.mark.parametrize("isolation", [PATTERN_OF_BOTH, AUTO], ids=lambda each: str(each.by))
def test_the_operation_is_found_though_the_mock_differs(
    name: str, isolation: Isolation, attn: Trace, model: Trace
) -> None:
    plant, expected = PLANTED[name]
    checked = aligned(plant(attn), model, isolation=isolation, mock_range="attention")
    assert (verdicts(checked), checked.sides.e2e.forwards) == ({"latency": WARN} | expected, 160)
    assert [parse(kernel.name).short for kernel in checked.sides.e2e.kernels] == OPERATION


# Ranks.


def test_of_several_ranks_the_one_that_computes_longest_counts(attn: Trace, model: Trace) -> None:
    slow = slowed(model, matching(model, "sdpa"), 2)
    alone, both = aligned(attn, slow), aligned(attn, model, slow)
    assert both.sides.e2e.gpu_ns == alone.sides.e2e.gpu_ns > aligned(attn, model).sides.e2e.gpu_ns
    assert (both.sides.e2e.ranks, both.sides.e2e.profile) == (2, "rank1")
    assert "of 2 ranks, each layer is taken from the rank that computes longest" in "\n".join(both.notes)


def test_ranks_may_lie_in_a_folder(unpacked: Unpack, tmp_path: Path) -> None:
    for name in ("rank0.sqlite", "rank1.sqlite"):
        (tmp_path / name).write_bytes(unpacked("decode.sqlite").read_bytes())
    content = json.loads(gpuledger("align", unpacked("attn.sqlite"), tmp_path, "--format=json").stdout)
    assert (content["e2e"]["ranks"], content["e2e"]["forwards"]) == (2, 160)
    both = json.loads(gpuledger("align", unpacked("attn.sqlite"), *sorted(tmp_path.iterdir()), "--format=json").stdout)
    assert both == content


# What is known.


def test_a_known_kernel_is_a_note_in_whatever_check_finds_it(model: Trace) -> None:
    plant, expected = PLANTED["a kernel added"]
    content = {"difference": [{"kernel": "debug_", "reason": "counts NaNs"}, {"kernel": "rope", "reason": "gone"}]}
    checked = aligned(plant(model), model, mock_range="attention", accepted=known(content, "known.toml", CHECKS))
    assert verdicts(checked) == dict.fromkeys(expected, KNOWN)
    assert "known difference no longer present: kernel 'rope'" in checked.notes


# The command.


@pytest.mark.parametrize("options", [["--range=attention"], [f"--pattern={PATTERN.expression}"], ["--auto"], []])
def test_json_is_valid_against_its_schema(options: list[str], unpacked: Unpack) -> None:
    ran = gpuledger("align", unpacked("attn.sqlite"), unpacked("decode.sqlite"), "--format=json", *options)
    content = json.loads(ran.stdout)
    schema_of("align").validate(content)
    assert [check["check"] for check in content["checks"]] == list(CHECKS)
    assert (content["mock"]["forwards"], content["e2e"]["forwards"]) == (20, 160)
    assert [kernel["match"] for kernel in content["kernels"]] == ["exact"] * 7


def test_the_gate_trips_on_a_failure_only(unpacked: Unpack, tmp_path: Path) -> None:
    both = unpacked("attn.sqlite"), unpacked("decode.sqlite"), "--range=attention", "--gate"
    assert gpuledger("align", *both).exit_code == 0
    report = tmp_path / "align.xml"
    ran = gpuledger("align", *both, "--tier=same-module", f"--junit={report}")
    assert (ran.exit_code, ran.stdout[:6]) == (3, "NOT AL")
    assert ran.stderr == f"Wrote {report}\n"
    suite = Xml.fromstring(report.read_text())  # noqa: S314  our own
    suite = suite if suite.tag == "testsuite" else suite[0]
    assert len(suite.findall("testcase")) == 7
    [failed] = [case for case in suite.findall("testcase") if case.find("failure") is not None]
    assert failed.get("name") == "latency per forward"
    file = tmp_path / "known.toml"
    file.write_text('[[difference]]\ncheck = "latency"\nreason = "L2"\n')
    assert gpuledger("align", *both, "--tier=same-module", f"--known={file}").exit_code == 0
    again = gpuledger("align", *both, f"--junit={report}")
    assert (again.exit_code, again.stdout) == (1, "")
    assert "exists already" in again.stderr


# Only tables were kept.

TABLE = "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n"


def table(path: Path, *rows: tuple[str, int, int]) -> Path:
    lines = [f"1.0,{total},{count},{total / count:.1f},1.0,1,1,0.0,{name}\n" for name, count, total in rows]
    path.write_text(TABLE + "".join(lines))
    return path


def test_tables_of_the_captures_are_cut_into_forwards(tmp_path: Path) -> None:
    """Prefill is in the model's table too, and its norms and additions are the MLP's as well."""
    mock, e2e = (CAPTURES / f"{name}.nsys-stats" / "cuda_gpu_kern_sum.csv" for name in ("attn", "decode"))
    content = json.loads(
        gpuledger("align", mock, e2e, "--format=json", "--pattern=nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT|sdpa").stdout
    )
    assert (content["mock"]["forwards"], content["e2e"]["forwards"]) == (20, 160)
    by_check = {check["check"]: check["verdict"] for check in content["checks"]}
    assert by_check["graph"] == by_check["shape"] == NOT_MEASURED
    assert (by_check["counts"], by_check["missing"], by_check["extra"]) == (PASS, PASS, PASS)
    auto = json.loads(gpuledger("align", mock, e2e, "--format=json").stdout)
    by_check_auto = {check["check"]: check["verdict"] for check in auto["checks"]}
    unknown = dict.fromkeys(("counts", "missing", "graph", "shape"), NOT_MEASURED)  # other operations norm and add too
    assert by_check_auto == {"names": PASS, "extra": PASS, "latency": WARN} | unknown


def test_a_trace_may_be_compared_with_a_table(unpacked: Unpack) -> None:
    folder = CAPTURES / "attn.nsys-stats"
    content = json.loads(gpuledger("align", unpacked("attn.sqlite"), folder, "--format=json").stdout)
    assert (content["verdict"], content["mock"]["forwards"], content["e2e"]["forwards"]) == (PASS, 20, 20)
    back = json.loads(gpuledger("align", folder, unpacked("attn.sqlite"), "--range=attention", "--format=json").stdout)
    assert (back["verdict"], back["mock"]["forwards"], back["e2e"]["forwards"]) == (PASS, 20, 20)
    assert gpuledger("align", folder, unpacked("attn.sqlite")).stderr.startswith("error: the mock's table has no order")


def test_a_table_knows_no_ranges(tmp_path: Path) -> None:
    path = table(tmp_path / "t.csv", ("k", 1, 10))
    ran = gpuledger("align", path, path, "--range=x")
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert "does not say what ran in which range" in ran.stderr
