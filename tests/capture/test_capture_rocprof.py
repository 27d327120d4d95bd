"""`capture rocprof`: the command for rocprofv3, and what becomes of what it writes. No AMD GPU was at hand."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from gpuledger.capture.output_files import CapturePlace
from gpuledger.capture.rocprof import RocprofWishes, rocprof_flags
from support.command import gpuledger
from support.profiles.rocm_files import rocpd

PLACE = CapturePlace(Path("/runs"), "bench", "_results.db")
OUTPUT = ["--output-format=rocpd", "--output-directory=/runs", "--output-file=bench_%pid%"]


@pytest.mark.parametrize(
    ("wishes", "options"),
    [
        (RocprofWishes(), ["--runtime-trace"]),
        (RocprofWishes(hsa=True), ["--sys-trace"]),
        (
            RocprofWishes(counters=("SQ_WAVES", "GRBM_COUNT"), kernel="gemm"),
            ["--runtime-trace", "--pmc=SQ_WAVES,GRBM_COUNT", "--kernel-include-regex=gemm"],
        ),
        (
            RocprofWishes(delay=2, duration=0.5),
            ["--runtime-trace", "--collection-period=2:0.5:1", "--collection-period-unit=sec"],
        ),
    ],
)
def test_every_wish_is_an_option_with_its_reason(wishes: RocprofWishes, options: list[str]) -> None:
    flags = rocprof_flags(wishes, PLACE)
    assert [flag for flag, _ in flags] == options + OUTPUT
    assert all(why for _, why in flags)


def test_a_dry_run_prints_the_command(tmp_path: Path) -> None:
    ran = gpuledger(
        "capture", "rocprof", "--dry-run", "-o", tmp_path / "run", "--", "python", "bench.py", COLUMNS="300"
    )
    assert ran.exit_code == 0
    assert ran.stdout.startswith("rocprofv3 --runtime-trace --output-format=rocpd ")
    assert ran.stdout.rstrip().endswith("--output-file=run_%pid% -- python bench.py")
    assert list(tmp_path.iterdir()) == []


def test_without_rocprofv3_it_says_where_to_get_it(tmp_path: Path) -> None:
    ran = gpuledger("capture", "rocprof", "-o", tmp_path / "run", "--", "ls", PATH="/usr/bin:/bin")
    assert ran.exit_code == 1
    assert "rocprofv3 was not found" in ran.stderr


def test_what_a_tool_of_that_name_writes_is_checked_and_reported(tmp_path: Path) -> None:
    recorded, folder = rocpd(tmp_path / "made.db"), tmp_path / "bin"
    folder.mkdir()
    (folder / "rocprofv3").write_text(f'#!/bin/sh\nexec "{sys.executable}" "{folder}/rocprofv3.py" "$@"\n')
    (folder / "rocprofv3.py").write_text(
        f"""import os, shutil, subprocess, sys
if "--version" in sys.argv:
    sys.exit(print("version: 1.1.0"))
given = dict(word[2:].split("=", 1) for word in sys.argv if word.startswith("--") and "=" in word)
name = given["output-file"].replace("%pid%", str(os.getpid()))
shutil.copy({str(recorded)!r}, os.path.join(given["output-directory"], name + "_results.db"))
sys.exit(subprocess.run(sys.argv[sys.argv.index("--") + 1:]).returncode)
"""
    )
    (folder / "rocprofv3").chmod(0o755)
    ran = gpuledger(
        *("capture", "rocprof", "-o", tmp_path / "run", "--", sys.executable, "-c", "raise SystemExit(3)"),
        PATH=f"{folder}:{os.environ['PATH']}",
    )
    assert ran.exit_code == 3  # the program's own
    assert "rocprofv3" in ran.stdout.splitlines()[0]
    manifest = json.loads((tmp_path / "run.capture.json").read_text())
    assert (manifest["tool"], manifest["state"]) == ("rocprof", "finished")
    [written] = tmp_path.glob("run_*_results.db")
    assert written.read_bytes() == recorded.read_bytes()
