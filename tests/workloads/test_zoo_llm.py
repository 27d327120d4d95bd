"""The planted causes in pieces of LLM programs, on the CPU: they run, and both variants compute the same numbers.

What they lose, and that they lose it for the planted reason, shows only on a GPU.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from support.command import ROOT

torch = pytest.importorskip("torch")

FINDINGS = {
    "nonzero": "HOST-SYNC",
    "sample_loop": "HOST-SYNC",
    "python_between": "HOST-CODE",
    "file_wait": "HOST-OS",
    "thread_wait": "HOST-THREAD",
    "growing_alloc": "HOST-ALLOC",
    "pinned_alloc": "HOST-ALLOC",
    "pageable_out": "COPY-PAGEABLE",
    "optimizer": "LAUNCH-BOUND",
    "event_wait": "HOST-SYNC",
    "stream_chain": "DEVICE-WAIT",
    "exposed_out": "COPY-EXPOSED",
    "small_reads": "HOST-COPY",
    "mixed_types": "CAST",
    "moe_loop": "LAUNCH-BOUND",
}
KEYS = ["case", "variant", "device", "steps", "step_ms_median", "step_ms_p10", "step_ms_p90", "checked"]
PAGES = ROOT / "src" / "gpuledger" / "findings" / "explain"


def zoo_llm(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lab.programs.zoo_llm", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, cwd=ROOT)


def norm_of(case: str, variant: str) -> float:
    """The last output's norm, from a run that says all it should."""
    ran = zoo_llm(case, "--device=cpu", "--steps=3", "--warmup=1", *(["--fixed"] if variant == "fixed" else []))
    assert ran.returncode == 0, ran.stderr
    (line,) = ran.stdout.splitlines()
    said = json.loads(line)
    assert list(said) == KEYS
    assert [said[key] for key in ("case", "variant", "device", "steps")] == [case, variant, "cpu", 3]
    assert said["checked"] is True
    assert 0 < said["step_ms_p10"] <= said["step_ms_median"] <= said["step_ms_p90"]
    word, number = ran.stderr.split()  # and nothing else: no warning
    assert word == "norm"
    return float(number)


@pytest.mark.parametrize("case", FINDINGS)
def test_both_variants_run_and_give_the_same_norm(case: str) -> None:
    assert norm_of(case, "bad") == pytest.approx(norm_of(case, "fixed"), rel=1e-3)


def test_the_list_names_every_case_and_its_finding() -> None:
    ran = zoo_llm("--list")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert {line.split()[0]: line.split()[1] for line in ran.stdout.splitlines()} == FINDINGS


@pytest.mark.parametrize("finding", sorted(set(FINDINGS.values())))
def test_every_expected_finding_has_a_page(finding: str) -> None:
    assert (PAGES / f"{finding}.md").is_file()


@pytest.mark.parametrize("name", FINDINGS)
def test_every_step_of_a_variant_gives_the_other_variants_numbers(name: str) -> None:
    """A norm can agree by chance, and other steps' numbers must not pass, or the comparison says nothing."""
    from lab.programs.zoo import TOLERANCE, build
    from lab.programs.zoo_llm import CASES

    (case,) = (each for each in CASES if each.name == name)
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
    from lab.programs.zoo import TOLERANCE, build
    from lab.programs.zoo_llm import CASES

    core = build(CASES[0].size.small(), "cpu", 0)
    assert not CASES[0].check(core, torch.full((2, 2), number), core.batch(0)) < TOLERANCE
    assert capsys.readouterr().err == f"norm {number:.3f}\n"


@pytest.mark.parametrize("arguments", [["sleep"], [], ["nonzero", "--steps=0"]], ids=" ".join)
def test_a_wrong_command_line_is_refused(arguments: list[str]) -> None:
    ran = zoo_llm(*arguments)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "lab.programs.zoo_llm: error: " in ran.stderr
