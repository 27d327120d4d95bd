"""The native decoder under the address and undefined-behaviour sanitizers, and against SQLite on random databases.

A taste of what `fuzz/` does for hours: its seeds and some thousand changes to them, in seconds.
"""

from __future__ import annotations

import random
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gpuledger.read import btree
from support.command import NAMES, ROOT
from support.profiles.opened import plain
from support.thorough import IS_THOROUGH, some

FUZZ = ROOT / "fuzz"
SHARED = [
    path
    for path in sorted((ROOT.parent / "shared").glob("c*/nsys/*.sqlite.xz"))
    if path.name.removesuffix(".sqlite.xz") not in NAMES  # those are our own, which the decoder's tests read
]
SANITIZED = (
    "-g",
    "-O1",
    "-std=c11",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    "-DBLOCK_BYTES=65536",
)

pytestmark = pytest.mark.skipif(not FUZZ.is_dir(), reason="the fuzzers are not part of what was unpacked")


def built(target: Path, block_bytes: int = 65536) -> Path:
    """The harness, compiled so that it reads files."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no compiler")
    sources = (FUZZ / "btree_fuzz.c", FUZZ / "replay.c", ROOT / "src/gpuledger/trace/native/btree.c")
    options = (*SANITIZED, f"-DBLOCK_BYTES={block_bytes}")
    done = subprocess.run([compiler, *options, *sources, "-o", target], capture_output=True, check=False)
    if done.returncode and b"asan" in done.stderr:
        pytest.skip("the compiler has no sanitizers")
    assert done.returncode == 0, done.stderr.decode()
    return target


@pytest.fixture(scope="module")
def replay(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("sanitized") / "replay")


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("seeds")
    subprocess.run([sys.executable, FUZZ / "seeds.py", folder], check=True)
    return folder / "looks"


def ran(program: Path, files: list[Path]) -> subprocess.CompletedProcess[str]:
    # leaks cannot be looked for where a debugger or a tracer runs us, so that is left to the fuzzer itself
    environment = {"ASAN_OPTIONS": "detect_leaks=0"}
    return subprocess.run([program, *files], capture_output=True, text=True, env=environment, check=False)


def test_seeds_are_decoded(replay: Path, seeds: Path) -> None:
    files = sorted(seeds.iterdir())
    done = ran(replay, files)
    found = len(files) - 1  # one table has no row ids
    assert (done.returncode, done.stderr.split(", integers")[0]) == (0, f"runs {len(files)}, trees found {found}")


def test_a_fault_is_seen(seeds: Path, tmp_path: Path) -> None:
    """With a buffer that is smaller than a page, reading the page writes beyond it."""
    done = ran(built(tmp_path / "faulty", block_bytes=1024), [seeds / "plain-4096"])
    assert done.returncode != 0
    assert "heap-buffer-overflow" in done.stderr


@pytest.mark.parametrize("number", range(4))
def test_changed_seeds_break_nothing(replay: Path, seeds: Path, tmp_path: Path, number: int) -> None:
    chance = random.Random(number)
    files = []
    for at in range(400):
        content = bytearray(chance.choice(sorted(seeds.iterdir())).read_bytes())
        for _ in range(chance.randint(1, 12)):
            content[chance.randrange(len(content))] = chance.choice((0, 1, 5, 13, 127, 128, 255, chance.randrange(256)))
        files.append(tmp_path / str(at))
        files[-1].write_bytes(content[: chance.choice((len(content), chance.randrange(len(content))))])
    done = ran(replay, files)
    assert (done.returncode, done.stderr[:9]) == (0, "runs 400,"), done.stderr[-3000:]


@pytest.mark.skipif(not btree.is_there(), reason="the decoder was not compiled")
def test_random_databases_read_the_same(tmp_path: Path) -> None:
    count = 60 if IS_THOROUGH else 20
    done = subprocess.run(
        [sys.executable, FUZZ / "random_databases.py", str(count), "--keep", tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{count} databases" in done.stdout
    assert ", 0 differ; tables " in done.stdout


@pytest.mark.skipif(not btree.is_there(), reason="the decoder was not compiled")
@pytest.mark.skipif(not SHARED, reason="no exports beside the checkout")
@pytest.mark.parametrize("packed", some(SHARED, 3, first=1), ids=lambda path: path.name.split("__")[-1])
def test_exports_that_others_made_read_the_same(packed: Path) -> None:
    counts = runpy.run_path(str(FUZZ / "random_databases.py"))["compare"](plain(packed))
    assert counts["tables"] > counts["tables left to SQLite"]
    assert counts["texts"] > 0
