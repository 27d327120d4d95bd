"""The planted causes as programs, on the CPU: they run, both variants compute the right numbers, and the list is whole.

What they lose, and that they lose it for the planted reason, shows only on a GPU.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from support.command import ROOT
from support.traces.planted_findings import EXPECTED

pytest.importorskip("torch")

KEYS = ["case", "variant", "device", "steps", "step_ms_median", "step_ms_p10", "step_ms_p90", "checked"]


def zoo(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lab.programs.zoo", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, cwd=ROOT)


@pytest.mark.parametrize("variant", ["bad", "fixed"])
@pytest.mark.parametrize("case", EXPECTED)
def test_a_case_runs_and_its_numbers_are_right(case: str, variant: str) -> None:
    ran = zoo(case, "--device=cpu", "--steps=4", "--warmup=1", *(["--fixed"] if variant == "fixed" else []))
    assert (ran.returncode, ran.stderr) == (0, "")
    (line,) = ran.stdout.splitlines()
    said = json.loads(line)
    assert list(said) == KEYS
    assert [said[key] for key in ("case", "variant", "device", "steps")] == [case, variant, "cpu", 4]
    assert said["checked"] is True
    assert 0 < said["step_ms_p10"] <= said["step_ms_median"] <= said["step_ms_p90"]


def test_the_list_names_every_case_and_its_finding() -> None:
    ran = zoo("--list")
    assert ran.returncode == 0
    assert {line.split()[0]: line.split()[1] for line in ran.stdout.splitlines()} == EXPECTED


def test_wrong_numbers_are_caught() -> None:
    """The step of another batch must not pass the check, or the check says nothing."""
    from lab.programs.zoo import CASES, TOLERANCE, build, error_of

    for case in CASES:
        core = build(case.size.small(), "cpu", 0)
        for variant in (case.bad, case.fixed):
            output = variant(core)(4)
            assert error_of(core, output, case.source(core, 4)) < TOLERANCE / 2
            assert error_of(core, output, case.source(core, 5)) > 10 * TOLERANCE


@pytest.mark.parametrize(
    "arguments",
    [["no_such_case"], [], ["sleep", "--steps=0"], ["sleep", "--warmup=-1"], ["sleep", "--device=tpu"]],
    ids=" ".join,
)
def test_a_wrong_command_line_is_refused(arguments: list[str]) -> None:
    ran = zoo(*arguments)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "error: " in ran.stderr
