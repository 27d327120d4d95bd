"""The planted causes as programs, on the CPU: they run, both variants compute the right numbers, the lists are whole.

What they lose, and that they lose it for the planted reason, shows only on a GPU.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from typing import Any

import pytest

from support.command import ROOT
from support.traces.planted_findings import EXPECTED

torch = pytest.importorskip("torch")

from lab.programs import zoo, zoo_llm  # noqa: E402
from lab.programs.zoo import TOLERANCE, build, error_of  # noqa: E402

FINDINGS = {
    "zoo": EXPECTED,
    "zoo_llm": {
        **dict.fromkeys(("nonzero", "sample_loop", "event_wait"), "HOST-SYNC"),
        **dict.fromkeys(("growing_alloc", "pinned_alloc"), "HOST-ALLOC"),
        **dict.fromkeys(("optimizer", "moe_loop"), "LAUNCH-BOUND"),
        "python_between": "HOST-CODE",
        "file_wait": "HOST-OS",
        "thread_wait": "HOST-THREAD",
        "mixed_types": "CAST",
        "pageable_out": "COPY-PAGEABLE",
        "exposed_out": "COPY-EXPOSED",
        "small_reads": "HOST-COPY",
        "stream_chain": "DEVICE-WAIT",
    },
}
KEYS = ["case", "variant", "device", "steps", "step_ms_median", "step_ms_p10", "step_ms_p90", "checked"]


def started(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", f"lab.programs.{module}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, cwd=ROOT)


@pytest.mark.parametrize("fixed", [False, True], ids=["bad", "fixed"])
@pytest.mark.parametrize("case", [*zoo.CASES, *zoo_llm.CASES], ids=lambda case: case.name)
def test_a_case_runs_and_its_numbers_are_right(
    case: zoo.PlantedCase, fixed: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    options = argparse.Namespace(device="cpu", fixed=fixed, seed=0, steps=4, warmup=1, cuda_profiler=False)
    torch.manual_seed(0)
    with torch.no_grad():
        said: dict[str, Any] = zoo.run(case, options)
    assert capsys.readouterr().err.split()[:-1] == (["norm"] if case in zoo_llm.CASES else [])
    assert list(said) == KEYS
    assert [said[key] for key in KEYS[:4]] == [case.name, "fixed" if fixed else "bad", "cpu", 4]
    assert said["checked"] is True
    assert 0 < said["step_ms_p10"] <= said["step_ms_median"] <= said["step_ms_p90"]


@pytest.mark.parametrize("module", FINDINGS)
def test_the_list_names_every_case_and_its_finding(module: str) -> None:
    ran = started(module, "--list")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert {line.split()[0]: line.split()[1] for line in ran.stdout.splitlines()} == FINDINGS[module]


def test_every_expected_finding_has_a_page() -> None:
    pages = {path.stem for path in (ROOT / "src" / "gpuledger" / "findings" / "explain").glob("*.md")}
    assert {code for cases in FINDINGS.values() for code in cases.values()} - pages == set()


def test_wrong_numbers_are_caught() -> None:
    """The step of another batch must not pass the check, or the check says nothing."""
    for case in zoo.CASES:
        core = build(case.size.small(), "cpu", 0)
        for variant in (case.bad, case.fixed):
            output = variant(core)(4)
            assert error_of(core, output, case.source(core, 4)) < TOLERANCE / 2
            assert error_of(core, output, case.source(core, 5)) > 10 * TOLERANCE


@pytest.mark.parametrize("case", zoo_llm.CASES, ids=lambda case: case.name)
def test_every_step_of_a_variant_gives_the_other_variants_numbers(case: zoo.PlantedCase) -> None:
    """A norm can agree by chance, and other steps' numbers must not pass, or the comparison says nothing."""
    outputs = []
    for variant in (case.bad, case.fixed):
        torch.manual_seed(0)
        with torch.no_grad():
            step = variant(build(case.size.small(), "cpu", 0))
            outputs.append([step(index).float() for index in range(3)])
    for index, (bad, fixed) in enumerate(zip(*outputs, strict=True)):
        assert (bad - fixed).norm() < TOLERANCE / 2 * fixed.norm()
        assert (bad - outputs[1][index - 1]).norm() > 10 * TOLERANCE * fixed.norm()


@pytest.mark.parametrize("number", [0.0, float("inf"), float("nan")])
def test_an_output_that_says_nothing_is_caught(number: float, capsys: pytest.CaptureFixture[str]) -> None:
    case = zoo_llm.CASES[0]
    core = build(case.size.small(), "cpu", 0)
    assert not case.check(core, torch.full((2, 2), number), core.batch(0)) < TOLERANCE
    assert capsys.readouterr().err == f"norm {number:.3f}\n"


@pytest.mark.parametrize("module", FINDINGS)
def test_a_case_is_one_line_of_json(module: str) -> None:
    ran = started(module, next(iter(FINDINGS[module])), "--device=cpu", "--steps=1", "--warmup=0", "--fixed")
    assert ran.returncode == 0, ran.stderr
    (line,) = ran.stdout.splitlines()
    assert list(json.loads(line)) == KEYS


@pytest.mark.parametrize("module", FINDINGS)
@pytest.mark.parametrize("arguments", ["no_such_case", "", "{} --steps=0", "{} --warmup=-1", "{} --device=tpu"])
def test_a_wrong_command_line_is_refused(module: str, arguments: str) -> None:
    ran = started(module, *arguments.format(next(iter(FINDINGS[module]))).split())
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "error: " in ran.stderr
