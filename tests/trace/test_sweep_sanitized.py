"""The compiled passes under the sanitizers of addresses, undefined behaviour and threads, on random columns.

A taste of what `make -C fuzz sweep` does for hours.
"""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from support.command import ROOT

FUZZ = ROOT / "fuzz"
pytestmark = pytest.mark.skipif(not FUZZ.is_dir(), reason="the fuzzers are not part of what was unpacked")


def built(target: Path, sanitizers: str, sweep: Path = ROOT / "src/gpuledger/trace/native/sweep.c") -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no compiler")
    options = ("-g", "-O1", "-std=c11", f"-fsanitize={sanitizers}", "-fno-sanitize-recover=all", f"-I{FUZZ}")
    sources = (FUZZ / "sweep_fuzz.c", FUZZ / "replay.c", sweep)
    done = subprocess.run([compiler, *options, *sources, "-lpthread", "-o", target], capture_output=True, check=False)
    if done.returncode and b"san" in done.stderr:
        pytest.skip("the compiler has no such sanitizer")
    assert done.returncode == 0, done.stderr.decode()
    return target


def inputs(folder: Path, count: int) -> list[Path]:
    chance = random.Random(23)
    files = [folder / str(number) for number in range(count)]
    for file in files:
        size = chance.choice((5, 9, 41, 201, 801, 4001))
        file.write_bytes(bytes(chance.choice((0, 40, 41, 42, chance.randrange(256))) for _ in range(size)))
    return files


def ran(program: Path, files: list[Path]) -> subprocess.CompletedProcess[str]:
    environment = {"ASAN_OPTIONS": "detect_leaks=0"}  # they cannot be looked for where a debugger runs us
    return subprocess.run([program, *files], capture_output=True, text=True, env=environment, check=False)


@pytest.mark.parametrize("sanitizers", ["address,undefined", "thread"])
def test_random_columns_break_nothing(tmp_path: Path, sanitizers: str) -> None:
    done = ran(built(tmp_path / "replay", sanitizers), inputs(tmp_path, 60))
    if "unexpected memory mapping" in done.stderr:
        pytest.skip("this kernel lays memory out in a way that the thread sanitizer does not know")
    assert done.returncode == 0, done.stderr[-3000:]


def test_a_fault_is_seen(tmp_path: Path) -> None:
    """A pass that writes one span beyond its room."""
    source = (ROOT / "src/gpuledger/trace/native/sweep.c").read_text()
    faulty = source.replace(
        "    for (size_t at = 0; at < in.count && !ends(at); at++) {\n        int64_t own",
        "    for (size_t at = 0; at <= in.count && !ends(at); at++) {\n        int64_t own",
        1,
    )
    assert faulty != source
    (tmp_path / "sweep.h").write_text((ROOT / "src/gpuledger/trace/native/sweep.h").read_text())
    (tmp_path / "sweep.c").write_text(faulty)
    done = ran(built(tmp_path / "faulty", "address,undefined", tmp_path / "sweep.c"), inputs(tmp_path, 20))
    assert done.returncode != 0
    assert "buffer-overflow" in done.stderr
